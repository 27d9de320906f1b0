//! Computes the endpoints that the slices should have, by address family and ports, and a verdict
//! on each address.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_endpoint_core_model::endpoints::{EndpointAddress, EndpointSubset, EndpointsPort};
use kube_endpoint_core_model::port::PortSet;
use kube_endpoint_core_model::repack::repack_by_place;
use kube_endpoint_core_model::slice::{EndpointConditions, EndpointIdentity};
use kube_endpoint_core_model::{AddressType, Endpoint, EndpointPort, IpFamily, PlannedEvent, Text, address};

use super::Group;
use super::verdict::{AddressVerdict, MirrorVerdict, SkipReason};

/// The endpoints of one slice.
pub(super) type EndpointsByIdentity = BTreeMap<EndpointIdentity, Endpoint>;

/// The endpoints that the slices should have, and a verdict on each address.
#[derive(Debug, Default)]
pub(super) struct Desired {
    /// The endpoints of each family for each set of ports. A group may be empty.
    pub(super) groups: BTreeMap<Group, EndpointsByIdentity>,
    /// Events about skipped addresses.
    pub(super) events: Vec<PlannedEvent>,
    /// Number of addresses that the plan skipped, for any reason.
    pub(super) skipped: usize,
    /// A verdict on each address of each subset in canonical form.
    pub(super) verdicts: Vec<AddressVerdict>,
}

/// The addresses of one subset, each with its endpoint or the reason why it has none.
struct JudgedSubset {
    ports: Vec<EndpointsPort>,
    port_set: PortSet,
    addresses: Vec<(Text, Placed)>,
}

/// The address type and the identity of an address's endpoint, or the reason why it has none.
type Placed = Result<(AddressType, EndpointIdentity), SkipReason>;

impl Desired {
    /// Computes the endpoints of at most `max` addresses of each subset in canonical form.
    pub(super) fn of(subsets: &[EndpointSubset], max: usize) -> Self {
        let mut desired = Self::default();
        let subsets: Vec<JudgedSubset> =
            repack_by_place(subsets).into_iter().map(|subset| desired.add_subset(subset, max)).collect();
        for wanted in desired.groups.values_mut() {
            desired.skipped += remove_surplus(wanted, max);
        }
        desired.verdicts = subsets.iter().flat_map(|subset| subset.verdicts(&desired.groups, max)).collect();
        let is_invalid =
            |one: &&AddressVerdict| one.verdict == MirrorVerdict::Skipped(SkipReason::InvalidAddress);
        let invalid = desired.verdicts.iter().filter(is_invalid).count();
        desired.report(invalid, max);
        desired
    }

    /// Adds the endpoints of one subset to their groups.
    fn add_subset(&mut self, subset: EndpointSubset, max: usize) -> JudgedSubset {
        let port_set = PortSet::new(&subset.ports.iter().map(slice_port).collect::<Vec<_>>());
        let [mut ipv4, mut ipv6] = [AddressType::IPv4, AddressType::IPv6]
            .map(|address_type| self.groups.remove(&(address_type, port_set.clone())).unwrap_or_default());
        let mut added = 0;
        let ready = subset.addresses.iter().map(|address| (address, true));
        let not_ready = subset.not_ready_addresses.iter().map(|address| (address, false));
        let judge = |(address, ready): (&EndpointAddress, bool)| {
            let endpoint = if added >= max {
                Err(SkipReason::OverMaximum { max })
            } else {
                endpoint(address, ready).ok_or(SkipReason::InvalidAddress)
            };
            let placed = endpoint.map(|(address_type, endpoint)| {
                added += 1;
                let wanted = if address_type == AddressType::IPv4 { &mut ipv4 } else { &mut ipv6 };
                (address_type, insert(wanted, endpoint))
            });
            (address.ip.clone(), placed)
        };
        let addresses: Vec<_> = ready.chain(not_ready).map(judge).collect();
        self.skipped += addresses.len() - added;
        self.groups.insert((AddressType::IPv4, port_set.clone()), ipv4);
        self.groups.insert((AddressType::IPv6, port_set.clone()), ipv6);
        JudgedSubset { ports: subset.ports, port_set, addresses }
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

impl JudgedSubset {
    /// Returns the verdicts, now that the groups are complete.
    fn verdicts(
        &self,
        groups: &BTreeMap<Group, EndpointsByIdentity>,
        max: usize,
    ) -> impl Iterator<Item = AddressVerdict> {
        let ports: Arc<[EndpointsPort]> = self.ports.as_slice().into();
        let [ipv4, ipv6] = [AddressType::IPv4, AddressType::IPv6]
            .map(|address_type| groups.get(&(address_type, self.port_set.clone())));
        self.addresses.iter().map(move |(address, placed)| {
            let mirrored = placed.as_ref().map_err(Clone::clone).and_then(|(address_type, identity)| {
                let wanted = if *address_type == AddressType::IPv4 { ipv4 } else { ipv6 };
                let endpoint = wanted.and_then(|wanted| wanted.get(identity));
                endpoint.ok_or(SkipReason::OverMaximum { max })
            });
            let verdict = match mirrored {
                Ok(endpoint) => MirrorVerdict::Mirrored { ready: is_ready(endpoint) },
                Err(reason) => MirrorVerdict::Skipped(reason),
            };
            AddressVerdict { address: address.clone(), ports: Arc::clone(&ports), verdict }
        })
    }
}

/// Adds an endpoint and returns its identity. One address may have two spellings, or be in two
/// subsets with the same ports: not ready wins, then the later one.
fn insert(wanted: &mut EndpointsByIdentity, endpoint: Endpoint) -> EndpointIdentity {
    let identity = endpoint.identity();
    if !is_ready(&endpoint) || wanted.get(&identity).is_none_or(is_ready) {
        wanted.insert(identity.clone(), endpoint);
    }
    identity
}

fn is_ready(endpoint: &Endpoint) -> bool {
    endpoint.conditions.ready == Some(true)
}

/// Removes endpoints beyond the maximum, those that are not ready first, and returns their number.
/// There can be some only if two subsets have the same ports; upstream then mirrors others at every
/// sync.
fn remove_surplus(wanted: &mut EndpointsByIdentity, max: usize) -> usize {
    if wanted.len() <= max {
        return 0;
    }
    let mut order: Vec<(bool, EndpointIdentity)> =
        wanted.iter().map(|(identity, endpoint)| (!is_ready(endpoint), identity.clone())).collect();
    order.sort();
    let surplus = order.split_off(max);
    for (_, identity) in &surplus {
        wanted.remove(identity);
    }
    surplus.len()
}

/// Converts an address to an endpoint (upstream `addressToEndpoint`). Returns `None` if it is not
/// an IP address.
fn endpoint(address: &EndpointAddress, ready: bool) -> Option<(AddressType, Endpoint)> {
    let ip = address::parse_sloppy(&address.ip)?;
    let endpoint = Endpoint {
        addresses: vec![address::to_text(&ip)],
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
