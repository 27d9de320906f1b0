//! Sixth phase of packing: the order of the updates. The plan writes the slice that a pod moves to
//! before the slice that it moves from, so that a client that watches slices never misses a pod
//! that is ready before and after. Creates come before all updates and deletes after them, so that
//! only updates need an order. If updates would have to wait for each other in a cycle, a create
//! replaces one of them.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::EndpointSlice;

use super::index::{CandidateIndex, EndpointIndex, Index, IndexVec, NewSliceIndex, SliceIndex};
use super::keeping::{Change, Departure};
use super::placing::{Layout, NewSlice};
use super::pods::Candidate;

/// For each slice to update, the slices that the plan has to update before it.
type Dependencies = BTreeMap<SliceIndex, BTreeSet<SliceIndex>>;

/// How often the plan gives the name of a slice in a cycle to another new slice, before it deletes
/// the slice instead. Each time it computes all dependencies again.
const MAX_REPAIRS: usize = 8;

/// A layout and the order of its updates.
pub(super) struct Ordered<'a> {
    pub(super) layout: Layout<'a>,
    pub(super) updates: Vec<SliceIndex>,
}

/// Puts the updates in a safe order. It breaks cycles only if `may_create`; otherwise the order is
/// as safe as these writes allow.
pub(super) fn order<'a>(
    layout: Layout<'a>,
    departures: &[Departure],
    candidates: &IndexVec<CandidateIndex, Candidate<'_>>,
    may_create: bool,
) -> Ordered<'a> {
    let mut ordering = Ordering { layout, departures, candidates, may_create, created: BTreeSet::new() };
    loop {
        if let Some(updates) = ordering.try_order() {
            return Ordered { layout: ordering.layout, updates };
        }
    }
}

struct Ordering<'a, 'i, 'p> {
    layout: Layout<'a>,
    departures: &'i [Departure],
    candidates: &'i IndexVec<CandidateIndex, Candidate<'p>>,
    may_create: bool,
    /// New slices that gave up a reused name to break a cycle.
    created: BTreeSet<NewSliceIndex>,
}

impl Ordering<'_, '_, '_> {
    /// Returns `None` if it gave a name to another new slice, which changes the dependencies.
    fn try_order(&mut self) -> Option<Vec<SliceIndex>> {
        let may_repair = self.created.len() < MAX_REPAIRS;
        let mut dependencies = self.dependencies();
        let mut order = Vec::with_capacity(dependencies.len());
        while !dependencies.is_empty() {
            let free: Vec<SliceIndex> = dependencies
                .iter()
                .filter(|(_, before)| before.is_empty())
                .map(|(slice, _)| *slice)
                .collect();
            if !free.is_empty() {
                free.iter().for_each(|slice| remove(&mut dependencies, *slice));
                order.extend(free);
                continue;
            }
            let cycle = find_cycle(&dependencies);
            let Some(first) = cycle.first().copied() else { break };
            if !self.may_create {
                remove(&mut dependencies, first);
                order.push(first);
                continue;
            }
            let reused = cycle.iter().copied().find(|slice| self.layout.names.new_slice(*slice).is_some());
            if let Some(slice) = reused {
                let unnamed = self.give_up_name(slice).filter(|_| may_repair);
                if let Some(new) = unnamed {
                    self.layout.names.pair(slice, new);
                    return None;
                }
                remove(&mut dependencies, slice);
            } else {
                self.split(first, &dependencies);
                if self.layout.is_updated(first) {
                    stop_waiting_for(&mut dependencies, first);
                } else {
                    remove(&mut dependencies, first);
                }
            }
        }
        Some(order)
    }

    /// Makes the new slice that reuses a name a create with a name of its own. Returns another new
    /// slice that could reuse the name.
    fn give_up_name(&mut self, slice: SliceIndex) -> Option<NewSliceIndex> {
        let new = self.layout.names.unpair(slice)?;
        self.created.insert(new);
        let names = &self.layout.names;
        let mut unnamed = self.layout.new.indices().filter(|new| names.existing(*new).is_none());
        unnamed.find(|new| !self.created.contains(new))
    }

    fn dependencies(&self) -> Dependencies {
        let updated = self.layout.existing.indices().filter(|slice| self.layout.is_updated(*slice));
        let mut dependencies: Dependencies = updated.map(|slice| (slice, BTreeSet::new())).collect();
        if self.departures.is_empty() {
            return dependencies;
        }
        let destinations = self.destinations();
        for Departure { slice, candidate, was_ready } in self.departures {
            let stays_ready = *was_ready && self.candidates.get(*candidate).is_some_and(Candidate::is_ready);
            let destination = destinations.get(candidate).filter(|destination| {
                stays_ready && *destination != slice && self.layout.is_updated(**destination)
            });
            if let (Some(destination), Some(before)) = (destination, dependencies.get_mut(slice)) {
                before.insert(*destination);
            }
        }
        dependencies
    }

    /// Returns, by candidate, the existing slice whose update adds it, or makes it ready.
    fn destinations(&self) -> BTreeMap<CandidateIndex, SliceIndex> {
        let mut destinations = BTreeMap::new();
        let Layout { existing, new, names } = &self.layout;
        for (index, one) in existing.enumerated().filter(|(_, one)| one.change == Change::Update) {
            destinations.extend(one.added.iter().map(|candidate| (*candidate, index)));
            let not_ready = one.kept.iter().filter(|(at, _)| is_not_ready(one.slice, *at));
            destinations.extend(not_ready.map(|(_, candidate)| (*candidate, index)));
        }
        for (index, new) in new.enumerated() {
            if let Some(existing) = names.existing(index) {
                destinations.extend(new.added.iter().map(|candidate| (*candidate, existing)));
            }
        }
        destinations
    }

    /// Moves the candidates for which other slices wait out of a slice, to a new slice.
    fn split(&mut self, slice: SliceIndex, dependencies: &Dependencies) {
        let waiting: BTreeSet<SliceIndex> = dependencies
            .iter()
            .filter(|(_, before)| before.contains(&slice))
            .map(|(waiting, _)| *waiting)
            .collect();
        let awaited: BTreeSet<CandidateIndex> = self
            .departures
            .iter()
            .filter(|departure| waiting.contains(&departure.slice))
            .map(|departure| departure.candidate)
            .collect();
        let Some(one) = self.layout.existing.get_mut(slice) else { return };
        let (mut moved, stay): (Vec<CandidateIndex>, Vec<CandidateIndex>) =
            std::mem::take(&mut one.added).into_iter().partition(|candidate| awaited.contains(candidate));
        one.added = stay;
        let old = one.slice;
        one.kept.retain(|(at, candidate)| {
            let moves = is_not_ready(old, *at) && awaited.contains(candidate);
            if moves {
                moved.push(*candidate);
            }
            !moves
        });
        one.rebuild = true;
        one.relabel = true;
        if one.len() == 0 {
            one.change = Change::Delete;
        }
        let group = one.group;
        self.layout.new.push(NewSlice { group, added: moved });
    }
}

fn is_not_ready(slice: &EndpointSlice, endpoint: EndpointIndex) -> bool {
    let endpoint = slice.endpoints.get(endpoint.position());
    endpoint.is_some_and(|endpoint| endpoint.conditions.ready == Some(false))
}

/// Removes a slice: no slice waits for it any more.
fn remove(dependencies: &mut Dependencies, slice: SliceIndex) {
    dependencies.remove(&slice);
    stop_waiting_for(dependencies, slice);
}

fn stop_waiting_for(dependencies: &mut Dependencies, slice: SliceIndex) {
    for before in dependencies.values_mut() {
        before.remove(&slice);
    }
}

/// Returns some cycle among slices that all wait for another slice.
fn find_cycle(dependencies: &Dependencies) -> Vec<SliceIndex> {
    let mut path: Vec<SliceIndex> = dependencies.keys().take(1).copied().collect();
    while let Some(next) = path.last().and_then(|last| dependencies.get(last)).and_then(BTreeSet::first) {
        if let Some(start) = path.iter().position(|slice| slice == next) {
            return path.split_off(start);
        }
        path.push(*next);
    }
    path
}
