//! Finds slices with ready endpoints that kube-proxy does not use, and the reasons.

use std::cmp::Ordering;
use std::sync::Arc;

use kube_endpoint_core_model::service::ServicePort;
use kube_endpoint_core_model::{AddressType, EndpointPort, EndpointSlice, IpFamily, Service, Text};

use super::{ServedBy, is_ready};
use crate::consumers::kube_proxy::{IgnoredSlice, ignores_slice, number_for, numbers_used};
use crate::fault::UnusedSlice;
use crate::{Fault, NamedPort};

pub(crate) fn has_ready(slice: &EndpointSlice) -> bool {
    slice.endpoints.iter().any(|endpoint| is_ready(endpoint.conditions))
}

/// Returns the reasons why kube-proxy uses no slice, or no slice for some families or ports of the
/// Service, if there are ready endpoints.
pub(crate) fn unused(service: &Service, slices: &[Arc<EndpointSlice>]) -> Vec<Fault> {
    if ServedBy::of(service) != ServedBy::KubeProxy {
        return Vec::new();
    }
    // Slices that kube-proxy ignores because of a label are another fault.
    let ready = slices.iter().filter(|slice| has_ready(slice) && !is_labelled_headless(service, slice));
    let mut types: Vec<AddressType> = ready.clone().map(|slice| slice.address_type).collect();
    types.sort_unstable();
    types.dedup();
    if types.is_empty() {
        return Vec::new();
    }
    let families = service.slice_families();
    let of_families = families.iter().partition(|family| types.contains(&AddressType::from(**family)));
    let (present, missing): (Vec<IpFamily>, Vec<IpFamily>) = of_families;
    let is_one_of_several = types.len() > 1;
    let mut faults = Vec::new();
    if !missing.is_empty() {
        let none_is_left = present.is_empty();
        let first_is_missing = service.ip_families.first().is_some_and(|first| missing.contains(first));
        faults.push(Fault::EndpointFamiliesDiffer { missing, has: types, first_is_missing, none_is_left });
    }
    // kube-proxy has rules of its own for each family.
    let of_family = |family: &IpFamily| {
        let has_family = |slice: &&Arc<EndpointSlice>| slice.address_type == AddressType::from(*family);
        Held::by(*family, ready.clone().filter(has_family))
    };
    let held: Vec<Held> = present.iter().map(of_family).collect();
    faults.extend(ports_that_differ(&service.ports, &held, is_one_of_several));
    faults
}

/// The ports of the ready endpoints of a family.
struct Held {
    family: IpFamily,
    ports: Vec<EndpointPort>,
}

impl Held {
    fn by<'a>(family: IpFamily, slices: impl Iterator<Item = &'a Arc<EndpointSlice>>) -> Self {
        Self { family, ports: slices.flat_map(|slice| slice.ports.iter().cloned()).collect() }
    }

    fn lacks(&self, wanted: &ServicePort) -> bool {
        !self.ports.iter().any(|held| number_for(held, wanted).is_some())
    }
}

/// Returns which ports all families lack, and which further ones each of them lacks.
/// `is_one_of_several` is true if there are endpoints of other types, too.
fn ports_that_differ(wanted: &[ServicePort], families: &[Held], is_one_of_several: bool) -> Vec<Fault> {
    let lacked_by_all = |port: &ServicePort| families.iter().all(|held| held.lacks(port));
    let fault = |family: Option<IpFamily>, families: &[Held], lacking: &dyn Fn(&ServicePort) -> bool| {
        let lacking: Vec<NamedPort> = wanted.iter().filter(|port| lacking(port)).map(asked_for).collect();
        let has = others(families.iter().flat_map(|held| &held.ports), wanted);
        let none_is_left = wanted.iter().all(lacked_by_all);
        let is_fault = !lacking.is_empty();
        is_fault.then_some(Fault::EndpointPortsDiffer { wanted: lacking, has, family, none_is_left })
    };
    let only = match families {
        [] => return Vec::new(),
        [one] if is_one_of_several => Some(one.family),
        _ => None,
    };
    let of_all = fault(only, families, &lacked_by_all);
    let of_one = |held: &Held| {
        let lacks = |port: &ServicePort| held.lacks(port) && !lacked_by_all(port);
        fault(Some(held.family), std::slice::from_ref(held), &lacks)
    };
    of_all.into_iter().chain(families.iter().filter_map(of_one)).collect()
}

/// Returns the reason why kube-proxy uses no endpoint of a slice, or `None` if it uses one, or if a
/// label is the reason.
pub(crate) fn of_slice(service: &Service, slice: &EndpointSlice) -> Option<UnusedSlice> {
    let is_judged = ServedBy::of(service) == ServedBy::KubeProxy
        && !service.ports.is_empty()
        && has_ready(slice)
        && !is_labelled_headless(service, slice);
    if !is_judged || !numbers_used(service, slice).is_empty() {
        return None;
    }
    if !has_family(service, slice) {
        return Some(UnusedSlice::Family { has: slice.address_type, wanted: service.slice_families() });
    }
    Some(UnusedSlice::Ports {
        has: others(&slice.ports, &service.ports),
        wanted: service.ports.iter().map(asked_for).collect(),
    })
}

/// Returns true if kube-proxy ignores a slice because of its label.
pub(crate) fn is_labelled_headless(service: &Service, slice: &EndpointSlice) -> bool {
    // kube-proxy looks at the label before the family.
    ignores_slice(service, slice, IpFamily::IPv4) == Some(IgnoredSlice::Headless)
}

/// Returns true if the program that serves the Service uses addresses of a slice's type. DNS uses
/// all types.
pub(super) fn has_family(service: &Service, slice: &EndpointSlice) -> bool {
    let has = |family: &IpFamily| AddressType::from(*family) == slice.address_type;
    ServedBy::of(service) != ServedBy::KubeProxy || service.slice_families().iter().any(has)
}

/// Returns the ports of slices that are for no port of the Service, each name and protocol once.
fn others<'a>(ports: impl IntoIterator<Item = &'a EndpointPort>, wanted: &[ServicePort]) -> Vec<NamedPort> {
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

fn asked_for(port: &ServicePort) -> NamedPort {
    NamedPort { name: port.name.clone(), protocol: or_tcp(port.protocol.clone()), port: None }
}

/// Returns a protocol, or the API's default.
fn or_tcp(protocol: Text) -> Text {
    if protocol.is_empty() { "TCP".into() } else { protocol }
}
