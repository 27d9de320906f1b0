//! The sub-plan of one address family (upstream `reconcileByAddressType`).

use std::sync::Arc;

use kube_endpoint_core_model::{AddressType, EndpointSlice, IpFamily, PlannedEvent, Writes};

use super::drafts::Drafter;
use super::hints::{Slices, Strategy};
use super::index::{IndexVec, SliceIndex};
use super::inputs::PlanInputs;
use super::keeping::Change;
use super::order::Ordered;
use super::outcome::{AddressTypeStats, SubPlan};
use super::packing::pack;
use super::pods::Candidates;
use super::topology_hints::assign_topology_hints;
use crate::topology::{EVENT_DISABLED, HintedState, for_address_type};

/// The plan of one family.
pub(super) struct FamilyPlan {
    pub(super) sub_plan: SubPlan,
    /// The event about the family's hints, if any.
    pub(super) event: Option<PlannedEvent>,
    /// Number of writes that merging slices has added.
    pub(super) extra_writes: usize,
}

/// Plans one family, and updates `hinted`. `existing` are the slices of the family, by name;
/// `extra_writes` is the number of writes that merging slices has added in other families.
pub(super) fn plan<'a>(
    inputs: &PlanInputs<'a>,
    candidates: &Candidates<'a>,
    family: IpFamily,
    existing: Vec<&'a Arc<EndpointSlice>>,
    strategy: Strategy,
    extra_writes: usize,
    hinted: &mut HintedState,
) -> FamilyPlan {
    let packed = pack(inputs, candidates, family, existing, extra_writes);
    let Ordered { layout, updates } = &packed.ordered;
    let existing = |index: SliceIndex| layout.existing.get(index).map(|one| one.slice);

    let drafter = Drafter::new(inputs, candidates, family);
    let new = layout.new.enumerated().map(|(index, new)| {
        let reused = layout.names.existing(index);
        (reused, drafter.new_slice(new, reused.and_then(existing)))
    });
    let updated = layout.existing.enumerated().filter(|(_, one)| one.change == Change::Update);
    // The existing slice that each draft replaces, and the draft.
    let (replaced, drafts): (Vec<Option<SliceIndex>>, Vec<_>) =
        new.chain(updated.map(|(index, one)| (Some(index), drafter.updated(one)))).unzip();
    let unchanged = layout.existing.iter().filter(|one| one.change == Change::Unchanged);
    let mut slices =
        Slices { written: drafts, unchanged: unchanged.map(|one| one.slice).collect(), rehinted: Vec::new() };
    let event = apply_hints(inputs, strategy, family.into(), &mut slices, hinted);
    let (written, rehinted) = slices.into_drafts();

    let deleted = layout
        .existing
        .enumerated()
        .filter(|(index, one)| one.change == Change::Delete && layout.names.new_slice(*index).is_none());
    let delete: Vec<Arc<EndpointSlice>> = deleted.map(|(_, one)| Arc::clone(one.slice)).collect();
    let stats = AddressTypeStats {
        endpoints_added: packed.added,
        endpoints_removed: packed.removed,
        slices_changed: written.len() + rehinted.len() + delete.len(),
        groups: packed.group_stats(&candidates.groups),
    };
    let mut positions: IndexVec<SliceIndex, usize> = IndexVec::filled(0, layout.existing.len());
    for (position, index) in updates.iter().enumerate() {
        if let Some(of_slice) = positions.get_mut(*index) {
            *of_slice = position;
        }
    }
    let mut create = Vec::new();
    let mut update = Vec::with_capacity(updates.len());
    for (replaced, draft) in replaced.into_iter().zip(written) {
        match replaced {
            Some(index) => update.push((positions.get(index), draft.slice)),
            None if inputs.may_create() => create.push(draft.slice),
            None => {}
        }
    }
    update.sort_by_key(|(position, _)| *position);
    let update = update.into_iter().map(|(_, slice)| slice);
    let update = update.chain(rehinted.into_iter().map(|draft| draft.slice)).collect();
    let sub_plan = SubPlan {
        address_type: family.into(),
        writes: Writes { create, update, delete },
        stats: Some(stats),
    };
    FamilyPlan { sub_plan, event, extra_writes: packed.extra_writes }
}

/// Sets or removes the hints of all slices. Returns an event when hints appear or disappear, and at
/// each plan that cannot set any.
fn apply_hints(
    inputs: &PlanInputs<'_>,
    strategy: Strategy,
    address_type: AddressType,
    slices: &mut Slices<'_>,
    hinted: &mut HintedState,
) -> Option<PlannedEvent> {
    let had_hints = hinted.populated;
    let disabled =
        |reason: &str| PlannedEvent::warning(EVENT_DISABLED, for_address_type(reason, address_type));
    if strategy == Strategy::Topology {
        let ready = slices.count_ready();
        return match assign_topology_hints(inputs.topology, slices, ready) {
            Ok(by_zone) => {
                hinted.set(address_type, by_zone);
                let message = for_address_type("Topology Aware Hints has been enabled", address_type);
                (!had_hints).then(|| PlannedEvent::normal("TopologyAwareHintsEnabled", message))
            }
            Err(reason) => {
                hinted.withhold(address_type, ready);
                slices.remove_hints();
                Some(disabled(&reason.to_string()))
            }
        };
    }
    hinted.remove(address_type);
    match strategy {
        Strategy::TrafficDistribution { same_node } => slices.hint_own_zones(same_node),
        Strategy::Topology | Strategy::Off => slices.remove_hints(),
    }
    had_hints.then(|| disabled("Topology Aware Hints has been disabled"))
}
