//! Builders of small clusters.

use std::sync::Arc;

use kube_endpoint_core_model::node::Node;
use kube_endpoint_core_model::pod::{ContainerPort, PodPhase, ReadyCondition};
use kube_endpoint_core_model::service::{ServicePort, TargetPort};
use kube_endpoint_core_model::{EndpointSlice, IpFamily, ObjectKey, Pod, Service, Timestamp};
use kube_endpoint_slice_plan::PlanOptions;

use super::ClusterState;

/// Returns a Service `web` with port 80 to the containers' port `http`, on one node for each zone;
/// no pods yet.
pub fn web(zones: &[&str]) -> ClusterState {
    ClusterState {
        service: Service {
            key: ObjectKey::new("ns", "web"),
            uid: "svc".into(),
            cluster_ip: "10.96.0.1".into(),
            ip_families: vec![IpFamily::IPv4],
            ports: vec![ServicePort {
                protocol: "TCP".into(),
                port: 80,
                target_port: TargetPort::Name("http".into()),
                ..ServicePort::default()
            }],
            ..Service::default()
        },
        nodes: zones.iter().map(|zone| node(zone, 4)).collect(),
        pods: Vec::new(),
        existing_slices: None,
        trigger_time: None,
        options: PlanOptions::default().with_max_endpoints_per_slice(3),
        hinted: Default::default(),
        ready_pods: None,
    }
}

/// Returns a ready node named after its zone.
pub fn node(zone: &str, cpu: i64) -> Node {
    Node {
        name: format!("node-{zone}").into(),
        zone: Some(zone.into()),
        ready: true,
        allocatable_cpu_nano: cpu * 1_000_000_000,
        ..Node::default()
    }
}

/// Returns a ready pod with an address of each family.
pub fn pod(name: &str, last: u8, zone: &str) -> Pod {
    Pod {
        key: ObjectKey::new("ns", name),
        uid: format!("uid-{name}").into(),
        node_name: Some(format!("node-{zone}").into()),
        ports: [http(8080)].into_iter().collect(),
        phase: PodPhase::Running,
        pod_ips: Box::new([[10, 0, 0, last].into(), [0xfd00, 0, 0, 0, 0, 0, 0, u16::from(last)].into()]),
        has_pod_ip: true,
        ready: Some(ReadyCondition { is_true: true, last_transition: None }),
        ..Pod::default()
    }
}

/// Returns a container's port `http`.
pub fn http(number: i32) -> ContainerPort {
    ContainerPort { name: "http".into(), container_port: number, protocol: "TCP".into() }
}

impl ClusterState {
    /// Adds ready pods: zone and number.
    pub fn pods(mut self, zones: &[(&str, usize)]) -> Self {
        for (zone, count) in zones {
            for _ in 0..*count {
                let at = self.pods.len();
                self.pods.push(Arc::new(pod(&format!("p{at:02}"), at as u8 + 1, zone)));
            }
        }
        self
    }

    /// Changes the Service.
    pub fn service(mut self, change: impl FnOnce(&mut Service)) -> Self {
        change(&mut self.service);
        self
    }

    /// Changes a pod.
    pub fn pod(mut self, at: usize, change: impl FnOnce(&mut Pod)) -> Self {
        change(Arc::make_mut(&mut self.pods[at]));
        self
    }

    /// Changes a slice.
    pub fn slice(mut self, at: usize, change: impl FnOnce(&mut EndpointSlice)) -> Self {
        change(Arc::make_mut(&mut self.existing_slices.as_mut().unwrap()[at]));
        self
    }

    /// Sets the topology annotation to `Auto`.
    pub fn auto(self) -> Self {
        self.service(|service| {
            service.annotations = service.annotations.with("service.kubernetes.io/topology-mode", "Auto");
        })
    }

    /// Sets `trafficDistribution`.
    pub fn traffic(self, value: &str) -> Self {
        self.service(|service| service.traffic_distribution = Some(value.into()))
    }

    /// Carries out the plan.
    pub fn synced(self) -> Self {
        let plan = self.plan();
        self.after(&plan)
    }

    /// Sets the trigger time.
    pub fn triggered(mut self) -> Self {
        self.trigger_time = Some(Timestamp::from_millisecond(1_700_000_000_500).unwrap());
        self
    }
}

/// Makes a pod unready.
pub fn unready(pod: &mut Pod) {
    pod.ready = Some(ReadyCondition { is_true: false, last_transition: None });
}

/// Sets the deletion timestamp of a pod.
pub fn terminating(pod: &mut Pod) {
    pod.deletion_timestamp = Some(Timestamp::UNIX_EPOCH);
}
