//! The sub-plan of one address family (upstream `reconcileByAddressType`).

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_endpoint_core_model::{AddressType, EndpointPort, EndpointSlice, IpFamily, PlannedEvent, Writes};

use super::drafts::Drafter;
use super::hints::{Slices, Strategy};
use super::inputs::PlanInputs;
use super::outcome::{AddressTypeStats, GroupStats, Plan, SubPlan};
use super::packing::{Fate, Packing};
use super::pods::{Candidates, PortGroup};
use super::topology_hints::assign_topology_hints;
use crate::topology::{EVENT_DISABLED, for_address_type};

/// Adds the sub-plan and the events of one family to a plan, and updates its hints state. `slices` are those of the family,
/// by name; `extra_writes` counts the writes that merging slices has added so far.
pub(super) fn plan<'a>(
    inputs: &PlanInputs<'a>,
    candidates: &Candidates<'a>,
    family: IpFamily,
    slices: Vec<&'a Arc<EndpointSlice>>,
    strategy: Strategy,
    extra_writes: &mut usize,
    plan: &mut Plan,
) {
    let service = inputs.service;
    // The garbage collector deletes the slices of a Service that is being deleted; new slices would race against it.
    let may_create = service.deletion_timestamp.is_none();
    let mut packing = Packing::new(candidates, family, service, slices, inputs.capacity());
    let added = packing.unplaced.iter().map(Vec::len).sum();
    packing.add_placeholder(service, &inputs.options.manager);
    packing.recycle();
    packing.place();
    if inputs.options.slice_compaction {
        packing.compact(extra_writes);
    }
    let order = packing.order(may_create && inputs.options.safe_write_order);

    let drafter = Drafter::new(service, &inputs.options.manager, &candidates.groups, &packing);
    let new = packing.new.iter().map(|new| drafter.new_slice(new, &packing));
    let updated = packing.current.iter().filter(|one| one.fate == Fate::Update);
    let mut hinting = Slices {
        written: new.chain(updated.map(|one| drafter.updated(one, &packing))).collect(),
        unchanged: packing
            .current
            .iter()
            .filter(|one| one.fate == Fate::Unchanged)
            .map(|one| one.slice)
            .collect(),
        rehinted: Vec::new(),
    };
    apply_hints(inputs, strategy, family.into(), &mut hinting, plan);
    let (written, rehinted) = hinting.rehinted();

    let mut stats = AddressTypeStats {
        endpoints_added: added,
        endpoints_removed: packing.removed,
        slices_changed: written.len() + rehinted.len(),
        groups: group_stats(&packing, &candidates.groups),
    };
    let position: BTreeMap<&str, usize> = order
        .iter()
        .enumerate()
        .filter_map(|(position, index)| Some((&*packing.current.get(*index)?.slice.metadata.name, position)))
        .collect();
    let mut writes = Writes::default();
    let mut updates = Vec::with_capacity(order.len());
    for draft in written {
        match draft.replaces {
            Some(replaced) => updates.push((position.get(&*replaced.metadata.name).copied(), draft.slice)),
            None if may_create => writes.create.push(draft.slice),
            None => {}
        }
    }
    updates.sort_by_key(|(position, _)| *position);
    writes.update.extend(updates.into_iter().map(|(_, slice)| slice));
    writes.update.extend(rehinted.into_iter().map(|draft| draft.slice));
    for one in packing.current.iter().filter(|one| one.fate == Fate::Delete) {
        stats.slices_changed += 1;
        writes.delete.push(Arc::clone(one.slice));
    }
    plan.sub_plans.push(SubPlan { address_type: family.into(), writes, stats: Some(stats) });
}

fn apply_hints(
    inputs: &PlanInputs<'_>,
    strategy: Strategy,
    address_type: AddressType,
    slices: &mut Slices<'_>,
    plan: &mut Plan,
) {
    if strategy == Strategy::Topology {
        let ready = slices.ready();
        match assign_topology_hints(inputs.topology, slices, ready) {
            Ok(by_zone) => {
                if !plan.hinted.populated {
                    plan.events.push(PlannedEvent::normal(
                        "TopologyAwareHintsEnabled",
                        for_address_type("Topology Aware Hints has been enabled", address_type),
                    ));
                }
                plan.hinted.set(address_type, by_zone);
            }
            Err(reason) => {
                let message = for_address_type(&reason.to_string(), address_type);
                plan.events.push(PlannedEvent::warning(EVENT_DISABLED, message));
                plan.hinted.withhold(address_type, ready);
                slices.remove_hints();
            }
        }
        return;
    }
    if plan.hinted.populated {
        plan.events.push(PlannedEvent::warning(
            EVENT_DISABLED,
            for_address_type("Topology Aware Hints has been disabled", address_type),
        ));
    }
    plan.hinted.remove(address_type);
    match strategy {
        Strategy::Traffic { nodes } => slices.hint_own_place(nodes),
        Strategy::Topology | Strategy::Off => slices.remove_hints(),
    }
}

fn group_stats(packing: &Packing<'_, '_>, groups: &[PortGroup]) -> Vec<GroupStats> {
    let mut slices = vec![0usize; groups.len()];
    let staying = packing.current.iter().filter(|one| matches!(one.fate, Fate::Unchanged | Fate::Update));
    let by_group = staying.filter_map(|one| one.group).chain(packing.new.iter().filter_map(|new| new.group));
    for group in by_group {
        if let Some(count) = slices.get_mut(group) {
            *count += 1;
        }
    }
    let rows = groups.iter().zip(&packing.wanted).zip(slices).map(|((group, endpoints), slices)| {
        let mut ports = group.ports.clone();
        ports.sort_unstable();
        (ports, (*endpoints, slices))
    });
    let mut rows: BTreeMap<Vec<EndpointPort>, (usize, usize)> = rows.collect();
    let placeholder = packing.new.iter().any(|new| new.group.is_none());
    let kept_placeholder =
        packing.current.iter().any(|one| one.group.is_none() && one.fate == Fate::Unchanged);
    if placeholder || kept_placeholder {
        rows.insert(Vec::new(), (0, 1));
    }
    let row = |(ports, (endpoints, slices))| GroupStats { ports, endpoints, slices };
    rows.into_iter().map(row).collect()
}
