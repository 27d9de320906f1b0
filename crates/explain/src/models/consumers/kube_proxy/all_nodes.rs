//! Finds the endpoints for the clients of all nodes at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use kube_endpoint_core_model::{EndpointSlice, IpFamily, Node, Service, Text};

use super::endpoints::{Candidate, candidates};
use super::{KubeProxy, ignores, ignores_slice};

/// The nodes of a cluster, on which the clients are.
#[derive(Clone, Copy, Debug)]
pub struct Nodes<'a> {
    pub by_name: &'a BTreeMap<Text, Arc<Node>>,
    /// The number of nodes of each zone. The empty name counts nodes without a zone.
    pub by_zone: &'a BTreeMap<Text, usize>,
}

/// Returns the endpoints of each node to which the policy `Local` sends its clients, of all ports
/// together. Clients on absent nodes have no endpoint. The result equals that of
/// [`KubeProxy::routes`] for each node, in one pass.
pub fn local_backends<'a>(
    service: &Service,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    family: IpFamily,
) -> BTreeMap<&'a str, BTreeSet<SocketAddr>> {
    let mut by_node: BTreeMap<&str, BTreeSet<SocketAddr>> = BTreeMap::new();
    let slices = slices_read(service, slices, family);
    for port in &service.ports {
        let mut of_port: BTreeMap<&str, (BTreeSet<SocketAddr>, BTreeSet<SocketAddr>)> = BTreeMap::new();
        for (address, candidate) in candidates(&KubeProxy::default(), port, &slices).by_address {
            let (ready, last_resort) = of_port.entry(candidate.node).or_default();
            if candidate.ready {
                ready.insert(address);
            } else if candidate.is_last_resort() {
                last_resort.insert(address);
            }
        }
        of_port.remove("");
        for (node, (ready, last_resort)) in of_port {
            let backends = if ready.is_empty() { last_resort } else { ready };
            if !backends.is_empty() {
                by_node.entry(node).or_default().extend(backends);
            }
        }
    }
    by_node
}

/// Returns the endpoints that slices place on different nodes. The policy `Local` makes them
/// [undefined](super::PortRoutes::undefined) for clients on these nodes.
pub fn on_several_nodes<'a>(
    service: &Service,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    family: IpFamily,
) -> BTreeSet<IpAddr> {
    let slices = slices_read(service, slices, family);
    let of_port = |port| candidates(&KubeProxy::default(), port, &slices).on_several_nodes;
    service.ports.iter().flat_map(of_port).map(|address| address.ip()).collect()
}

/// Returns the endpoints to which the policy `Cluster` sends clients of some node, of all ports
/// together. The result equals that of [`KubeProxy::routes`] for all nodes, in one pass. Hints for
/// zones or nodes that do not exist keep all clients from an endpoint.
pub fn cluster_backends<'a>(
    service: &Service,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    family: IpFamily,
    nodes: Nodes<'_>,
) -> BTreeSet<SocketAddr> {
    let slices = slices_read(service, slices, family);
    let mut backends = BTreeSet::new();
    for port in &service.ports {
        let all = candidates(&KubeProxy::default(), port, &slices).by_address;
        let mut ready = all.iter().filter(|(_, candidate)| candidate.ready).peekable();
        if ready.peek().is_none() {
            let last_resort = all.iter().filter(|(_, candidate)| candidate.is_last_resort());
            backends.extend(last_resort.map(|(address, _)| *address));
            continue;
        }
        let ready: Vec<(&SocketAddr, &Candidate<'_>)> = ready.collect();
        let reach = Reach::of(&ready, nodes);
        let reached = ready.into_iter().filter(|(_, candidate)| reach.includes(candidate));
        backends.extend(reached.map(|(address, _)| *address));
    }
    backends
}

/// The hints that kube-proxy of some node follows.
#[derive(Debug, Default)]
struct Reach<'a> {
    nodes: BTreeSet<&'a str>,
    zones: BTreeSet<&'a str>,
    /// True if kube-proxy of some node follows no hints.
    is_anywhere: bool,
}

impl<'a> Reach<'a> {
    /// Computes `Topology::of` for all nodes.
    fn of(ready: &[(&SocketAddr, &Candidate<'a>)], nodes: Nodes<'_>) -> Self {
        let mut reach = Self::default();
        let mut following_nodes: BTreeMap<&str, usize> = BTreeMap::new();
        if ready.iter().all(|(_, candidate)| !candidate.nodes.is_empty()) {
            let hinted: BTreeSet<&str> =
                ready.iter().flat_map(|(_, candidate)| candidate.nodes.iter().copied()).collect();
            for name in hinted {
                let Some(node) = nodes.by_name.get(name) else { continue };
                reach.nodes.insert(name);
                *following_nodes.entry(node.zone.as_deref().unwrap_or_default()).or_default() += 1;
            }
        }
        let has_zones = ready.iter().all(|(_, candidate)| !candidate.zones.is_empty());
        let hinted: BTreeSet<&str> =
            ready.iter().flat_map(|(_, candidate)| candidate.zones.iter().copied()).collect();
        for (zone, count) in nodes.by_zone {
            if following_nodes.get(&**zone).is_some_and(|following| following == count) {
                continue;
            }
            match hinted.get(&**zone).filter(|_| has_zones) {
                Some(zone) => _ = reach.zones.insert(zone),
                None => reach.is_anywhere = true,
            }
        }
        reach
    }

    fn includes(&self, candidate: &Candidate<'_>) -> bool {
        self.is_anywhere
            || candidate.nodes.iter().any(|node| self.nodes.contains(node))
            || candidate.zones.iter().any(|zone| self.zones.contains(zone))
    }
}

/// Returns the slices that kube-proxy reads for a family, by name. The list is empty if it makes no
/// rules.
fn slices_read<'a>(
    service: &Service,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    family: IpFamily,
) -> Vec<&'a EndpointSlice> {
    if ignores(service, family).is_some() {
        return Vec::new();
    }
    let is_read = |slice: &&EndpointSlice| ignores_slice(service, slice, family).is_none();
    let mut slices: Vec<&EndpointSlice> = slices.into_iter().filter(is_read).collect();
    slices.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    slices
}
