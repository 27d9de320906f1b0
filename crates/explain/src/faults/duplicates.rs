//! Looks for endpoints that several slices hold.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use kube_endpoint_core_model::port::PortSet;
use kube_endpoint_core_model::{EndpointSlice, Text, address};

use crate::Fault;

/// Returns a fault with the endpoints that several slices with the same ports hold. `undefined` are
/// those for which kube-proxy may choose between different entries.
pub(super) fn duplicates(slices: &[Arc<EndpointSlice>], undefined: &BTreeSet<IpAddr>) -> Option<Fault> {
    let mut holders: BTreeMap<(Text, Option<PortSet>), Vec<Text>> = BTreeMap::new();
    for slice in slices.iter().filter(|slice| slice.metadata.deletion_timestamp.is_none()) {
        let ports = PortSet::new(&slice.ports);
        let addresses: BTreeSet<&Text> =
            slice.endpoints.iter().flat_map(|endpoint| &endpoint.addresses).collect();
        for address in addresses {
            let is_undefined = !undefined.is_empty()
                && address::parse_sloppy(address).is_some_and(|ip| undefined.contains(&ip));
            // kube-proxy looks at each port.
            let of = (address.clone(), (!is_undefined).then(|| ports.clone()));
            holders.entry(of).or_default().push(slice.metadata.name.clone());
        }
    }
    let several = || holders.iter().filter(|(_, slices)| slices.len() > 1);
    let (_, slices) = several().next()?;
    let mut addresses: Vec<Text> = several().map(|((address, _), _)| address.clone()).collect();
    addresses.dedup();
    let undefined = several().filter(|((_, ports), _)| ports.is_none());
    let undefined = undefined.map(|((address, _), _)| address.clone()).collect();
    Some(Fault::DuplicateEndpoint { addresses, slices: slices.clone(), undefined })
}
