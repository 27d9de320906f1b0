//! Second phase of packing: decides how many candidates each slice takes, and how many new slices
//! there are. The sizes equal those of upstream's `reconcileByPortMapping`.

use std::cmp::Reverse;

use kube_endpoint_core_model::{StringMap, Text, slice_labels};

use super::index::{CandidateIndex, GroupIndex, IndexVec, NewSliceIndex, SliceIndex};
use super::inputs::PlanInputs;
use super::keeping::{Change, KeptSlice};

/// A slice that takes candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    Existing(SliceIndex),
    New(NewSliceIndex),
}

/// Existing and new slices, and the number of candidates that each takes.
pub(super) struct SizedSlices<'a> {
    pub(super) existing: IndexVec<SliceIndex, KeptSlice<'a>>,
    /// The group of each new slice, or `None` for the placeholder, which has no ports and no
    /// endpoints.
    pub(super) new: IndexVec<NewSliceIndex, Option<GroupIndex>>,
    /// By group: the slices that take candidates, and how many.
    pub(super) shares: IndexVec<GroupIndex, Vec<(Destination, usize)>>,
}

/// Sizes the slices of all groups for the candidates that no slice keeps. A slice gets at most
/// `capacity` endpoints; one that has more keeps them.
pub(super) fn make_room<'a>(
    mut existing: IndexVec<SliceIndex, KeptSlice<'a>>,
    unplaced: &IndexVec<GroupIndex, Vec<CandidateIndex>>,
    capacity: usize,
) -> SizedSlices<'a> {
    let mut new = IndexVec::default();
    let shares = unplaced
        .enumerated()
        .map(|(group, unplaced)| {
            let GroupShares { shares, filled } = share(group, unplaced.len(), capacity, &existing, &mut new);
            if let Some(filled) = filled.and_then(|index| existing.get_mut(index)) {
                filled.change = Change::Update;
            }
            shares
        })
        .collect();
    SizedSlices { existing, new, shares }
}

struct GroupShares {
    shares: Vec<(Destination, usize)>,
    /// The unchanged slice that takes candidates, if any.
    filled: Option<SliceIndex>,
}

/// Shares out the candidates of a group that no slice keeps: first to slices that the plan writes
/// anyway, the fullest first; the rest to the fullest unchanged slice that has room for all of it;
/// otherwise to new slices.
fn share(
    group: GroupIndex,
    count: usize,
    capacity: usize,
    existing: &IndexVec<SliceIndex, KeptSlice<'_>>,
    new: &mut IndexVec<NewSliceIndex, Option<GroupIndex>>,
) -> GroupShares {
    let mut shares = Vec::new();
    let mut left = count;
    if left == 0 {
        return GroupShares { shares, filled: None };
    }
    let slices = |change: Change| {
        let of_group = existing.enumerated().filter(move |(_, one)| one.group == Some(group));
        of_group.filter(move |(_, one)| one.change == change).map(|(index, one)| (index, one.kept.len()))
    };
    let mut updates: Vec<(SliceIndex, usize)> = slices(Change::Update).collect();
    updates.sort_by_key(|(_, len)| Reverse(*len));
    for (index, len) in updates {
        let taken = left.min(capacity.saturating_sub(len));
        if taken > 0 {
            shares.push((Destination::Existing(index), taken));
            left -= taken;
        }
    }
    while left > 0 {
        if left < capacity {
            let fits = slices(Change::Unchanged).filter(|(_, len)| left + len <= capacity);
            // Among equally full slices, the first by name.
            if let Some((filled, _)) = fits.max_by_key(|(index, len)| (*len, Reverse(*index))) {
                shares.push((Destination::Existing(filled), left));
                return GroupShares { shares, filled: Some(filled) };
            }
        }
        let taken = left.min(capacity);
        shares.push((Destination::New(new.push(Some(group))), taken));
        left -= taken;
    }
    GroupShares { shares, filled: None }
}

/// Makes sure that at least one slice is left: if the plan deletes all, this adds the placeholder,
/// or keeps it if it exists.
pub(super) fn with_placeholder<'a>(mut sized: SizedSlices<'a>, inputs: &PlanInputs<'_>) -> SizedSlices<'a> {
    let SizedSlices { existing, new, .. } = &mut sized;
    if !new.is_empty() || existing.iter().any(|one| one.change != Change::Delete) {
        return sized;
    }
    let mut indices = existing.indices();
    if let (Some(only), None) = (indices.next(), indices.next())
        && let Some(only) = existing.get_mut(only)
        && is_placeholder(only, inputs)
    {
        only.change = Change::Unchanged;
    } else {
        new.push(None);
    }
    sized
}

fn is_placeholder(one: &KeptSlice<'_>, inputs: &PlanInputs<'_>) -> bool {
    let PlanInputs { service, options, .. } = inputs;
    let slice = one.slice;
    slice.metadata.namespace == service.key.namespace
        && slice.endpoints.is_empty()
        && slice.ports.is_empty()
        && options.accepts_headless_label(&slice.metadata.labels, service)
        && equal_but_for_empty_values(
            &slice.metadata.labels,
            &slice_labels::for_service(service, &options.manager),
        )
}

/// Returns true if two maps are equal when a key with an empty value counts as absent, as upstream
/// compares placeholders.
fn equal_but_for_empty_values(one: &StringMap, two: &StringMap) -> bool {
    fn filled((_, value): &(&Text, &Text)) -> bool {
        !value.is_empty()
    }
    one.iter().filter(filled).eq(two.iter().filter(filled))
}
