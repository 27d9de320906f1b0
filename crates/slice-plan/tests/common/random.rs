//! Random histories of a cluster: a Service, its pods and nodes change in steps, and other writers
//! edit slices in between.

use std::sync::Arc;

use kube_endpoint_core_model::node::Node;
use kube_endpoint_core_model::pod::{ContainerPort, PodPhase, ReadyCondition};
use kube_endpoint_core_model::service::{ServicePort, TargetPort};
use kube_endpoint_core_model::slice::{EndpointHints, Hint};
use kube_endpoint_core_model::well_known::LABEL_HEADLESS;
use kube_endpoint_core_model::{
    AddressType, EndpointSlice, IpFamily, ObjectKey, ObjectMeta, OwnerReference, Pod, ResourceVersion,
    Service, Text, Timestamp,
};
use kube_endpoint_slice_plan::PlanOptions;
use proptest::prelude::*;

use super::ClusterState;

/// One step of a history: the state of the cluster, and the edits of slices before it.
#[derive(Clone, Debug)]
pub struct Step {
    pub service: Service,
    pub pods: Vec<Pod>,
    pub nodes: Vec<Node>,
    pub edits: Vec<Edit>,
    pub options: PlanOptions,
}

/// An edit by another writer. The edit takes the indices of slice and endpoint modulo their number.
#[derive(Clone, Debug)]
pub struct Edit {
    what: u8,
    slice: usize,
    endpoint: usize,
    other: usize,
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    (1usize..5, any::<bool>(), any::<bool>())
        .prop_flat_map(|(max, compaction, headless_label_repair)| {
            let options = PlanOptions::default()
                .with_max_endpoints_per_slice(max)
                .with_slice_compaction(compaction)
                .with_headless_label_repair(headless_label_repair);
            let step = (
                service(),
                prop::collection::vec(pod(), 0..12),
                nodes(),
                prop::collection::vec(edit(), 0..3),
                Just(options),
            );
            prop::collection::vec(step, 1..4)
        })
        .prop_map(|steps| {
            steps
                .into_iter()
                .map(|(service, pods, nodes, edits, options)| Step {
                    service,
                    pods: pods.into_iter().enumerate().filter_map(|(at, pod)| named(at, pod?)).collect(),
                    nodes,
                    edits,
                    options,
                })
                .collect()
        })
}

pub fn named(at: usize, mut pod: Pod) -> Option<Pod> {
    pod.key = ObjectKey::new("ns", format!("p{at}"));
    pod.uid = format!("uid-{at}").into();
    Some(pod)
}

pub fn edit() -> impl Strategy<Value = Edit> {
    (0u8..10, any::<usize>(), any::<usize>(), any::<usize>())
        .prop_map(|(what, slice, endpoint, other)| Edit { what, slice, endpoint, other })
}

pub fn service() -> impl Strategy<Value = Service> {
    let families = prop::sample::select(vec![
        vec![IpFamily::IPv4],
        vec![IpFamily::IPv4],
        vec![IpFamily::IPv6],
        vec![IpFamily::IPv4, IpFamily::IPv6],
        vec![],
    ]);
    let mode = prop::sample::select(vec!["", "", "Auto", "Auto", "Disabled"]);
    let traffic =
        prop::sample::select(vec!["", "", "PreferClose", "PreferSameZone", "PreferSameNode", "New"]);
    let cluster_ip = prop::sample::select(vec!["10.96.0.1", "None"]);
    let label = prop::sample::select(vec!["", "a", "b"]);
    let ports = (any::<bool>(), any::<bool>());
    (families, mode, traffic, cluster_ip, label, ports, 0u8..8).prop_map(
        |(ip_families, mode, traffic, cluster_ip, label, (named, numbered), rare)| {
            let set = |key: &'static str, value: &'static str| (!value.is_empty()).then_some((key, value));
            let port = |name: &str, target_port: TargetPort| ServicePort {
                name: name.into(),
                protocol: "TCP".into(),
                target_port,
                ..ServicePort::default()
            };
            let mut ports = Vec::new();
            if named {
                ports.push(port("http", TargetPort::Name("http".into())));
            }
            if numbered {
                ports.push(port("num", TargetPort::Number(81)));
            }
            Service {
                key: ObjectKey::new("ns", "web"),
                uid: "svc".into(),
                labels: set("team", label).into_iter().collect(),
                annotations: set("service.kubernetes.io/topology-mode", mode).into_iter().collect(),
                cluster_ip: cluster_ip.into(),
                ip_families,
                ports,
                publish_not_ready_addresses: rare == 0,
                traffic_distribution: (!traffic.is_empty()).then(|| traffic.into()),
                ..Service::default()
            }
        },
    )
}

pub fn pod() -> impl Strategy<Value = Option<Pod>> {
    let numbers = (0u8..6, 0u8..5, 0u8..5, 0u8..12);
    (numbers, 0u8..6, prop::sample::select(vec![0i32, 8080, 8080, 9090, 9090]), any::<bool>()).prop_map(
        |((state, addresses, node, rare), last, port, hostname)| {
            if state == 0 {
                return None;
            }
            let ips: &[&str] = match addresses {
                0 => &["10.0.0.1", "fd00::1"],
                1 => &["10.0.0.2"],
                2 => &["fd00::2", "10.0.0.3"],
                3 => &["10.0.0.4", "fd00::1"],
                _ => &["10.0.0.1", "fd00::1"],
            };
            let port = (port != 0).then(|| ContainerPort {
                name: "http".into(),
                container_port: port,
                protocol: "TCP".into(),
            });
            Some(Pod {
                resource_version: ResourceVersion(u64::from(last)),
                deletion_timestamp: (state == 1).then_some(Timestamp::UNIX_EPOCH),
                node_name: Some(format!("n{node}").into()),
                hostname: (hostname && rare < 3).then(|| "h".into()),
                subdomain: (rare < 2).then(|| "web".into()),
                ports: port.into_iter().collect(),
                phase: if rare == 11 { PodPhase::Failed } else { PodPhase::Running },
                pod_ips: ips.iter().map(|ip| ip.parse().unwrap()).collect(),
                has_pod_ip: rare != 10,
                ready: Some(ReadyCondition { is_true: state > 2, last_transition: None }),
                ..Pod::default()
            })
        },
    )
}

pub fn nodes() -> impl Strategy<Value = Vec<Node>> {
    let node = (0u8..30, 0usize..3, 1i64..5).prop_map(|(rare, zone, cpu)| Node {
        zone: (rare > 1).then(|| ["zone-a", "zone-b", "zone-c"][zone].into()),
        control_plane: rare == 2,
        ready: rare != 3,
        allocatable_cpu_nano: cpu * 1_000_000_000,
        ..Node::default()
    });
    prop::collection::vec(node, 2..7).prop_map(|nodes| {
        let named = |(at, node): (usize, Node)| Node { name: format!("n{at}").into(), ..node };
        nodes.into_iter().enumerate().map(named).collect()
    })
}

impl Step {
    /// Returns the cluster of this step, with the slices that the previous step left.
    pub fn cluster(&self, before: Option<ClusterState>) -> ClusterState {
        let (slices, hinted) =
            before.map(|cluster| (cluster.existing_slices, cluster.hinted)).unwrap_or_default();
        let mut slices: Vec<EndpointSlice> =
            slices.into_iter().flatten().map(|slice| (*slice).clone()).collect();
        for edit in &self.edits {
            edit.apply(&mut slices, self.options.max_endpoints_per_slice);
        }
        ClusterState {
            service: self.service.clone(),
            nodes: self.nodes.clone(),
            pods: self.pods.iter().cloned().map(Arc::new).collect(),
            existing_slices: Some(slices.into_iter().map(Arc::new).collect()),
            trigger_time: None,
            options: self.options.clone(),
            hinted,
            ready_pods: None,
        }
    }
}

impl Edit {
    pub fn apply(&self, slices: &mut Vec<EndpointSlice>, max: usize) {
        if self.what == 0 || slices.is_empty() {
            if slices.iter().all(|slice| *slice.metadata.name != *"stray") {
                slices.push(stray(self.other));
            }
            return;
        }
        let count = slices.len();
        let copied = slices[self.other % count].clone();
        let slice = &mut slices[self.slice % count];
        match self.what {
            1 => slice.metadata.labels = slice.metadata.labels.with("extra", "label"),
            2 => slice.metadata.owner_references.iter_mut().for_each(|owner| owner.uid = "older".into()),
            3 => {
                slices.remove(self.slice % count);
                return;
            }
            9 => {
                let labels = &slice.metadata.labels;
                slice.metadata.labels = if labels.contains_key(LABEL_HEADLESS) {
                    labels.without(LABEL_HEADLESS)
                } else {
                    labels.with(LABEL_HEADLESS, "")
                };
            }
            // Copies the endpoints of another slice.
            4 if copied.address_type == slice.address_type => {
                let room = max.saturating_sub(slice.endpoints.len());
                slice.endpoints.extend(copied.endpoints.into_iter().take(room));
            }
            _ => {}
        }
        let endpoints = slice.endpoints.len();
        if endpoints == 0 {
            return;
        }
        let endpoint = &mut slice.endpoints[self.endpoint % endpoints];
        match self.what {
            5 => endpoint.conditions.ready = endpoint.conditions.ready.map(|ready| !ready),
            6 => endpoint.addresses = vec!["10.9.9.9".into()],
            7 => {
                let zone = ["zone-a", "zone-b", "elsewhere"][self.other % 3];
                let hint = Hint { name: zone.into() };
                endpoint.hints =
                    Some(EndpointHints { for_zones: vec![hint], ..EndpointHints::default() }.into());
            }
            8 => endpoint.hints = None,
            _ => {}
        }
    }
}

fn stray(kind: usize) -> EndpointSlice {
    let owner = if kind.is_multiple_of(4) { "older" } else { "svc" };
    EndpointSlice {
        metadata: ObjectMeta {
            name: "stray".into(),
            uid: "stray".into(),
            namespace: "ns".into(),
            labels: [
                ("kubernetes.io/service-name", "web"),
                ("endpointslice.kubernetes.io/managed-by", "endpointslice-controller.k8s.io"),
            ]
            .into_iter()
            .collect(),
            owner_references: vec![OwnerReference::controller(
                "v1",
                "Service",
                &Text::from("web"),
                &Text::from(owner),
            )],
            ..ObjectMeta::default()
        },
        address_type: [AddressType::IPv4, AddressType::IPv6, AddressType::Fqdn][kind % 3],
        endpoints: Vec::new(),
        ports: Vec::new(),
    }
}
