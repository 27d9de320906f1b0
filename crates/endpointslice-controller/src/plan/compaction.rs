//! The gate `slice_compaction`: slices that have become sparse are merged while some of them are written anyway.
//!
//! Upstream never merges slices, so that a Service which was large once keeps its many slices for ever. Here a sync that
//! writes to a group whose slices are less than half full on the whole moves all endpoints of one slice into another that
//! is written anyway, or the other way round. The slice that gives is deleted after all updates; no endpoint is ever away.

use std::cmp::Reverse;

use super::packing::{Fate, Packing};

/// Writes that merging may add to a sync.
const EXTRA_WRITES: usize = 1;

impl Packing<'_, '_> {
    /// Merges sparse slices of groups that are written to. `extra` counts the writes that this adds, over all families.
    pub(super) fn compact(&mut self, extra: &mut usize) {
        for group in 0..self.wanted.len() {
            while let Some((giver, receiver, cost)) = self.merge(group, EXTRA_WRITES.saturating_sub(*extra)) {
                *extra += cost;
                self.merge_into(giver, receiver);
            }
        }
    }

    /// The next two slices to merge, giver first, with the writes that this adds.
    fn merge(&self, group: usize, allowed: usize) -> Option<(usize, usize, usize)> {
        let wanted = *self.wanted.get(group)?;
        let new = self.new.iter().filter(|new| new.group == Some(group)).count();
        let mut slices: Vec<(usize, usize, bool)> = Vec::new();
        for (index, one) in self.current.iter().enumerate().filter(|(_, one)| one.group == Some(group)) {
            match one.fate {
                Fate::Update => slices.push((index, one.len(), true)),
                Fate::Unchanged => slices.push((index, one.len(), false)),
                Fate::Delete | Fate::Recycle(_) => {}
            }
        }
        let all = slices.len() + new;
        let sparse = all > 1 && 2 * wanted < all * self.capacity;
        if !sparse || !slices.iter().any(|(.., written)| *written) {
            return None;
        }
        // The smallest slice gives. The fullest that has room receives, so that few endpoints move and slices fill up.
        slices.sort_by_key(|(index, len, written)| (*len, Reverse(*written), *index));
        let pairs = slices.iter().enumerate().flat_map(|(at, giver)| {
            slices.get(at + 1..).unwrap_or_default().iter().rev().map(move |receiver| (giver, receiver))
        });
        let fitting = pairs.filter(|((_, one, _), (_, two, _))| one + two <= self.capacity);
        let with_cost = fitting.map(|((giver, _, giver_written), (receiver, _, receiver_written))| {
            (*giver, *receiver, usize::from(!giver_written) + usize::from(!receiver_written))
        });
        let mut cheapest = None;
        for pair in with_cost {
            match pair.2 {
                0 => return Some(pair),
                cost if cost <= allowed => cheapest = cheapest.or(Some(pair)),
                _ => {}
            }
        }
        cheapest
    }

    fn merge_into(&mut self, giver: usize, receiver: usize) {
        let Some(one) = self.current.get_mut(giver) else { return };
        one.fate = Fate::Delete;
        let moved: Vec<usize> =
            one.kept.drain(..).map(|(_, candidate)| candidate).chain(one.received.drain(..)).collect();
        if let Some(two) = self.current.get_mut(receiver) {
            two.fate = Fate::Update;
            two.received.extend(moved);
        }
    }
}
