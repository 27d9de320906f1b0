//! First phase of packing: decides which endpoints of the existing slices stay.

use std::sync::Arc;

use kube_endpoint_core_model::port::PortSet;
use kube_endpoint_core_model::{EndpointSlice, IpFamily};

use super::index::{CandidateIndex, EndpointIndex, GroupIndex, Index, IndexVec, SliceIndex};
use super::inputs::PlanInputs;
use super::matching::ByName;
use super::pods::Candidates;

/// The change of an existing slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// The plan does not write it, unless its hints are wrong.
    Unchanged,
    /// The plan updates it, and it stays in its group.
    Update,
    /// The plan deletes it, unless a new slice reuses its name.
    Delete,
}

/// An existing slice and those of its endpoints that stay.
pub(super) struct KeptSlice<'a> {
    pub(super) slice: &'a Arc<EndpointSlice>,
    /// True if the Service owns it, by uid. A deleted Service of the same name may have owned it.
    pub(super) owned: bool,
    /// The group of its ports, if the Service owns it and some pod has these ports.
    pub(super) group: Option<GroupIndex>,
    pub(super) change: Change,
    /// The endpoints that stay, each with its candidate.
    pub(super) kept: Vec<(EndpointIndex, CandidateIndex)>,
    /// True if the plan has to rebuild the endpoints that stay from their candidates.
    pub(super) rebuild: bool,
    /// True if the plan has to rebuild the labels from those of the Service.
    pub(super) relabel: bool,
}

/// An endpoint of a candidate that does not stay in its slice.
pub(super) struct Departure {
    pub(super) slice: SliceIndex,
    pub(super) candidate: CandidateIndex,
    /// True if the endpoint is ready.
    pub(super) was_ready: bool,
}

/// The existing slices of one family, and the candidates that none of them keeps.
pub(super) struct Kept<'a> {
    pub(super) slices: IndexVec<SliceIndex, KeptSlice<'a>>,
    pub(super) departures: Vec<Departure>,
    /// By group: candidates that no slice keeps.
    pub(super) unplaced: IndexVec<GroupIndex, Vec<CandidateIndex>>,
    /// By group: the number of candidates that have an address of the family.
    pub(super) wanted: IndexVec<GroupIndex, usize>,
    /// Number of endpoints that do not stay, of slices that have a group.
    pub(super) removed: usize,
}

/// Compares the existing slices of a family, sorted by name, with the candidates.
pub(super) fn keep<'a>(
    inputs: &PlanInputs<'a>,
    candidates: &Candidates<'a>,
    family: IpFamily,
    existing: Vec<&'a Arc<EndpointSlice>>,
) -> Kept<'a> {
    let mut keeper = Keeper {
        candidates,
        family,
        inputs,
        by_name: ByName::new(candidates.list.as_slice()),
        placed: IndexVec::filled(false, candidates.list.len()),
        departures: Vec::new(),
    };
    let mut slices: IndexVec<SliceIndex, KeptSlice<'_>> = IndexVec::with_capacity(existing.len());
    let mut removed = 0;
    for slice in existing {
        let kept = keeper.keep(slice, Index::new(slices.len()));
        if kept.group.is_some() {
            removed += slice.endpoints.len() - kept.kept.len();
        }
        slices.push(kept);
    }

    let groups = candidates.groups.len();
    let mut unplaced: IndexVec<GroupIndex, Vec<CandidateIndex>> = IndexVec::filled(Vec::new(), groups);
    let mut wanted: IndexVec<GroupIndex, usize> = IndexVec::filled(0, groups);
    let of_family = candidates.list.enumerated().filter(|(_, candidate)| candidate.has_address(family));
    for (index, candidate) in of_family {
        if let Some(wanted) = wanted.get_mut(candidate.group) {
            *wanted += 1;
        }
        if keeper.placed.get(index) == Some(&false)
            && let Some(unplaced) = unplaced.get_mut(candidate.group)
        {
            unplaced.push(index);
        }
    }
    Kept { slices, departures: keeper.departures, unplaced, wanted, removed }
}

struct Keeper<'c, 'a> {
    candidates: &'c Candidates<'a>,
    family: IpFamily,
    inputs: &'c PlanInputs<'a>,
    by_name: ByName<'c, 'a>,
    /// True for a candidate that some slice keeps.
    placed: IndexVec<CandidateIndex, bool>,
    departures: Vec<Departure>,
}

impl<'a> Keeper<'_, 'a> {
    /// Decides which endpoints of a slice stay.
    fn keep(&mut self, slice: &'a Arc<EndpointSlice>, index: SliceIndex) -> KeptSlice<'a> {
        let PlanInputs { service, options, .. } = self.inputs;
        let owned = slice.is_owned_by(service);
        let ports = owned.then(|| PortSet::new(&slice.ports));
        let group = ports.and_then(|ports| self.candidates.group_of.get(&ports)).copied();
        let mut kept = Vec::with_capacity(if group.is_some() { slice.endpoints.len() } else { 0 });
        let mut all_agree = true;
        let endpoints = if owned { slice.endpoints.as_slice() } else { &[] };
        for (position, endpoint) in endpoints.iter().enumerate() {
            let Some(found) = self.by_name.find(endpoint) else { continue };
            let (Some(candidate), Some(placed)) =
                (self.candidates.list.get(found), self.placed.get_mut(found))
            else {
                continue;
            };
            if Some(candidate.group) == group && !*placed && candidate.is(endpoint, self.family) {
                *placed = true;
                all_agree &= candidate.agrees_with(endpoint);
                kept.push((EndpointIndex::new(position), found));
            } else {
                let was_ready = endpoint.conditions.ready != Some(false);
                self.departures.push(Departure { slice: index, candidate: found, was_ready });
            }
        }
        let rebuild = !all_agree || kept.len() != slice.endpoints.len();
        let relabel = !options.accepts_labels(&slice.metadata.labels, service);
        let change = match (group, rebuild) {
            (None, _) => Change::Delete,
            (Some(_), true) if kept.is_empty() => Change::Delete,
            (Some(_), true) => Change::Update,
            (Some(_), false) if relabel => Change::Update,
            (Some(_), false) => Change::Unchanged,
        };
        KeptSlice { slice, owned, group, change, kept, rebuild, relabel: relabel || rebuild }
    }
}
