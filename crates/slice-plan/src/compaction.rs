//! Fifth phase of packing, behind the gate `slice_compaction`: merges sparse slices if the plan
//! writes some of them anyway.
//!
//! Upstream never merges slices, so that a Service that was large once keeps its many slices. Here,
//! if a sync writes to a group whose slices are less than half full on average, all endpoints of
//! one slice move to another slice; the plan writes at least one of the two anyway. The sync
//! deletes the emptied slice after all updates, so that no endpoint is missing in between.

use std::cmp::Reverse;

use super::index::{CandidateIndex, GroupIndex, IndexVec, SliceIndex};
use super::keeping::Change;
use super::placing::Layout;

/// Number of writes that merging may add to a sync.
pub(super) const MAX_EXTRA_WRITES: usize = 1;

/// Two slices to merge.
#[derive(Clone, Copy)]
struct Merge {
    /// The slice that this empties and deletes.
    from: SliceIndex,
    /// The slice that takes its endpoints.
    into: SliceIndex,
    /// Number of writes that this adds.
    extra_writes: usize,
}

/// Merges sparse slices of groups that the plan writes to, with at most `allowed` more writes.
/// `wanted` is the number of endpoints by group. Returns the layout and the number of writes added.
pub(super) fn compact<'a>(
    mut layout: Layout<'a>,
    wanted: &IndexVec<GroupIndex, usize>,
    capacity: usize,
    allowed: usize,
) -> (Layout<'a>, usize) {
    let mut extra_writes = 0;
    for (group, wanted) in wanted.enumerated() {
        while let Some(merge) = find_merge(&layout, group, *wanted, capacity, allowed - extra_writes) {
            extra_writes += merge.extra_writes;
            layout = merged(layout, merge);
        }
    }
    (layout, extra_writes)
}

/// Returns the next two slices of a group to merge.
fn find_merge(
    layout: &Layout<'_>,
    group: GroupIndex,
    wanted: usize,
    capacity: usize,
    allowed: usize,
) -> Option<Merge> {
    let new = layout.new.iter().filter(|new| new.group == Some(group)).count();
    let staying = layout.existing.enumerated().filter(|(_, one)| one.group == Some(group));
    let mut slices: Vec<(SliceIndex, usize, bool)> = staying
        .filter(|(_, one)| one.change != Change::Delete)
        .map(|(index, one)| (index, one.len(), one.change == Change::Update))
        .collect();
    let count = slices.len() + new;
    let sparse = count > 1 && 2 * wanted < count * capacity;
    if !sparse || !slices.iter().any(|(.., written)| *written) {
        return None;
    }
    // The endpoints of the smallest slice move into the fullest that has room, so that few
    // endpoints move and slices fill up.
    slices.sort_by_key(|(index, len, written)| (*len, Reverse(*written), *index));
    let pairs = slices.iter().enumerate().flat_map(|(at, from)| {
        slices.get(at + 1..).unwrap_or_default().iter().rev().map(move |into| (from, into))
    });
    let fitting = pairs.filter(|((_, one, _), (_, two, _))| one + two <= capacity);
    let merges = fitting.map(|((from, _, from_written), (into, _, into_written))| Merge {
        from: *from,
        into: *into,
        extra_writes: usize::from(!from_written) + usize::from(!into_written),
    });
    let mut cheapest = None;
    for merge in merges {
        match merge.extra_writes {
            0 => return Some(merge),
            extra if extra <= allowed => cheapest = cheapest.or(Some(merge)),
            _ => {}
        }
    }
    cheapest
}

fn merged(mut layout: Layout<'_>, Merge { from, into, .. }: Merge) -> Layout<'_> {
    let Some(emptied) = layout.existing.get_mut(from) else { return layout };
    emptied.change = Change::Delete;
    let kept = emptied.kept.drain(..).map(|(_, candidate)| candidate);
    let moved: Vec<CandidateIndex> = kept.chain(emptied.added.drain(..)).collect();
    if let Some(receiver) = layout.existing.get_mut(into) {
        receiver.change = Change::Update;
        receiver.added.extend(moved);
    }
    layout
}
