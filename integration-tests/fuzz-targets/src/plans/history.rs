//! Histories as structured input, and the clusters that they describe.

use std::sync::Arc;

use arbitrary::{Arbitrary, Result, Unstructured};
use kube_endpoint_core_model::pod::{ContainerPort, PodPhase, ReadyCondition};
use kube_endpoint_core_model::service::{ServicePort, TargetPort};
use kube_endpoint_core_model::slice::{EndpointHints, Hint};
use kube_endpoint_core_model::{
    EndpointSlice, Endpoints, IpFamily, Node, ObjectKey, Pod, ResourceVersion, Service, Timestamp,
};
use kube_endpoint_slice_plan::PlanOptions;

const ZONES: [&str; 3] = ["zone-a", "zone-b", "zone-c"];
/// The maximum numbers of pods and edits of a step.
const MOST: usize = 40;

/// The input of a target.
#[derive(Debug, Arbitrary)]
pub(super) struct History {
    capacity: u8,
    compaction: bool,
    tolerance: bool,
    #[arbitrary(with = four_steps)]
    pub(super) steps: Vec<StepInput>,
}

#[derive(Debug, Arbitrary)]
pub(super) struct StepInput {
    families: u8,
    mode: u8,
    distribution: u8,
    headless: bool,
    label: u8,
    named_port: bool,
    numbered_port: bool,
    publishes_unready: bool,
    pods: Vec<PodInput>,
    nodes: Vec<NodeInput>,
    edits: Vec<EditInput>,
}

#[derive(Debug, Arbitrary)]
struct PodInput {
    name: u8,
    addresses: u8,
    node: u8,
    port: u8,
    phase: u8,
    ready: bool,
    terminating: bool,
    version: u8,
    hostname: u8,
}

#[derive(Debug, Arbitrary)]
struct NodeInput {
    zone: u8,
    cpu: u8,
    ready: bool,
    control_plane: u8,
}

/// An edit of a slice by another client.
#[derive(Debug, Arbitrary)]
struct EditInput {
    what: u8,
    slice: u8,
    endpoint: u8,
    other: u8,
}

fn four_steps(input: &mut Unstructured<'_>) -> Result<Vec<StepInput>> {
    (0..input.int_in_range(1..=4)?).map(|_| StepInput::arbitrary(input)).collect()
}

impl History {
    pub(super) fn options(&self) -> PlanOptions {
        PlanOptions::default()
            .with_max_endpoints_per_slice(usize::from(self.capacity % 8))
            .with_slice_compaction(self.compaction)
            .with_topology_node_tolerance(if self.tolerance { 0.5 } else { 0.0 })
    }

    /// Returns the capacity of an Endpoints object, which is so low that plans truncate many.
    pub(super) fn endpoints_capacity(&self) -> usize {
        usize::from(self.capacity % 32) + 1
    }
}

/// A step with the slices that the step before has left, as other clients have edited them.
#[derive(Clone)]
pub(super) struct Step {
    pub(super) service: Service,
    pub(super) pods: Vec<Arc<Pod>>,
    pub(super) nodes: Vec<Node>,
    pub(super) slices: Vec<Arc<EndpointSlice>>,
    pub(super) options: PlanOptions,
}

impl Step {
    pub(super) fn new(input: &StepInput, slices: Vec<Arc<EndpointSlice>>, options: &PlanOptions) -> Self {
        let mut pods: Vec<Pod> = input.pods.iter().take(MOST).map(PodInput::pod).collect();
        // A cluster has no two pods of one name.
        pods.sort_by(|one, two| one.key.cmp(&two.key));
        pods.dedup_by(|one, two| one.key == two.key);
        let mut slices: Vec<EndpointSlice> = slices.into_iter().map(Arc::unwrap_or_clone).collect();
        for edit in input.edits.iter().take(MOST) {
            edit.apply(&mut slices, options.max_endpoints_per_slice.max(1));
        }
        Self {
            service: input.service(),
            pods: pods.into_iter().map(Arc::new).collect(),
            nodes: input.nodes.iter().take(8).enumerate().map(|(number, node)| node.node(number)).collect(),
            slices: slices.into_iter().map(Arc::new).collect(),
            options: options.clone(),
        }
    }
}

fn one_of<T: Copy>(choices: &[T], number: u8) -> T {
    choices[usize::from(number) % choices.len()]
}

impl StepInput {
    /// Returns an Endpoints object as other clients have edited it, or `None` if one of them has
    /// deleted it.
    pub(super) fn edit_endpoints(&self, endpoints: Arc<Endpoints>) -> Option<Arc<Endpoints>> {
        if self.edits.is_empty() {
            return Some(endpoints);
        }
        let mut edited = Arc::unwrap_or_clone(endpoints);
        edited.metadata.resource_version.0 += 1;
        for edit in self.edits.iter().take(MOST) {
            if !edit.apply_to_endpoints(&mut edited) {
                return None;
            }
        }
        // The server refuses a subset without addresses.
        if let Some(subsets) = edited.subsets.listed_mut() {
            subsets.retain(|it| !it.addresses.is_empty() || !it.not_ready_addresses.is_empty());
        }
        Some(Arc::new(edited))
    }

    fn service(&self) -> Service {
        let families: &[IpFamily] = match self.families % 5 {
            0 => &[],
            1 => &[IpFamily::IPv6],
            2 => &[IpFamily::IPv4, IpFamily::IPv6],
            _ => &[IpFamily::IPv4],
        };
        let port = |name: &str, target_port: TargetPort| ServicePort {
            name: name.into(),
            protocol: "TCP".into(),
            target_port,
            ..ServicePort::default()
        };
        let named = self.named_port.then(|| port("http", TargetPort::Name("http".into())));
        let numbered = self.numbered_port.then(|| port("num", TargetPort::Number(81)));
        let mode = one_of(&["", "Auto", "Disabled"], self.mode);
        let label = one_of(&["", "a", "b"], self.label);
        let distribution =
            one_of(&["", "PreferClose", "PreferSameZone", "PreferSameNode", "New"], self.distribution);
        let set = |key: &'static str, value: &'static str| (!value.is_empty()).then_some((key, value));
        Service {
            key: ObjectKey::new("ns", "web"),
            uid: "svc".into(),
            labels: set("team", label).into_iter().collect(),
            annotations: set("service.kubernetes.io/topology-mode", mode).into_iter().collect(),
            cluster_ip: if self.headless { "None".into() } else { "10.96.0.1".into() },
            ip_families: families.to_vec(),
            ports: named.into_iter().chain(numbered).collect(),
            publish_not_ready_addresses: self.publishes_unready,
            traffic_distribution: (!distribution.is_empty()).then(|| distribution.into()),
            ..Service::default()
        }
    }
}

impl PodInput {
    fn pod(&self) -> Pod {
        let addresses: [std::net::IpAddr; 2] =
            [[10, 0, 0, self.addresses].into(), [0xfd00, 0, 0, 0, 0, 0, 0, u16::from(self.addresses)].into()];
        let pod_ips = match self.addresses % 4 {
            0 => &addresses[..1],
            1 => &addresses[1..],
            _ => &addresses[..],
        };
        let has_pod_ip = self.phase % 16 != 1;
        let port = one_of(&[0, 8080, 8080, 9090], self.port);
        let port = (port != 0).then(|| ContainerPort {
            name: "http".into(),
            container_port: port,
            protocol: "TCP".into(),
        });
        Pod {
            key: ObjectKey::new("ns", format!("p{}", self.name % 64)),
            uid: format!("uid-{}", self.name % 64).into(),
            resource_version: ResourceVersion(u64::from(self.version)),
            deletion_timestamp: self.terminating.then_some(Timestamp::UNIX_EPOCH),
            node_name: Some(format!("n{}", self.node % 8).into()),
            hostname: (self.hostname % 8 < 2).then(|| "h".into()),
            subdomain: (self.hostname % 8 == 1).then(|| "web".into()),
            ports: port.into_iter().collect(),
            phase: if self.phase.is_multiple_of(16) { PodPhase::Failed } else { PodPhase::Running },
            pod_ip: pod_ips.first().copied().filter(|_| has_pod_ip),
            pod_ips: pod_ips.into(),
            has_pod_ip,
            ready: Some(ReadyCondition { is_true: self.ready, last_transition: None }),
            ..Pod::default()
        }
    }
}

impl NodeInput {
    fn node(&self, number: usize) -> Node {
        Node {
            name: format!("n{number}").into(),
            zone: (!self.zone.is_multiple_of(16)).then(|| one_of(&ZONES, self.zone).into()),
            control_plane: self.control_plane % 16 == 1,
            ready: self.ready || !self.cpu.is_multiple_of(4),
            allocatable_cpu_nano: i64::from(self.cpu % 5) * 1_000_000_000,
            ..Node::default()
        }
    }
}

impl EditInput {
    /// Returns false if the edit deletes the object.
    fn apply_to_endpoints(&self, endpoints: &mut Endpoints) -> bool {
        let Some(subsets) = endpoints.subsets.listed_mut() else { return true };
        let at = usize::from(self.slice) % subsets.len().max(1);
        match self.what % 10 {
            0 => return false,
            1 => endpoints.metadata.labels = endpoints.metadata.labels.with("extra", "label"),
            2 => {
                let key = "endpoints.kubernetes.io/over-capacity";
                endpoints.metadata.annotations = endpoints.metadata.annotations.with(key, "truncated");
            }
            3 => subsets.reverse(),
            4 => subsets.clear(),
            _ => {}
        }
        let Some(subset) = subsets.get_mut(at) else { return true };
        match self.what % 10 {
            5 => subset.ports.clear(),
            6 => std::mem::swap(&mut subset.addresses, &mut subset.not_ready_addresses),
            7 => subset.addresses = subset.addresses.iter().rev().cloned().collect(),
            8 => subset.addresses.truncate(usize::from(self.other)),
            9 => subset.addresses.iter_mut().for_each(|address| address.target_ref = None),
            _ => {}
        }
        true
    }

    fn apply(&self, slices: &mut Vec<EndpointSlice>, capacity: usize) {
        if slices.is_empty() {
            return;
        }
        let count = slices.len();
        let copied = slices[usize::from(self.other) % count].clone();
        let at = usize::from(self.slice) % count;
        let slice = &mut slices[at];
        match self.what % 10 {
            0 => {
                slices.remove(at);
                return;
            }
            1 => slice.metadata.labels = slice.metadata.labels.with("extra", "label"),
            2 => slice.metadata.owner_references.iter_mut().for_each(|owner| owner.uid = "older".into()),
            3 if copied.address_type == slice.address_type => {
                let room = capacity.saturating_sub(slice.endpoints.len());
                slice.endpoints.extend(copied.endpoints.into_iter().take(room));
            }
            4 => slice.ports = copied.ports,
            5 => slice.ports.clear(),
            _ => {}
        }
        let endpoints = slice.endpoints.len();
        if endpoints == 0 {
            return;
        }
        let endpoint = &mut slice.endpoints[usize::from(self.endpoint) % endpoints];
        match self.what % 10 {
            6 => endpoint.conditions.ready = endpoint.conditions.ready.map(|ready| !ready),
            7 => endpoint.addresses = vec!["10.9.9.9".into()],
            8 => {
                let hint = Hint { name: one_of(&ZONES, self.other).into() };
                endpoint.hints =
                    Some(EndpointHints { for_zones: vec![hint], ..EndpointHints::default() }.into());
            }
            9 => endpoint.target_ref = None,
            _ => {}
        }
    }
}
