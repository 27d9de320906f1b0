//! The order of updates: whoever takes a pod in is written before whoever gives it away, so that nobody who watches ever
//! misses a pod that is ready before and after. Creates come before and deletes after all updates, so that only updates
//! need an order; where updates wait for one another in a circle, one of them is replaced by a create.

use std::collections::{BTreeMap, BTreeSet};

use super::packing::{Fate, New, Packing};

/// For each slice that is written under an existing name, the slices that must be written before it.
type Before = BTreeMap<usize, BTreeSet<usize>>;

/// How often a slice out of a circle may be given to another new slice before it is deleted instead. Each time all
/// constraints are gathered anew.
const MOST_REPAIRS: usize = 8;

impl Packing<'_, '_> {
    /// Puts the slices that are written under an existing name in a safe order. Circles are broken only if `may_create`; else
    /// the order is as safe as it can be with these writes.
    pub(super) fn order(&mut self, may_create: bool) -> Vec<usize> {
        let mut created = BTreeSet::new();
        loop {
            let may_pair = created.len() < MOST_REPAIRS;
            if let Some(order) = self.try_order(may_create, may_pair, &mut created) {
                return order;
            }
        }
    }

    /// None when a slice was given to another new slice, so that the constraints have changed.
    fn try_order(
        &mut self,
        may_create: bool,
        may_pair: bool,
        created: &mut BTreeSet<usize>,
    ) -> Option<Vec<usize>> {
        let mut before = self.before();
        let mut order = Vec::with_capacity(before.len());
        while !before.is_empty() {
            let free: Vec<usize> =
                before.iter().filter(|(_, givers)| givers.is_empty()).map(|(slice, _)| *slice).collect();
            if !free.is_empty() {
                forget(&mut before, &free, false);
                order.extend(free);
                continue;
            }
            let stuck = circle(&before);
            if !may_create {
                let first: Vec<usize> = stuck.into_iter().take(1).collect();
                forget(&mut before, &first, false);
                order.extend(first);
                continue;
            }
            let recycled = stuck.iter().copied().find(|slice| self.recycled_by(*slice).is_some());
            if let Some(slice) = recycled {
                let vacant = self.unpair(slice, created).filter(|_| may_pair);
                if let Some(new) = vacant {
                    self.pair(slice, new);
                    return None;
                }
                forget(&mut before, &[slice], false);
            } else if let Some(slice) = stuck.first() {
                self.split(*slice, &before);
                forget(&mut before, &[*slice], self.is_rewritten(*slice));
            }
        }
        Some(order)
    }

    fn recycled_by(&self, slice: usize) -> Option<usize> {
        match self.current.get(slice).map(|one| one.fate) {
            Some(Fate::Recycle(new)) => Some(new),
            _ => None,
        }
    }

    /// Has a new slice created under a name of its own instead. Returns one that could be written in its stead.
    fn unpair(&mut self, slice: usize, created: &mut BTreeSet<usize>) -> Option<usize> {
        let new = self.recycled_by(slice)?;
        self.current.get_mut(slice)?.fate = Fate::Delete;
        self.new.get_mut(new)?.recycles = None;
        created.insert(new);
        let mut vacant = self.new.iter().enumerate().filter(|(_, new)| new.recycles.is_none());
        vacant.find(|(index, _)| !created.contains(index)).map(|(index, _)| index)
    }

    fn is_rewritten(&self, slice: usize) -> bool {
        let fate = self.current.get(slice).map(|one| one.fate);
        matches!(fate, Some(Fate::Update | Fate::Recycle(_)))
    }

    fn before(&self) -> Before {
        let rewritten = (0..self.current.len()).filter(|slice| self.is_rewritten(*slice));
        let mut before: Before = rewritten.map(|slice| (slice, BTreeSet::new())).collect();
        if self.leaving.is_empty() {
            return before;
        }
        let places = self.places();
        for leaving in &self.leaving {
            let ready_after = self.candidates.get(leaving.candidate).is_some_and(|one| one.is_ready());
            let place = places.get(&leaving.candidate).copied();
            if let Some(receiver) = place.filter(|place| {
                leaving.ready && ready_after && *place != leaving.slice && self.is_rewritten(*place)
            }) && let Some(givers) = before.get_mut(&leaving.slice)
            {
                givers.insert(receiver);
            }
        }
        before
    }

    /// By candidate, the existing name under which it is published anew, or ready for the first time.
    fn places(&self) -> BTreeMap<usize, usize> {
        let mut places = BTreeMap::new();
        for (at, one) in self.current.iter().enumerate().filter(|(_, one)| one.fate == Fate::Update) {
            places.extend(one.received.iter().map(|candidate| (*candidate, at)));
            for (position, candidate) in &one.kept {
                let ready = one.slice.endpoints.get(*position).map(|endpoint| endpoint.conditions.ready);
                if ready == Some(Some(false)) {
                    places.insert(*candidate, at);
                }
            }
        }
        for new in &self.new {
            if let Some(at) = new.recycles {
                places.extend(new.received.iter().map(|candidate| (*candidate, at)));
            }
        }
        places
    }

    /// Sends those newcomers of a slice to a new one that make others wait for it.
    fn split(&mut self, slice: usize, before: &Before) {
        let waiting: BTreeSet<usize> = before
            .iter()
            .filter(|(_, givers)| givers.contains(&slice))
            .map(|(waiting, _)| *waiting)
            .collect();
        let moved: BTreeSet<usize> = self
            .leaving
            .iter()
            .filter(|leaving| waiting.contains(&leaving.slice))
            .map(|leaving| leaving.candidate)
            .collect();
        let Some(one) = self.current.get_mut(slice) else { return };
        let (mut received, stay): (Vec<usize>, Vec<usize>) =
            std::mem::take(&mut one.received).into_iter().partition(|candidate| moved.contains(candidate));
        one.received = stay;
        let endpoints = &one.slice.endpoints;
        one.kept.retain(|(position, candidate)| {
            let ready = endpoints.get(*position).map(|endpoint| endpoint.conditions.ready);
            let goes = ready == Some(Some(false)) && moved.contains(candidate);
            if goes {
                received.push(*candidate);
            }
            !goes
        });
        one.rebuild = true;
        one.relabel = true;
        if one.len() == 0 {
            one.fate = Fate::Delete;
        }
        self.new.push(New { group: one.group, received, recycles: None });
    }
}

/// Takes slices out: nobody waits for them any more. With `only_as_receiver` they still wait for others themselves.
fn forget(before: &mut Before, slices: &[usize], only_as_receiver: bool) {
    for slice in slices {
        if !only_as_receiver {
            before.remove(slice);
        }
        for givers in before.values_mut() {
            givers.remove(slice);
        }
    }
}

/// Some circle among slices that all wait for another.
fn circle(before: &Before) -> Vec<usize> {
    let mut path: Vec<usize> = before.keys().take(1).copied().collect();
    while let Some(next) = path.last().and_then(|last| before.get(last)).and_then(BTreeSet::first) {
        if let Some(start) = path.iter().position(|slice| slice == next) {
            return path.split_off(start);
        }
        path.push(*next);
    }
    path
}
