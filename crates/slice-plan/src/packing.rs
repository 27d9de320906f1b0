//! Packing: decides which existing slices stay, which endpoints each slice holds, and in which
//! order the sync updates the slices.
//!
//! The phases, one module each, take and return values: [`keep`] compares slices with candidates;
//! [`make_room`] sizes the slices; [`reuse_names`] replaces pairs of a create and a delete by
//! updates; [`place`] assigns the candidates that no slice keeps; [`compact`] merges sparse slices
//! if enabled; [`order`] makes the updates safe to watch.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_endpoint_core_model::{EndpointPort, EndpointSlice, IpFamily};

use super::compaction::{MAX_EXTRA_WRITES, compact};
use super::index::{GroupIndex, IndexVec};
use super::inputs::PlanInputs;
use super::keeping::{Change, Kept, keep};
use super::names::reuse_names;
use super::order::{Ordered, order};
use super::outcome::GroupStats;
use super::placing::place;
use super::pods::{Candidates, PortGroup};
use super::sizing::{make_room, with_placeholder};

/// The packed slices of one family.
pub(super) struct Packed<'a> {
    pub(super) ordered: Ordered<'a>,
    /// By group: the number of endpoints that should exist.
    pub(super) wanted: IndexVec<GroupIndex, usize>,
    /// Endpoints that were in no slice of their group.
    pub(super) added: usize,
    /// Endpoints that leave the slice that held them.
    pub(super) removed: usize,
    /// Writes added by merging slices.
    pub(super) extra_writes: usize,
}

/// Packs one family into existing and new slices. `existing` are the slices of the family, by name;
/// `extra_writes` is the number of writes that merging slices has added in other families.
pub(super) fn pack<'a>(
    inputs: &PlanInputs<'a>,
    candidates: &Candidates<'a>,
    family: IpFamily,
    existing: Vec<&'a Arc<EndpointSlice>>,
    extra_writes: usize,
) -> Packed<'a> {
    let (options, capacity) = (inputs.options, inputs.capacity());
    let Kept { slices, departures, unplaced, wanted, removed } = keep(inputs, candidates, family, existing);
    let added = unplaced.iter().map(Vec::len).sum();
    let sized = with_placeholder(make_room(slices, &unplaced, capacity), inputs);
    let names = reuse_names(&sized, &unplaced, &departures);
    let layout = place(sized, names, &unplaced, &departures);
    let (layout, extra_writes) = if options.slice_compaction {
        compact(layout, &wanted, capacity, MAX_EXTRA_WRITES.saturating_sub(extra_writes))
    } else {
        (layout, 0)
    };
    let may_create = inputs.may_create() && options.safe_write_order;
    let ordered = order(layout, &departures, &candidates.list, may_create);
    Packed { ordered, wanted, added, removed, extra_writes }
}

impl Packed<'_> {
    /// Returns the numbers of each set of ports, sorted by ports.
    pub(super) fn group_stats(&self, groups: &IndexVec<GroupIndex, PortGroup>) -> Vec<GroupStats> {
        let layout = &self.ordered.layout;
        let mut slices: IndexVec<GroupIndex, usize> = IndexVec::filled(0, groups.len());
        let staying = layout.existing.iter().filter(|one| one.change != Change::Delete);
        let staying = staying.map(|one| one.group);
        let mut has_placeholder = false;
        for group in staying.chain(layout.new.iter().map(|new| new.group)) {
            match group.and_then(|group| slices.get_mut(group)) {
                Some(count) => *count += 1,
                None => has_placeholder = true,
            }
        }
        let mut rows: BTreeMap<Vec<EndpointPort>, (usize, usize)> = BTreeMap::new();
        for ((group, endpoints), slices) in groups.iter().zip(self.wanted.iter()).zip(slices.iter()) {
            let mut ports = group.ports.clone();
            ports.sort_unstable();
            rows.insert(ports, (*endpoints, *slices));
        }
        if has_placeholder {
            rows.insert(Vec::new(), (0, 1));
        }
        let row = |(ports, (endpoints, slices))| GroupStats { ports, endpoints, slices };
        rows.into_iter().map(row).collect()
    }
}
