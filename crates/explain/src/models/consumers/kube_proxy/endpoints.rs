//! Collects the endpoints of a port from all slices, for all clients.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use kube_endpoint_core_model::service::ServicePort;
use kube_endpoint_core_model::slice::Endpoint;
use kube_endpoint_core_model::{EndpointSlice, address};

use super::{KubeProxy, number_for};

/// One endpoint, with the conditions as kube-proxy defaults them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Candidate<'a> {
    pub(super) ready: bool,
    pub(super) serving: bool,
    pub(super) terminating: bool,
    /// The name of its node; empty if it has none.
    pub(super) node: &'a str,
    pub(super) zones: Vec<&'a str>,
    pub(super) nodes: Vec<&'a str>,
}

impl<'a> Candidate<'a> {
    fn of(endpoint: &'a Endpoint, reads_node_hints: bool) -> Self {
        let conditions = endpoint.conditions;
        let (zones, nodes) = endpoint.hints.as_deref().map_or_else(Default::default, |hints| {
            let zones = hints.for_zones.iter().map(|hint| &*hint.name).collect();
            let nodes = hints.for_nodes.iter().map(|hint| &*hint.name);
            (zones, if reads_node_hints { nodes.collect() } else { Vec::new() })
        });
        Self {
            ready: conditions.ready.unwrap_or(true),
            serving: conditions.serving.unwrap_or(true),
            terminating: conditions.terminating.unwrap_or(false),
            node: endpoint.node_name.as_deref().unwrap_or_default(),
            zones,
            nodes,
        }
    }

    pub(super) fn is_last_resort(&self) -> bool {
        self.serving && self.terminating
    }

    pub(super) fn is_on(&self, node: &str) -> bool {
        !node.is_empty() && self.node == node
    }

    /// Returns true if clients on a node cannot tell the two entries of an endpoint apart.
    fn is_same_on(&self, node: &str, other: &Self) -> bool {
        let rest = |one: &Self| (one.ready, one.serving, one.terminating, one.is_on(node));
        rest(self) == rest(other) && self.zones == other.zones && self.nodes == other.nodes
    }
}

/// The endpoints of a port of a Service.
#[derive(Debug, Default)]
pub(super) struct Candidates<'a> {
    pub(super) by_address: BTreeMap<SocketAddr, Candidate<'a>>,
    /// Endpoints that slices hold with different conditions.
    pub(super) undefined: Vec<SocketAddr>,
    /// Endpoints that slices hold with different nodes.
    pub(super) on_several_nodes: Vec<SocketAddr>,
}

/// Collects the endpoints of a port, as kube-proxy of one node does.
pub(super) fn candidates<'a>(
    proxy: &KubeProxy<'_>,
    port: &ServicePort,
    slices: &[&'a EndpointSlice],
) -> Candidates<'a> {
    let mut entries: BTreeMap<SocketAddr, Vec<Candidate<'a>>> = BTreeMap::new();
    for slice in slices {
        let mut of_slice: BTreeMap<SocketAddr, Candidate<'a>> = BTreeMap::new();
        for number in slice.ports.iter().filter_map(|held| number_for(held, port)) {
            for endpoint in &slice.endpoints {
                let Some(ip) = endpoint.addresses.first().and_then(|text| address::parse_sloppy(text)) else {
                    continue;
                };
                let candidate = Candidate::of(endpoint, proxy.reads_node_hints);
                let address = SocketAddr::new(ip, number);
                // Upstream `addEndpoints`: an entry that terminates never replaces another.
                if !candidate.terminating || !of_slice.contains_key(&address) {
                    of_slice.insert(address, candidate);
                }
            }
        }
        for (address, candidate) in of_slice {
            entries.entry(address).or_default().push(candidate);
        }
    }
    let mut all = Candidates::default();
    for (address, mut of_address) in entries {
        if of_address.iter().any(|candidate| !candidate.terminating) {
            of_address.retain(|candidate| !candidate.terminating);
        }
        let first = of_address.swap_remove(0);
        if of_address.iter().any(|other| !other.is_same_on(proxy.node, &first)) {
            all.undefined.push(address);
        }
        if of_address.iter().any(|other| other.node != first.node) {
            all.on_several_nodes.push(address);
        }
        all.by_address.insert(address, first);
    }
    all
}

/// The hints that kube-proxy follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topology {
    Anywhere,
    SameZone,
    SameNode,
}

impl Topology {
    /// Finds the hints that count (upstream `topologyModeFromHints`): only if every ready endpoint
    /// has a hint and some ready endpoint is for this node or zone.
    pub(super) fn of(proxy: &KubeProxy<'_>, candidates: &Candidates<'_>) -> Self {
        let ready = || candidates.by_address.values().filter(|candidate| candidate.ready);
        if ready().next().is_none() {
            return Self::Anywhere;
        }
        let all_have_nodes = ready().all(|candidate| !candidate.nodes.is_empty());
        if all_have_nodes && ready().any(|candidate| candidate.nodes.contains(&proxy.node)) {
            return Self::SameNode;
        }
        let all_have_zones = ready().all(|candidate| !candidate.zones.is_empty());
        if all_have_zones && ready().any(|candidate| candidate.zones.contains(&proxy.zone)) {
            return Self::SameZone;
        }
        Self::Anywhere
    }
}

/// Returns the ready endpoints without a hint if others have one. A hint for a zone or for a node
/// is enough.
pub(super) fn without_hints(candidates: &Candidates<'_>) -> Vec<SocketAddr> {
    let ready = || candidates.by_address.iter().filter(|(_, candidate)| candidate.ready);
    let without = |has: fn(&Candidate<'_>) -> bool| {
        let lack: Vec<SocketAddr> =
            ready().filter(|(_, candidate)| !has(candidate)).map(|(address, _)| *address).collect();
        (lack.len() < ready().count()).then_some(lack)
    };
    let of_zones = without(|candidate| !candidate.zones.is_empty());
    let of_nodes = without(|candidate| !candidate.nodes.is_empty());
    [of_zones, of_nodes].into_iter().flatten().min_by_key(Vec::len).unwrap_or_default()
}
