//! Makes candidates from pods: decides which pods a plan publishes, with which conditions, and
//! under which ports.

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::HashMap;
use kube_endpoint_core_model::pod::ContainerPorts;
use kube_endpoint_core_model::port::{PortSet, find_port, slice_ports};
use kube_endpoint_core_model::readiness::endpoint_conditions;
use kube_endpoint_core_model::slice::EndpointConditions;
use kube_endpoint_core_model::{
    Endpoint, EndpointPort, EndpointSlice, IpFamily, LeftOut, Node, NodeLookup, Pod, PodVerdict, ReadyPods,
    Service, Text, Verdict,
};

use super::index::{CandidateIndex, GroupIndex, IndexVec};
use super::inputs::PlanInputs;
use super::outcome::PlanError;

/// The source of a candidate.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    Pod(&'a Pod),
    /// An endpoint of a slice that is right as it is, apart from hints.
    Endpoint(&'a Endpoint),
}

/// A pod that is published in at least one address family.
#[derive(Clone)]
pub(super) struct Candidate<'a> {
    pub(super) name: &'a Text,
    pub(super) source: Source<'a>,
    pub(super) group: GroupIndex,
    has_ipv4: bool,
    has_ipv6: bool,
    pub(super) zone: Option<Text>,
    pub(super) conditions: EndpointConditions,
    pub(super) hostname: Option<&'a Text>,
}

impl<'a> Candidate<'a> {
    /// Makes a candidate of an endpoint that is right as it is, for the plan of its family. `name`
    /// is that of its target.
    pub(super) fn of_endpoint(endpoint: &'a Endpoint, name: &'a Text, group: GroupIndex) -> Self {
        Self {
            name,
            source: Source::Endpoint(endpoint),
            group,
            has_ipv4: true,
            has_ipv6: true,
            zone: None,
            conditions: endpoint.conditions,
            hostname: None,
        }
    }

    /// Returns true if it has an address of a family.
    pub(super) fn has_address(&self, family: IpFamily) -> bool {
        match family {
            IpFamily::IPv4 => self.has_ipv4,
            IpFamily::IPv6 => self.has_ipv6,
        }
    }
}

/// The pods with the same port numbers for the Service's ports, which therefore share slices.
#[derive(Clone)]
pub(super) struct PortGroup {
    /// The ports, in the Service's order.
    pub(super) ports: Vec<EndpointPort>,
    /// Names of the Service's ports that the pods lack.
    missing: Vec<Text>,
}

/// The published pods of a Service, and a verdict on each pod.
pub(super) struct Candidates<'a> {
    /// The published pods, by name.
    pub(super) list: IndexVec<CandidateIndex, Candidate<'a>>,
    /// The groups, also those of left-out pods: slices with the ports of a group can stay.
    pub(super) groups: IndexVec<GroupIndex, PortGroup>,
    /// The group of each set of ports.
    pub(super) group_of: BTreeMap<PortSet, GroupIndex>,
    pub(super) verdicts: Vec<PodVerdict>,
    pub(super) errors: Vec<PlanError>,
}

impl<'a> Candidates<'a> {
    /// Decides which pods of a Service the plan publishes.
    pub(super) fn new(inputs: &PlanInputs<'a>) -> Self {
        Self::of(inputs, &sorted(inputs), None)
    }

    /// As [`Self::new`] for some of its pods, sorted by name. `known` is a group that exists
    /// because of other pods.
    pub(super) fn of(inputs: &PlanInputs<'a>, pods: &[&'a Pod], known: Option<&PortGroup>) -> Self {
        let families = inputs.service.slice_families();
        let publishes_unready = inputs.service.publish_not_ready_addresses;
        let mut grouping = Grouping { service: inputs.service, last: None, seen: HashMap::default() };
        let mut nodes = Nodes { lookup: inputs.nodes, seen: HashMap::default() };
        let mut all = Self {
            list: IndexVec::with_capacity(pods.len()),
            groups: IndexVec::default(),
            group_of: BTreeMap::new(),
            verdicts: Vec::with_capacity(pods.len()),
            errors: Vec::new(),
        };
        if let Some(known) = known {
            all.group_of.insert(PortSet::new(&known.ports), all.groups.push(known.clone()));
        }
        for pod in pods.iter().copied() {
            let verdict =
                match all.admit(pod, inputs, &families, publishes_unready, &mut grouping, &mut nodes) {
                    Ok(verdict) => verdict,
                    Err(reason) => Verdict::LeftOut(reason),
                };
            all.verdicts.push(PodVerdict { pod: pod.key.clone(), verdict });
        }
        if let Some(ready_pods) = inputs.ready_pods {
            all.choose(ready_pods, inputs.existing_slices, publishes_unready);
        }
        all
    }

    /// Makes the endpoints not ready whose pods an EndpointSelector does not choose. It chooses
    /// among the published pods.
    fn choose(&mut self, ready_pods: &ReadyPods, slices: &[Arc<EndpointSlice>], publishes_unready: bool) {
        let pod_of = |candidate: &Candidate<'a>| match candidate.source {
            Source::Pod(pod) => Some(pod),
            Source::Endpoint(_) => None,
        };
        let pods: Vec<&Pod> = self.list.iter().filter_map(pod_of).collect();
        let chosen = ready_pods.among(&pods, slices);
        let published = self.verdicts.iter_mut().filter_map(|it| match &mut it.verdict {
            Verdict::Published { ready, serving, .. } => Some((ready, serving)),
            Verdict::LeftOut(_) => None,
        });
        for (candidate, (ready, serving)) in self.list.iter_mut().zip(published) {
            if let Some(pod) = pod_of(candidate) {
                candidate.conditions = endpoint_conditions(pod, Some(&chosen), publishes_unready);
                *ready = candidate.conditions.ready.unwrap_or_default();
                *serving = candidate.conditions.serving.unwrap_or_default();
            }
        }
    }

    fn admit(
        &mut self,
        pod: &'a Pod,
        inputs: &PlanInputs<'a>,
        families: &[IpFamily],
        publishes_unready: bool,
        grouping: &mut Grouping<'a>,
        nodes: &mut Nodes<'a>,
    ) -> Result<Verdict, LeftOut> {
        if pod.is_terminal() {
            return Err(LeftOut::Terminal);
        }
        if !pod.has_pod_ip {
            return Err(LeftOut::NoAddress);
        }
        // The group counts even if the pod is left out below.
        let group = grouping.group(pod, &mut self.groups, &mut self.group_of);
        let node_name = pod.node_name.as_deref().unwrap_or_default();
        let node = nodes.node(node_name);
        // A missing node may appear later, or the garbage collector may delete its pods. If the
        // plan published them meanwhile, a slice could keep them for ever. A Service that publishes
        // pods that are not ready gets them nevertheless.
        if node.is_none() && !publishes_unready {
            let node = Text::from(node_name);
            self.errors.push(PlanError::NodeNotFound {
                pod: pod.key.name.clone(),
                service: inputs.service.key.clone(),
                node: node.clone(),
            });
            return Err(LeftOut::NodeNotFound { node });
        }
        let has = |family: IpFamily| pod.addresses(family).next().is_some();
        let (has_ipv4, has_ipv6) = (has(IpFamily::IPv4), has(IpFamily::IPv6));
        let in_family = |family: &IpFamily| match family {
            IpFamily::IPv4 => has_ipv4,
            IpFamily::IPv6 => has_ipv6,
        };
        if !families.iter().any(in_family) {
            return Err(no_address(pod, families));
        }
        let conditions = endpoint_conditions(pod, None, publishes_unready);
        self.list.push(Candidate {
            name: &pod.key.name,
            source: Source::Pod(pod),
            group,
            has_ipv4,
            has_ipv6,
            zone: node.and_then(|node| node.zone.clone()),
            conditions,
            hostname: pod.hostname_for(inputs.service),
        });
        let missing_ports = self.groups.get(group).map(|group| group.missing.clone()).unwrap_or_default();
        let [ready, serving, terminating] =
            [conditions.ready, conditions.serving, conditions.terminating].map(Option::unwrap_or_default);
        Ok(Verdict::Published { ready, serving, terminating, missing_ports })
    }
}

/// Sorts pods by name. If the input has two pods of one name, which no cluster has, this takes the
/// newer one.
fn sorted<'a>(inputs: &PlanInputs<'a>) -> Vec<&'a Pod> {
    let mut pods: Vec<&Pod> = inputs.pods.iter().map(|pod| &**pod).collect();
    if pods.is_sorted_by(|one, two| one.key.name < two.key.name) {
        return pods;
    }
    pods.sort_by(|one, two| {
        let newer_first = || (two.resource_version, &two.uid).cmp(&(one.resource_version, &one.uid));
        one.key.name.cmp(&two.key.name).then_with(newer_first)
    });
    pods.dedup_by(|later, kept| later.key.name == kept.key.name);
    pods
}

fn no_address(pod: &Pod, families: &[IpFamily]) -> LeftOut {
    match (pod.invalid_pod_ip(), pod.pod_ips.is_empty(), families.first()) {
        (Some(address), ..) => LeftOut::InvalidAddress { address: address.clone() },
        (None, false, Some(family)) => LeftOut::NoAddressOfFamily { family: *family },
        _ => LeftOut::NoAddress,
    }
}

/// Finds the groups of pods. Pods of one workload have the same container ports, so this resolves
/// the Service's ports only once for each list of container ports.
struct Grouping<'a> {
    service: &'a Service,
    last: Option<(&'a ContainerPorts, GroupIndex)>,
    seen: HashMap<&'a ContainerPorts, GroupIndex>,
}

impl<'a> Grouping<'a> {
    fn group(
        &mut self,
        pod: &'a Pod,
        groups: &mut IndexVec<GroupIndex, PortGroup>,
        group_of: &mut BTreeMap<PortSet, GroupIndex>,
    ) -> GroupIndex {
        if let Some((ports, group)) = self.last
            && (std::ptr::eq::<[_]>(&**ports, &*pod.ports) || *ports == pod.ports)
        {
            return group;
        }
        let group = *self.seen.entry(&pod.ports).or_insert_with(|| {
            let ports = slice_ports(pod, self.service);
            *group_of.entry(PortSet::new(&ports)).or_insert_with(|| {
                let missing = self.service.ports.iter().filter(|port| find_port(pod, port).is_none());
                let missing = missing.map(|port| port.name.clone()).collect();
                groups.push(PortGroup { ports, missing })
            })
        });
        self.last = Some((&pod.ports, group));
        group
    }
}

/// Caches node lookups: many pods run on one node, and each lookup locks the store.
struct Nodes<'a> {
    lookup: &'a dyn NodeLookup,
    seen: HashMap<&'a str, Option<Arc<Node>>>,
}

impl<'a> Nodes<'a> {
    fn node(&mut self, name: &'a str) -> Option<&Node> {
        self.seen.entry(name).or_insert_with(|| self.lookup.node(name)).as_deref()
    }
}
