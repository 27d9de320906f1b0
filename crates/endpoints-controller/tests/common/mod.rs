//! Builders of pods and Services, and a model of the API server.
#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::sync::Arc;

use kube_endpoint_core_model::pod::{ContainerPort, PodPhase, ReadyCondition};
use kube_endpoint_core_model::service::{ServicePort, TargetPort};
use kube_endpoint_core_model::{
    Endpoints, IpFamily, ObjectKey, Pod, ResourceVersion, Service, Timestamp, address,
};
use kube_endpoint_endpoints_controller::plan::{Plan, PlanInputs, PlanOptions, plan};

/// Returns a running pod `n/NAME` on node `node-a`, ready, with these addresses.
pub(crate) fn pod(name: &str, ips: &[&str]) -> Pod {
    let pod_ips: Vec<_> = ips.iter().map(|ip| address::parse_sloppy(ip).unwrap()).collect();
    Pod {
        key: ObjectKey::new("n", name),
        uid: format!("uid-{name}").into(),
        node_name: Some("node-a".into()),
        phase: PodPhase::Running,
        pod_ip: pod_ips.first().copied(),
        has_pod_ip: !pod_ips.is_empty(),
        pod_ips: pod_ips.into(),
        ready: Some(ReadyCondition { is_true: true, last_transition: None }),
        ..Pod::default()
    }
}

pub(crate) fn unready(pod: Pod) -> Pod {
    Pod { ready: Some(ReadyCondition { is_true: false, last_transition: None }), ..pod }
}

pub(crate) fn terminating(pod: Pod) -> Pod {
    Pod { deletion_timestamp: Some(Timestamp::UNIX_EPOCH), ..pod }
}

/// Adds named container ports, all TCP.
pub(crate) fn with_ports(pod: Pod, ports: &[(&str, i32)]) -> Pod {
    let port = |&(name, container_port): &(&str, i32)| ContainerPort {
        name: name.into(),
        container_port,
        protocol: "TCP".into(),
    };
    Pod { ports: ports.iter().map(port).collect(), ..pod }
}

/// Returns a Service `n/web` with one IPv4 cluster IP. Ports are pairs of a name and a target port,
/// by number or name.
pub(crate) fn service(ports: &[(&str, &str)]) -> Service {
    let port = |&(name, target): &(&str, &str)| ServicePort {
        name: name.into(),
        protocol: "TCP".into(),
        port: 80,
        target_port: target.parse().map_or_else(|_| TargetPort::Name(target.into()), TargetPort::Number),
        app_protocol: None,
    };
    Service {
        key: ObjectKey::new("n", "web"),
        labels: [("team", "shop")].into_iter().collect(),
        selector: Some([("app", "web")].into_iter().collect()),
        cluster_ip: "10.96.0.1".into(),
        ip_families: vec![IpFamily::IPv4],
        ports: ports.iter().map(port).collect(),
        ..Service::default()
    }
}

pub(crate) fn headless(service: Service) -> Service {
    Service { cluster_ip: "None".into(), ..service }
}

pub(crate) fn run(
    service: &Service,
    pods: &[Arc<Pod>],
    existing: Option<&Endpoints>,
    options: &PlanOptions,
) -> Plan {
    plan(&PlanInputs::new(service, pods).with_existing(existing).with_options(options))
}

pub(crate) fn arcs(pods: impl IntoIterator<Item = Pod>) -> Vec<Arc<Pod>> {
    pods.into_iter().map(Arc::new).collect()
}

/// Returns the object after the writes of a plan.
pub(crate) fn apply(existing: Option<Endpoints>, plan: &Plan) -> Option<Endpoints> {
    match (plan.writes.create.as_slice(), plan.writes.update.as_slice()) {
        ([], []) => existing,
        ([created], []) => {
            assert!(created.metadata.resource_version.is_none());
            let mut created = created.clone();
            created.metadata.resource_version = ResourceVersion(1);
            created.metadata.uid = "made".into();
            Some(created)
        }
        ([], [updated]) => {
            let existing = existing.expect("an update replaces something");
            assert_eq!(updated.metadata.resource_version, existing.metadata.resource_version);
            assert_eq!(updated.metadata.uid, existing.metadata.uid);
            let mut updated = updated.clone();
            updated.metadata.resource_version.0 += 1;
            Some(updated)
        }
        _ => panic!("more than one write: {plan}"),
    }
}
