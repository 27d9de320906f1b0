//! Looks for endpoints that several slices hold.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use kube_endpoint_core_model::port::PortSet;
use kube_endpoint_core_model::{Endpoint, EndpointSlice, Text, address};

use crate::Fault;

/// The object behind an endpoint: kind, namespace and name. It is `None` if the endpoint names
/// none.
type Target<'a> = Option<(&'a str, &'a str, &'a str)>;

/// The entries of an address: the slice, and the object behind the endpoint.
type Holders<'a> = Vec<(&'a Text, Target<'a>)>;

/// Returns a fault with the endpoints that several slices with the same ports hold. `undefined` are
/// those for which kube-proxy may choose between different entries. Pods in the network of one node
/// have one address, and are different endpoints.
pub(super) fn duplicates(slices: &[Arc<EndpointSlice>], undefined: &BTreeSet<IpAddr>) -> Option<Fault> {
    let mut holders: BTreeMap<(Text, Option<PortSet>), Holders<'_>> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.metadata.deletion_timestamp.is_none()) {
        let ports = PortSet::new(&slice.ports);
        for endpoint in &slice.endpoints {
            for address in &endpoint.addresses {
                let is_undefined = !undefined.is_empty()
                    && address::parse_sloppy(address).is_some_and(|ip| undefined.contains(&ip));
                // kube-proxy looks at each port.
                let of = (address.clone(), (!is_undefined).then(|| ports.clone()));
                holders.entry(of).or_default().push((&slice.metadata.name, target(endpoint)));
            }
        }
    }
    let several = || holders.iter().filter(|(_, holders)| hold_the_same(holders));
    let (_, first) = several().next()?;
    let mut slices: Vec<Text> = first.iter().map(|(slice, _)| (*slice).clone()).collect();
    slices.dedup();
    let mut addresses: Vec<Text> = several().map(|((address, _), _)| address.clone()).collect();
    addresses.dedup();
    let undefined = several().filter(|((_, ports), _)| ports.is_none());
    let undefined = undefined.map(|((address, _), _)| address.clone()).collect();
    Some(Fault::DuplicateEndpoint { addresses, slices, undefined })
}

fn target(endpoint: &Endpoint) -> Target<'_> {
    let target = endpoint.target_ref.as_ref()?;
    Some((&target.kind, &target.namespace, &target.name))
}

/// Returns true if two slices hold the same endpoint. One without an object may be that of any.
fn hold_the_same(holders: &Holders<'_>) -> bool {
    let is_same = |(slice, target): &(&Text, Target<'_>), (other_slice, other): &(&Text, Target<'_>)| {
        slice != other_slice && (target == other || target.is_none() || other.is_none())
    };
    holders.iter().enumerate().any(|(at, one)| holders.iter().take(at).any(|other| is_same(one, other)))
}
