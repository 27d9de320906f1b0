//! The order of updates: whoever takes a pod in is written before whoever gives it away, so that nobody who watches ever
//! misses a pod that is ready before and after. Creates come before and deletes after all updates, so that only updates
//! need an order; where updates wait for one another in a circle, one of them is replaced by a create.

use std::collections::{BTreeMap, BTreeSet};

use super::packing::{Fate, New, Packing};

/// For each slice that is written under an existing name, the slices that must be written before it.
type Before = BTreeMap<usize, BTreeSet<usize>>;

impl Packing<'_, '_> {
    /// Puts the slices that are written under an existing name in a safe order. Circles are broken only if `may_create`.
    pub(super) fn order(&mut self, may_create: bool) -> Vec<usize> {
        let mut before = self.before();
        let mut order = Vec::with_capacity(before.len());
        while !before.is_empty() {
            let free: Vec<usize> =
                before.iter().filter(|(_, givers)| givers.is_empty()).map(|(slice, _)| *slice).collect();
            let written = if free.is_empty() {
                let stuck = circle(&before);
                let victim = if may_create { self.break_circle(&stuck, &before) } else { None };
                match victim {
                    // It is created and deleted now, or no longer takes in what made others wait: nothing waits for it.
                    Some(victim) => {
                        forget(&mut before, &[victim], self.is_rewritten(victim));
                        continue;
                    }
                    None => stuck.into_iter().take(1).collect(),
                }
            } else {
                free
            };
            forget(&mut before, &written, false);
            order.extend(written);
        }
        order
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

    /// Makes one slice of a circle independent of the others: a recycled one, which is created under a new name instead;
    /// else one whose newcomers from the circle go to a new slice. Returns which.
    fn break_circle(&mut self, circle: &[usize], before: &Before) -> Option<usize> {
        for &slice in circle {
            if let Some(one) = self.current.get_mut(slice)
                && let Fate::Recycle(new) = one.fate
            {
                one.fate = Fate::Delete;
                if let Some(new) = self.new.get_mut(new) {
                    new.recycles = None;
                }
                return Some(slice);
            }
        }
        let slice = *circle.first()?;
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
        let one = self.current.get_mut(slice)?;
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
        Some(slice)
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
