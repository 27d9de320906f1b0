//! The policy `Local`, for all nodes at once.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use kube_endpoint_core_model::{EndpointSlice, IpFamily, Service};

use super::endpoints::candidates;
use super::{KubeProxy, ignores, ignores_slice};

/// Returns the endpoints that clients of each node are sent to by the policy `Local`, of all ports together.
/// Clients on nodes that are absent get none. It is what [`KubeProxy::routes`] says of each node, in one pass.
pub fn local_backends<'a>(
    service: &Service,
    slices: impl IntoIterator<Item = &'a EndpointSlice>,
    family: IpFamily,
) -> BTreeMap<&'a str, BTreeSet<SocketAddr>> {
    let mut by_node: BTreeMap<&str, BTreeSet<SocketAddr>> = BTreeMap::new();
    if ignores(service, family).is_some() {
        return by_node;
    }
    let mut slices: Vec<&EndpointSlice> = slices.into_iter().collect();
    slices.sort_by(|one, other| one.metadata.name.cmp(&other.metadata.name));
    slices.retain(|slice| ignores_slice(service, slice, family).is_none());
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
