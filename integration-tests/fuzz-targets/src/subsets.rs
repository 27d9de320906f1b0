//! Target for subsets of Endpoints: their canonical form, and the slices that mirror them.

use std::collections::BTreeMap;
use std::sync::Arc;

use arbitrary::{Arbitrary, Unstructured};
use kube_endpoint_core_model::endpoints::{EndpointAddress, EndpointSubset, EndpointsPort};
use kube_endpoint_core_model::repack::{repack, repack_by_place};
use kube_endpoint_core_model::{
    EndpointSlice, Endpoints, ObjectMeta, ObjectReference, ResourceVersion, Service, Text,
};
use kube_endpoint_mirroring::plan::{Plan, PlanInputs, PlanOptions, plan};

#[derive(Debug, Arbitrary)]
struct Input {
    capacity: u8,
    /// The Endpoints object at first, and after a later change.
    versions: [Vec<SubsetInput>; 2],
}

#[derive(Debug, Arbitrary)]
struct SubsetInput {
    addresses: Vec<AddressInput>,
    not_ready: Vec<AddressInput>,
    ports: Vec<PortInput>,
}

#[derive(Debug, Arbitrary)]
struct AddressInput {
    ip: u8,
    uid: u8,
    hostname: bool,
}

#[derive(Debug, Arbitrary)]
struct PortInput {
    number: u8,
    name: u8,
    application: u8,
}

/// Repacks subsets, and mirrors the object in two versions.
pub fn mirror_endpoints(bytes: &[u8]) {
    let Ok(input) = Input::arbitrary(&mut Unstructured::new(bytes)) else { return };
    let mut slices = Vec::new();
    for version in &input.versions {
        let subsets: Vec<EndpointSubset> = version.iter().take(8).map(SubsetInput::subset).collect();
        check_canonical_form(&subsets);
        slices = check_mirroring(usize::from(input.capacity % 6), subsets, slices);
    }
}

fn check_canonical_form(subsets: &[EndpointSubset]) {
    let packed = repack(subsets);
    assert_eq!(repack(&packed), packed, "of {subsets:?}");
    assert_eq!(endpoints_of(&packed), endpoints_of(subsets), "of {subsets:?}");
    let mut reversed = subsets.to_vec();
    reversed.reverse();
    assert_eq!(endpoints_of(&repack(&reversed)), endpoints_of(&packed));
    let _ = repack_by_place(subsets);
}

/// Returns the readiness of each address on each port. Not ready wins.
fn endpoints_of(subsets: &[EndpointSubset]) -> BTreeMap<(EndpointsPort, Text, Text), bool> {
    let mut all = BTreeMap::new();
    for subset in subsets {
        let ready = subset.addresses.iter().map(|address| (address, true));
        let addresses = ready.chain(subset.not_ready_addresses.iter().map(|address| (address, false)));
        for (address, is_ready) in addresses {
            let uid = address.target_ref.as_ref().map(|target| target.uid.clone()).unwrap_or_default();
            for port in subset.ports.iter().filter(|port| port.port > 0) {
                let place = (port.clone(), address.ip.clone(), uid.clone());
                all.entry(place).and_modify(|ready| *ready &= is_ready).or_insert(is_ready);
            }
        }
    }
    all
}

/// Returns the slices after the plan. Checks that no slice is over the limit, and that a second
/// plan writes nothing.
fn check_mirroring(
    capacity: usize,
    subsets: Vec<EndpointSubset>,
    slices: Vec<Arc<EndpointSlice>>,
) -> Vec<Arc<EndpointSlice>> {
    let metadata =
        ObjectMeta { name: "db".into(), namespace: "n".into(), uid: "uid".into(), ..Default::default() };
    let endpoints = Endpoints { metadata, subsets: subsets.into() };
    let (service, options) =
        (Service::default(), PlanOptions::default().with_max_endpoints_per_subset(capacity));
    let plan_of = |slices: &[Arc<EndpointSlice>]| {
        plan(&PlanInputs::new(&service, &endpoints).with_existing_slices(slices).with_options(&options))
    };
    let first = plan_of(&slices);
    let after = carried_out(slices, &first);
    for slice in &after {
        assert!(slice.endpoints.len() <= capacity, "{first}");
        let mut identities: Vec<_> = slice.endpoints.iter().map(|endpoint| endpoint.identity()).collect();
        identities.sort();
        identities.dedup();
        assert_eq!(identities.len(), slice.endpoints.len(), "an endpoint is in a slice twice:\n{first}");
    }
    let second = plan_of(&after);
    assert!(second.is_empty(), "first\n{first}\nthen\n{second}");
    after
}

fn carried_out(slices: Vec<Arc<EndpointSlice>>, plan: &Plan) -> Vec<Arc<EndpointSlice>> {
    let mut slices: BTreeMap<Text, Arc<EndpointSlice>> =
        slices.into_iter().map(|slice| (slice.metadata.name.clone(), slice)).collect();
    for created in &plan.writes.create {
        let mut slice = created.clone();
        let names = (0..).map(|number| Text::from(format!("{}{number}", created.metadata.generate_name)));
        slice.metadata.name = names.into_iter().find(|name| !slices.contains_key(name)).unwrap_or_default();
        slice.metadata.uid = slice.metadata.name.clone();
        slice.metadata.resource_version = ResourceVersion(1);
        slices.insert(slice.metadata.name.clone(), Arc::new(slice));
    }
    for updated in &plan.writes.update {
        let old = slices.insert(updated.metadata.name.clone(), Arc::new(updated.clone()));
        assert!(old.is_some_and(|old| old.address_type == updated.address_type), "{plan}");
    }
    for deleted in &plan.writes.delete {
        assert!(slices.remove(&deleted.metadata.name).is_some(), "{plan}");
    }
    slices.into_values().collect()
}

impl SubsetInput {
    fn subset(&self) -> EndpointSubset {
        EndpointSubset {
            addresses: self.addresses.iter().take(12).map(AddressInput::address).collect(),
            not_ready_addresses: self.not_ready.iter().take(12).map(AddressInput::address).collect(),
            ports: self.ports.iter().take(4).map(PortInput::port).collect(),
        }
    }
}

impl AddressInput {
    fn address(&self) -> EndpointAddress {
        let ip = match self.ip % 16 {
            0 => "not an address".to_owned(),
            1 => String::new(),
            // Two spellings of one address.
            2 => "192.0.02.3".to_owned(),
            number @ 3..10 => format!("192.0.2.{number}"),
            10 => "2001:0db8::b".to_owned(),
            number => format!("2001:db8::{number:x}"),
        };
        let target_ref = (!self.uid.is_multiple_of(4)).then(|| ObjectReference {
            kind: "Pod".into(),
            name: format!("p{}", self.uid % 4).into(),
            uid: format!("u{}", self.uid % 4).into(),
            ..ObjectReference::default()
        });
        let hostname = if self.hostname { "h".into() } else { "".into() };
        EndpointAddress { ip: ip.into(), hostname, target_ref, ..EndpointAddress::default() }
    }
}

impl PortInput {
    fn port(&self) -> EndpointsPort {
        EndpointsPort {
            name: ["", "a", "b"][usize::from(self.name % 3)].into(),
            port: i32::from(self.number % 5) - 1,
            protocol: ["TCP", "UDP", ""][usize::from(self.name / 3 % 3)].into(),
            app_protocol: (self.application % 4 == 1).then(|| "h2c".into()),
        }
    }
}
