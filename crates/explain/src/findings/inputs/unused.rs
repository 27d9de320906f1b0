//! The ports and the IP families that the ready endpoints of a Service have, and those that it asks
//! for.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_endpoint_core_model::service::ServicePort;
use kube_endpoint_core_model::{AddressType, EndpointPort, EndpointSlice, IpFamily, Service, Text};

use super::FaultInputs;
use crate::findings::pod_reason::NamedPort;
use crate::models::consumers::kube_proxy::number_for;
use crate::models::traffic::{ServedBy, has_ready, is_labelled_headless};

/// The types of addresses and the ports that the ready endpoints of a Service have.
pub(crate) struct ReadyEndpoints {
    /// The types of their addresses, sorted. Not empty.
    pub(crate) types: Vec<AddressType>,
    /// The IP families of the Service that are not among these.
    pub(crate) missing: Vec<IpFamily>,
    /// The ports by family, for the Service's other families: kube-proxy has rules of its own for
    /// each family.
    pub(crate) families: Vec<PortsOfFamily>,
}

/// The ports of the ready endpoints of a family.
pub(crate) struct PortsOfFamily {
    pub(crate) family: IpFamily,
    pub(crate) ports: Vec<EndpointPort>,
}

impl ReadyEndpoints {
    /// Returns what the ready endpoints of the slices have that kube-proxy watches, or `None` if
    /// there are none.
    fn by(service: &Service, slices: &[Arc<EndpointSlice>]) -> Option<Self> {
        // Slices that kube-proxy ignores because of a label are another finding.
        let is_known =
            |slice: &&Arc<EndpointSlice>| has_ready(slice) && !is_labelled_headless(service, slice);
        let ready: Vec<&Arc<EndpointSlice>> = slices.iter().filter(is_known).collect();
        let mut types: Vec<AddressType> = ready.iter().map(|slice| slice.address_type).collect();
        types.sort_unstable();
        types.dedup();
        if types.is_empty() {
            return None;
        }
        let families = service.slice_families();
        let of_families = families.iter().partition(|family| types.contains(&AddressType::from(**family)));
        let (present, missing): (Vec<IpFamily>, Vec<IpFamily>) = of_families;
        let of_family = |family: IpFamily| {
            let slices = ready.iter().filter(|slice| slice.address_type == AddressType::from(family));
            PortsOfFamily { family, ports: slices.flat_map(|slice| slice.ports.iter().cloned()).collect() }
        };
        Some(Self { types, missing, families: present.into_iter().map(of_family).collect() })
    }

    /// Returns true if each family of the Service has endpoints, and all of these ports.
    fn has_all(&self, wanted: &[ServicePort]) -> bool {
        let lacks_one = |held: &PortsOfFamily| wanted.iter().any(|port| held.lacks(port));
        self.missing.is_empty() && !self.families.iter().any(lacks_one)
    }
}

impl PortsOfFamily {
    pub(crate) fn lacks(&self, wanted: &ServicePort) -> bool {
        !self.ports.iter().any(|held| number_for(held, wanted).is_some())
    }
}

impl FaultInputs<'_> {
    /// Returns what the ready endpoints have that others wrote, if that is not what the Service
    /// asks for, neither now nor after the controller has mirrored the present Endpoints. Only
    /// kube-proxy looks at it.
    pub(crate) fn mismatched_endpoints(&self) -> Option<ReadyEndpoints> {
        if self.served.by != ServedBy::KubeProxy || !self.shows_what_others_wrote() {
            return None;
        }
        let now = ReadyEndpoints::by(self.service, self.slices())?;
        if now.has_all(&self.service.ports) {
            return None;
        }
        match self.slices_after_mirroring() {
            Some(slices) => ReadyEndpoints::by(self.service, &slices),
            None => Some(now),
        }
    }
}

/// Returns the ports of slices that are for no port of the Service, each name and protocol once.
pub(crate) fn other_ports<'a>(
    ports: impl IntoIterator<Item = &'a EndpointPort>,
    wanted: &[ServicePort],
) -> Vec<NamedPort> {
    let is_other = |held: &&EndpointPort| !wanted.iter().any(|port| number_for(held, port).is_some());
    let mut others: Vec<NamedPort> = ports.into_iter().filter(is_other).map(held).collect();
    others.sort_by(by_name);
    others.dedup_by(|other, one| (&one.name, &one.protocol) == (&other.name, &other.protocol));
    others
}

fn by_name(one: &NamedPort, other: &NamedPort) -> Ordering {
    (&one.name, &one.protocol, one.port).cmp(&(&other.name, &other.protocol, other.port))
}

fn held(port: &EndpointPort) -> NamedPort {
    let number = port.port.filter(|number| *number != 0);
    let protocol = or_tcp(port.protocol.clone().unwrap_or_default());
    NamedPort { name: port.name.clone().unwrap_or_default(), protocol, port: number }
}

/// Returns what kube-proxy looks for in slices.
pub(crate) fn asked_for(port: &ServicePort) -> NamedPort {
    NamedPort { name: port.name.clone(), protocol: or_tcp(port.protocol.clone()), port: None }
}

/// Returns a protocol, or the API's default.
fn or_tcp(protocol: Text) -> Text {
    if protocol.is_empty() { "TCP".into() } else { protocol }
}
