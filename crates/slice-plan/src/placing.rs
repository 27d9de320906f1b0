//! Fourth phase of packing: assigns each candidate to a slice. A pod goes back to the slice that
//! held it if possible, under that slice's own or its reused name, so that few endpoints move and a
//! safe order of writes exists.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_endpoint_core_model::EndpointSlice;

use super::index::{CandidateIndex, EndpointIndex, GroupIndex, IndexVec, NewSliceIndex, SliceIndex};
use super::keeping::{Change, Departure, KeptSlice};
use super::names::{ReusedNames, previous_slices};
use super::sizing::{Destination, SizedSlices};

/// An existing slice and the candidates that it holds after the sync.
pub(super) struct PlacedSlice<'a> {
    pub(super) slice: &'a Arc<EndpointSlice>,
    /// See [`KeptSlice::group`].
    pub(super) group: Option<GroupIndex>,
    pub(super) change: Change,
    /// See [`KeptSlice::kept`].
    pub(super) kept: Vec<(EndpointIndex, CandidateIndex)>,
    pub(super) added: Vec<CandidateIndex>,
    /// See [`KeptSlice::rebuild`].
    pub(super) rebuild: bool,
    /// See [`KeptSlice::relabel`].
    pub(super) relabel: bool,
}

impl PlacedSlice<'_> {
    /// Returns the number of endpoints after the sync.
    pub(super) fn len(&self) -> usize {
        self.kept.len() + self.added.len()
    }
}

/// A new slice.
pub(super) struct NewSlice {
    /// `None` for the placeholder, which has no ports and no endpoints.
    pub(super) group: Option<GroupIndex>,
    pub(super) added: Vec<CandidateIndex>,
}

/// All slices of a family, with the candidates that each holds after the sync.
pub(super) struct Layout<'a> {
    pub(super) existing: IndexVec<SliceIndex, PlacedSlice<'a>>,
    pub(super) new: IndexVec<NewSliceIndex, NewSlice>,
    pub(super) names: ReusedNames,
}

impl Layout<'_> {
    /// Returns true if the plan updates an existing slice, as itself or because a new slice reuses
    /// its name.
    pub(super) fn is_updated(&self, slice: SliceIndex) -> bool {
        let change = self.existing.get(slice).map(|one| one.change);
        change == Some(Change::Update) || self.names.new_slice(slice).is_some()
    }

    fn add(&mut self, destination: Destination, candidate: CandidateIndex) {
        let added = match destination {
            Destination::Existing(slice) => self.existing.get_mut(slice).map(|one| &mut one.added),
            Destination::New(new) => self.new.get_mut(new).map(|one| &mut one.added),
        };
        if let Some(added) = added {
            added.push(candidate);
        }
    }
}

/// Places the candidates that no slice keeps: each goes to the slice that held it while that has
/// room, the others follow in order. So a slice that loses a pod to another slice of the group gets
/// no other pods.
pub(super) fn place<'a>(
    sized: SizedSlices<'a>,
    names: ReusedNames,
    unplaced: &IndexVec<GroupIndex, Vec<CandidateIndex>>,
    departures: &[Departure],
) -> Layout<'a> {
    let SizedSlices { existing, new, shares } = sized;
    let mut layout = Layout {
        existing: existing.map(|KeptSlice { slice, group, change, kept, rebuild, relabel, .. }| {
            PlacedSlice { slice, group, change, kept, added: Vec::new(), rebuild, relabel }
        }),
        new: new.map(|group| NewSlice { group, added: Vec::new() }),
        names,
    };
    let previous = previous_slices(departures);
    for (mut shares, unplaced) in shares.into_iter().zip(unplaced.iter()) {
        let by_name: BTreeMap<SliceIndex, usize> = shares
            .iter()
            .enumerate()
            .filter_map(|(at, (destination, _))| {
                let name = match destination {
                    Destination::Existing(slice) => Some(*slice),
                    Destination::New(new) => layout.names.existing(*new),
                };
                name.map(|name| (name, at))
            })
            .collect();
        let mut others = Vec::new();
        for candidate in unplaced {
            let at = previous.get(candidate).and_then(|slice| by_name.get(slice));
            match at.and_then(|at| shares.get_mut(*at)).filter(|(_, room)| *room > 0) {
                Some((destination, room)) => {
                    *room -= 1;
                    layout.add(*destination, *candidate);
                }
                None => others.push(*candidate),
            }
        }
        let places =
            shares.into_iter().flat_map(|(destination, room)| std::iter::repeat_n(destination, room));
        for (candidate, destination) in others.into_iter().zip(places) {
            layout.add(destination, candidate);
        }
    }
    layout
}
