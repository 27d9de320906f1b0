//! Third phase of packing: new slices reuse the names of slices that the plan would delete, so that
//! one update replaces a create and a delete (upstream `finalize`).

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::index::{CandidateIndex, GroupIndex, IndexVec, NewSliceIndex, SliceIndex};
use super::keeping::{Change, Departure};
use super::sizing::SizedSlices;

/// The pairs of new slices and the existing slices whose names they reuse.
#[derive(Default)]
pub(super) struct ReusedNames {
    by_existing: BTreeMap<SliceIndex, NewSliceIndex>,
    by_new: BTreeMap<NewSliceIndex, SliceIndex>,
}

impl ReusedNames {
    /// Returns the existing slice whose name a new slice reuses.
    pub(super) fn existing(&self, new: NewSliceIndex) -> Option<SliceIndex> {
        self.by_new.get(&new).copied()
    }

    /// Returns the new slice that reuses the name of an existing slice.
    pub(super) fn new_slice(&self, existing: SliceIndex) -> Option<NewSliceIndex> {
        self.by_existing.get(&existing).copied()
    }

    /// Writes a new slice under the name of an existing one.
    pub(super) fn pair(&mut self, existing: SliceIndex, new: NewSliceIndex) {
        self.by_existing.insert(existing, new);
        self.by_new.insert(new, existing);
    }

    /// Undoes a pair: the plan deletes the existing slice and creates the new one. Returns the new
    /// slice.
    pub(super) fn unpair(&mut self, existing: SliceIndex) -> Option<NewSliceIndex> {
        let new = self.by_existing.remove(&existing)?;
        self.by_new.remove(&new);
        Some(new)
    }
}

/// Pairs new slices with slices that the plan would delete. Upstream pairs any; this prefers the
/// group that most pods of the old slice move to.
pub(super) fn reuse_names(
    sized: &SizedSlices<'_>,
    unplaced: &IndexVec<GroupIndex, Vec<CandidateIndex>>,
    departures: &[Departure],
) -> ReusedNames {
    let mut names = ReusedNames::default();
    let deleted = sized.existing.enumerated().filter(|(_, one)| one.change == Change::Delete && one.owned);
    let mut free: Vec<SliceIndex> = deleted.map(|(index, _)| index).collect();
    if sized.new.is_empty() || free.is_empty() {
        return names;
    }
    let previous = previous_slices(departures);
    let mut moving: BTreeMap<(SliceIndex, GroupIndex), usize> = BTreeMap::new();
    for (group, unplaced) in unplaced.enumerated() {
        for slice in unplaced.iter().filter_map(|candidate| previous.get(candidate)) {
            *moving.entry((*slice, group)).or_default() += 1;
        }
    }
    let mut by_count: Vec<_> = moving.into_iter().collect();
    by_count.sort_by_key(|(_, count)| Reverse(*count));
    for ((slice, group), _) in by_count {
        let mut unpaired = sized.new.enumerated().filter(|(new, _)| names.existing(*new).is_none());
        let new = unpaired.find(|(_, of)| **of == Some(group)).map(|(new, _)| new);
        if let (Some(new), Ok(at)) = (new, free.binary_search(&slice)) {
            free.remove(at);
            names.pair(slice, new);
        }
    }
    let unpaired: Vec<_> = sized.new.indices().filter(|new| names.existing(*new).is_none()).collect();
    for (slice, new) in free.into_iter().zip(unpaired) {
        names.pair(slice, new);
    }
    names
}

/// Returns, for each candidate that departs from slices, the first of them.
pub(super) fn previous_slices(departures: &[Departure]) -> BTreeMap<CandidateIndex, SliceIndex> {
    let mut previous = BTreeMap::new();
    for departure in departures {
        previous.entry(departure.candidate).or_insert(departure.slice);
    }
    previous
}
