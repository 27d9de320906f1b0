//! The state that a plan keeps for the next one.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;
use kube_endpoint_core_model::port::PortSet;
use kube_endpoint_core_model::{AddressType, Endpoint, EndpointSlice, ReadyPods, Service, Text};

use super::hints::Strategy;
use super::index::{GroupIndex, Index};
use super::inputs::{PlanInputs, PlanOptions};
use super::matching::is_canonical;
use super::outcome::{GroupStats, Plan};
use super::pods::{Candidates, PortGroup};
use crate::topology::HintedState;

/// The slices of a Service after the writes of a plan. From them and the pods that have changed
/// since, [`PlanState::plan`] plans the next sync. The state shares the slices with the store; for
/// each endpoint it holds an entry of 9 to 21 bytes.
///
/// A plan leaves no state if the next plan may depend on more than changed pods: the Service has
/// topology hints (the hints of an endpoint depend on all others), is being deleted, publishes pods
/// under several sets of ports, or has at most one ready endpoint, which depends on all pods; the
/// gate `slice_compaction` is on; a node was missing; the plan creates or deletes slices, whose
/// names or absence the next sync has to see first, or changes the ports of one; or some slice
/// differs from the one that this controller would write, although the plan need not write it.
#[derive(Clone)]
pub struct PlanState {
    pub(super) service: Service,
    pub(super) options: PlanOptions,
    ready_pods: Option<ReadyPods>,
    pub(super) group: PortGroup,
    /// All slices, by name.
    pub(super) slices: Vec<KeptState>,
    /// The families, in the Service's order.
    pub(super) families: Vec<FamilyState>,
}

/// The slices of one family.
#[derive(Clone)]
pub(super) struct FamilyState {
    pub(super) address_type: AddressType,
    pub(super) endpoints: usize,
    pub(super) groups: Vec<GroupStats>,
    /// The slice of each endpoint, by name of its target.
    index: HashTable<Place>,
}

/// A slice.
#[derive(Clone)]
pub(super) struct KeptState {
    /// The slice as the store had it at the last comparison.
    slice: Arc<EndpointSlice>,
    /// The endpoints that a later plan has written, if any.
    planned: Option<Vec<Endpoint>>,
}

impl KeptState {
    pub(super) fn endpoints(&self) -> &[Endpoint] {
        self.planned.as_ref().unwrap_or(&self.slice.endpoints)
    }

    pub(super) fn plan(&mut self, endpoints: Vec<Endpoint>) {
        self.planned = Some(endpoints);
    }
}

impl std::fmt::Debug for PlanState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let endpoints: usize = self.families.iter().map(|family| family.endpoints).sum();
        f.debug_struct("PlanState")
            .field("service", &self.service.key)
            .field("slices", &self.slices.len())
            .field("endpoints", &endpoints)
            .finish_non_exhaustive()
    }
}

impl PlanState {
    /// Returns the state after the writes of a plan.
    pub(super) fn after(inputs: &PlanInputs<'_>, candidates: &Candidates<'_>, plan: &Plan) -> Option<Self> {
        let group = candidates.groups.get(GroupIndex::new(0)).filter(|_| candidates.groups.len() == 1)?;
        let depends_on_pods_only = Strategy::of(inputs.service) != Strategy::Topology
            && !inputs.options.slice_compaction
            && inputs.may_create()
            && !inputs.ready_pods.is_some_and(ReadyPods::is_exclusive)
            && plan.errors.is_empty()
            && plan.events.is_empty()
            && plan.hinted == HintedState::default();
        let updates_only = plan.sub_plans.iter().all(|sub_plan| {
            sub_plan.stats.is_some() && sub_plan.writes.create.is_empty() && sub_plan.writes.delete.is_empty()
        });
        let slices = inputs.existing_slices;
        if !depends_on_pods_only
            || !updates_only
            || !slices.is_sorted_by(|one, two| one.metadata.name < two.metadata.name)
        {
            return None;
        }
        let updates = plan.sub_plans.iter().flat_map(|sub_plan| &sub_plan.writes.update);
        let updates: BTreeMap<&Text, &EndpointSlice> =
            updates.map(|slice| (&slice.metadata.name, slice)).collect();
        // A kept slice has the planned endpoints, but the ports that the store shows.
        let has_ports = |slice: &Arc<EndpointSlice>| {
            let update = updates.get(&slice.metadata.name);
            update.is_none_or(|update| PortSet::new(&update.ports) == PortSet::new(&slice.ports))
        };
        if !slices.iter().all(has_ports) {
            return None;
        }
        let kept = |slice: &Arc<EndpointSlice>| {
            let planned = updates.get(&slice.metadata.name).map(|update| update.endpoints.clone());
            KeptState { slice: Arc::clone(slice), planned }
        };
        let slices: Vec<KeptState> = slices.iter().map(kept).collect();
        let families = plan.sub_plans.iter().map(|sub_plan| {
            let groups = sub_plan.stats.as_ref().map(|stats| stats.groups.clone()).unwrap_or_default();
            FamilyState::new(sub_plan.address_type, groups, &slices)
        });
        Some(Self {
            families: families.collect::<Option<_>>()?,
            service: inputs.service.clone(),
            options: inputs.options.clone(),
            ready_pods: inputs.ready_pods.cloned(),
            group: group.clone(),
            slices,
        })
    }

    /// Takes over the slices as the store has them now. Returns false if the slices, the Service or
    /// the options differ from those of the last plan.
    pub(super) fn meets(&mut self, inputs: &PlanInputs<'_>) -> bool {
        let existing = inputs.existing_slices;
        self.options == *inputs.options
            && self.ready_pods.as_ref() == inputs.ready_pods
            && inputs.hinted == HintedState::default()
            && self.service.same_for_controllers(inputs.service)
            && self.slices.len() == existing.len()
            && self.slices.iter_mut().zip(existing).all(|(kept, existing)| {
                if Arc::ptr_eq(&kept.slice, existing) {
                    return kept.planned.is_none();
                }
                let same = is_as_planned(existing, kept, inputs.service, inputs.options);
                if same {
                    *kept = KeptState { slice: Arc::clone(existing), planned: None };
                }
                same
            })
    }

    /// Takes over a slice that the store shows now, if it is the planned one. The next plan would
    /// do the same; doing it now frees the slice before and the planned endpoints.
    pub fn settle(&mut self, existing: &Arc<EndpointSlice>) {
        let Some(number) = self.slice_named(&existing.metadata.name) else { return };
        if let Some(kept) = self.slices.get_mut(number).filter(|kept| kept.planned.is_some())
            && is_as_planned(existing, kept, &self.service, &self.options)
        {
            *kept = KeptState { slice: Arc::clone(existing), planned: None };
        }
    }

    /// Returns the names of the planned slices that the store has not shown yet.
    pub fn unsettled(&self) -> impl Iterator<Item = &Text> {
        self.slices.iter().filter(|kept| kept.planned.is_some()).map(|kept| &kept.slice.metadata.name)
    }

    /// Returns the slice of a family that holds the endpoint of a pod, and the position of the
    /// endpoint in it.
    pub(super) fn find(&self, family: &FamilyState, pod: &Text) -> Option<(usize, usize)> {
        let hash = hash(pod);
        let holds = |place: &Place| place.hash == hash && self.position(place.slice, pod).is_some();
        let slice = family.index.find(spread(hash), holds)?.slice;
        Some((slice as usize, self.position(slice, pod)?))
    }

    /// Returns the number of the slice with a name.
    pub(super) fn slice_named(&self, name: &Text) -> Option<usize> {
        self.slices.binary_search_by(|one| one.slice.metadata.name.cmp(name)).ok()
    }

    fn position(&self, slice: u32, pod: &Text) -> Option<usize> {
        self.slices.get(slice as usize)?.endpoints().iter().position(|one| target(one) == Some(pod))
    }
}

impl FamilyState {
    /// Returns `None` if writing a slice would change its endpoints.
    fn new(address_type: AddressType, groups: Vec<GroupStats>, slices: &[KeptState]) -> Option<Self> {
        let of_family = slices.iter().enumerate().filter(|(_, one)| one.slice.address_type == address_type);
        let endpoints: usize = of_family.clone().map(|(_, one)| one.endpoints().len()).sum();
        // Slices without endpoints have no ports, or those of another group.
        let is_of_group = |one: &KeptState| endpoints == 0 || !one.endpoints().is_empty();
        if !of_family.clone().all(|(_, one)| is_of_group(one)) || (endpoints > 0 && groups.len() != 1) {
            return None;
        }
        let mut family = Self { address_type, endpoints, groups, index: HashTable::with_capacity(endpoints) };
        for (number, slice) in of_family {
            for endpoint in slice.endpoints() {
                let pod = target(endpoint).filter(|_| is_canonical(endpoint))?;
                family.moved(pod, None, Some(number));
            }
        }
        Some(family)
    }

    /// Records that the endpoint of a pod leaves one slice, enters one, or both.
    pub(super) fn moved(&mut self, pod: &Text, from: Option<usize>, to: Option<usize>) {
        if from == to {
            return;
        }
        let place = |slice: Option<usize>| {
            slice.and_then(|slice| u32::try_from(slice).ok()).map(|slice| Place { hash: hash(pod), slice })
        };
        // Two pods of one slice with the same hash have equal entries.
        if let Some(from) = place(from)
            && let Ok(entry) = self.index.find_entry(spread(from.hash), |one| *one == from)
        {
            entry.remove();
        }
        if let Some(to) = place(to) {
            self.index.insert_unique(spread(to.hash), to, |one| spread(one.hash));
        }
    }
}

/// The slice that holds the endpoint of a pod.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    /// Hash of the pod's name.
    hash: u32,
    slice: u32,
}

/// Returns the name of an endpoint's pod.
pub(super) fn target(endpoint: &Endpoint) -> Option<&Text> {
    endpoint.target_ref.as_ref().map(|target| &target.name)
}

fn hash(name: &Text) -> u32 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    (hasher.finish() >> 32) as u32
}

/// The table takes the number of the bucket from the low bits of a hash, and compares the high
/// ones.
fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// Returns true if a slice that the store shows now is the planned one.
fn is_as_planned(
    existing: &EndpointSlice,
    kept: &KeptState,
    service: &Service,
    options: &PlanOptions,
) -> bool {
    let (before, now) = (&kept.slice.metadata, &existing.metadata);
    now.name == before.name
        && existing.address_type == kept.slice.address_type
        && existing.endpoints == kept.endpoints()
        && PortSet::new(&existing.ports) == PortSet::new(&kept.slice.ports)
        && existing.is_owned_by(service)
        && options.accepts_labels(&now.labels, service)
}
