//! The endpoints that Endpoints come to, by address family and ports.

use std::collections::BTreeMap;

use kube_endpoint_core_model::endpoints::{EndpointAddress, EndpointsPort};
use kube_endpoint_core_model::port::PortSet;
use kube_endpoint_core_model::repack::repack_by_place;
use kube_endpoint_core_model::slice::{EndpointConditions, EndpointIdentity};
use kube_endpoint_core_model::{
    AddressType, Endpoint, EndpointPort, Endpoints, IpFamily, PlannedEvent, address,
};

use super::Group;

/// The endpoints of one slice.
pub(super) type EndpointsByIdentity = BTreeMap<EndpointIdentity, Endpoint>;

/// What should be mirrored, and what cannot be.
#[derive(Debug, Default)]
pub(super) struct Desired {
    /// For each set of ports both families, be they empty.
    pub(super) groups: BTreeMap<Group, EndpointsByIdentity>,
    /// About addresses that were skipped.
    pub(super) events: Vec<PlannedEvent>,
    /// How many addresses were skipped, for whatever reason.
    pub(super) skipped: usize,
}

impl Desired {
    /// Works out the endpoints, at most `max` of each subset in canonical form.
    pub(super) fn of(endpoints: &Endpoints, max: usize) -> Self {
        let mut desired = Self::default();
        let mut invalid = 0;
        for subset in repack_by_place(&endpoints.subsets) {
            let ports = PortSet::new(&subset.ports.iter().map(slice_port).collect::<Vec<_>>());
            let group = |address_type| (address_type, ports.clone());
            for address_type in [AddressType::IPv4, AddressType::IPv6] {
                desired.groups.entry(group(address_type)).or_default();
            }
            let total = subset.addresses.len() + subset.not_ready_addresses.len();
            let mut added = 0;
            let ready = subset.addresses.iter().map(|address| (address, true));
            for (address, ready) in ready.chain(subset.not_ready_addresses.iter().map(|a| (a, false))) {
                if added >= max {
                    break;
                }
                let Some((address_type, endpoint)) = endpoint(address, ready) else {
                    invalid += 1;
                    continue;
                };
                added += 1;
                insert(desired.groups.entry(group(address_type)).or_default(), endpoint);
            }
            desired.skipped += total - added;
        }
        for wanted in desired.groups.values_mut() {
            desired.skipped += cut(wanted, max);
        }
        desired.report(invalid, max);
        desired
    }

    fn report(&mut self, invalid: usize, max: usize) {
        if invalid > 0 {
            let message = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
            self.events.push(PlannedEvent::warning("InvalidIPAddress", message));
        }
        let skipped = self.skipped;
        if skipped > invalid {
            let message = format!(
                "A max of {max} addresses can be mirrored to EndpointSlices per Endpoints subset. {skipped} addresses were skipped"
            );
            self.events.push(PlannedEvent::warning("TooManyAddressesToMirror", message));
        }
    }
}

/// One address may be written in two ways, or stand in two subsets with the same ports: not ready wins, then the later one.
fn insert(wanted: &mut EndpointsByIdentity, endpoint: Endpoint) {
    let identity = endpoint.identity();
    let ready = |endpoint: &Endpoint| endpoint.conditions.ready == Some(true);
    if !ready(&endpoint) || wanted.get(&identity).is_none_or(ready) {
        wanted.insert(identity, endpoint);
    }
}

/// Leaves out what is beyond the maximum, those that are not ready first, and says how many. That happens only where two
/// subsets have the same ports; upstream then mirrors other ones at every sync.
fn cut(wanted: &mut EndpointsByIdentity, max: usize) -> usize {
    if wanted.len() <= max {
        return 0;
    }
    let mut order: Vec<(bool, EndpointIdentity)> =
        wanted.iter().map(|(identity, it)| (it.conditions.ready != Some(true), identity.clone())).collect();
    order.sort();
    let surplus = order.split_off(max);
    for (_, identity) in &surplus {
        wanted.remove(identity);
    }
    surplus.len()
}

/// An address as an endpoint (upstream `addressToEndpoint`); none when it is no IP address.
fn endpoint(address: &EndpointAddress, ready: bool) -> Option<(AddressType, Endpoint)> {
    let ip = address::parse_sloppy(&address.ip)?;
    let endpoint = Endpoint {
        addresses: vec![ip.to_string().into()],
        conditions: EndpointConditions { ready: Some(ready), ..EndpointConditions::default() },
        hostname: Some(address.hostname.clone()).filter(|hostname| !hostname.is_empty()),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.clone(),
        ..Endpoint::default()
    };
    Some((IpFamily::of(&ip).into(), endpoint))
}

fn slice_port(port: &EndpointsPort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone()),
        protocol: Some(port.protocol.clone()),
        port: Some(port.port),
        app_protocol: port.app_protocol.clone(),
    }
}
