//! Placing: which candidate goes to which slice, now that sizes are settled. A pod goes back to the slice that held it
//! where it can, under the slice's own name or a recycled one, so that few endpoints move and writes can be ordered.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use kube_endpoint_core_model::Service;
use kube_endpoint_core_model::slice_labels;
use kube_endpoint_core_model::{StringMap, Text};

use super::packing::{Fate, New, Packing, Receiver};

impl Packing<'_, '_> {
    /// Adds the placeholder where no slice would be left, unless one is there already.
    pub(super) fn add_placeholder(&mut self, service: &Service, manager: &str) {
        if !self.new.is_empty() || self.current.iter().any(|one| one.fate != Fate::Delete) {
            return;
        }
        if let [only] = self.current.as_mut_slice() {
            let slice = only.slice;
            let labels = slice_labels::for_service(service, manager);
            if slice.metadata.namespace == service.key.namespace
                && slice.endpoints.is_empty()
                && slice.ports.is_empty()
                && equal_but_for_empty_values(&slice.metadata.labels, &labels)
            {
                only.fate = Fate::Unchanged;
                return;
            }
        }
        self.new.push(New::default());
    }

    /// Pairs slices to be deleted with new ones, so that one update does for two writes (upstream `finalize`). Which pairs
    /// is open; a slice serves the group that most of its pods go to.
    pub(super) fn recycle(&mut self) {
        let mut free: Vec<usize> = Vec::new();
        for (index, one) in self.current.iter().enumerate() {
            if one.fate == Fate::Delete && one.owned {
                free.push(index);
            }
        }
        if self.new.is_empty() || free.is_empty() {
            return;
        }
        let homes = self.homes();
        let mut common: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for (group, unplaced) in self.unplaced.iter().enumerate() {
            for home in unplaced.iter().filter_map(|candidate| homes.get(candidate)) {
                *common.entry((*home, group)).or_default() += 1;
            }
        }
        let mut by_overlap: Vec<_> = common.into_iter().collect();
        by_overlap.sort_by_key(|(_, overlap)| Reverse(*overlap));
        for ((slice, group), _) in by_overlap {
            let vacant = self.new.iter().position(|new| new.group == Some(group) && new.recycles.is_none());
            if let (Some(new), Ok(at)) = (vacant, free.binary_search(&slice)) {
                free.remove(at);
                self.pair(slice, new);
            }
        }
        for (slice, new) in free.into_iter().zip(self.vacant()) {
            self.pair(slice, new);
        }
    }

    fn vacant(&self) -> Vec<usize> {
        let vacant = self.new.iter().enumerate().filter(|(_, new)| new.recycles.is_none());
        vacant.map(|(index, _)| index).collect()
    }

    pub(super) fn pair(&mut self, slice: usize, new: usize) {
        if let (Some(current), Some(new_slice)) = (self.current.get_mut(slice), self.new.get_mut(new)) {
            current.fate = Fate::Recycle(new);
            new_slice.recycles = Some(slice);
        }
    }

    /// By candidate, the first slice that its pod leaves.
    fn homes(&self) -> BTreeMap<usize, usize> {
        let mut homes = BTreeMap::new();
        for leaving in &self.leaving {
            homes.entry(leaving.candidate).or_insert(leaving.slice);
        }
        homes
    }

    /// Hands out the candidates that no slice keeps: each to the slice that held it, as long as that has room; the others
    /// in order. Within a group a slice that sends one of its own away takes in no stranger.
    pub(super) fn place(&mut self) {
        let homes = self.homes();
        for group in 0..self.receivers.len() {
            let (Some(receivers), Some(unplaced)) =
                (self.receivers.get_mut(group), self.unplaced.get_mut(group))
            else {
                continue;
            };
            let (mut receivers, unplaced) = (std::mem::take(receivers), std::mem::take(unplaced));
            let name_of = |receiver: Receiver| match receiver {
                Receiver::Current(slice) => Some(slice),
                Receiver::New(new) => self.new.get(new).and_then(|new| new.recycles),
            };
            let by_slice: BTreeMap<usize, usize> = receivers
                .iter()
                .enumerate()
                .filter_map(|(at, (receiver, _))| name_of(*receiver).map(|slice| (slice, at)))
                .collect();
            let mut strangers = Vec::new();
            for candidate in unplaced {
                let home = homes.get(&candidate).and_then(|slice| by_slice.get(slice));
                match home.and_then(|at| receivers.get_mut(*at)).filter(|(_, room)| *room > 0) {
                    Some((receiver, room)) => {
                        *room -= 1;
                        let receiver = *receiver;
                        self.give(receiver, candidate);
                    }
                    None => strangers.push(candidate),
                }
            }
            let mut seats =
                receivers.into_iter().flat_map(|(receiver, room)| std::iter::repeat_n(receiver, room));
            for candidate in strangers {
                if let Some(receiver) = seats.next() {
                    self.give(receiver, candidate);
                }
            }
        }
    }

    fn give(&mut self, receiver: Receiver, candidate: usize) {
        let received = match receiver {
            Receiver::Current(slice) => self.current.get_mut(slice).map(|one| &mut one.received),
            Receiver::New(new) => self.new.get_mut(new).map(|one| &mut one.received),
        };
        if let Some(received) = received {
            received.push(candidate);
        }
    }
}

/// Whether two maps agree when a key without a value counts as absent, as upstream compares placeholders.
fn equal_but_for_empty_values(one: &StringMap, two: &StringMap) -> bool {
    fn filled((_, value): &(&Text, &Text)) -> bool {
        !value.is_empty()
    }
    one.iter().filter(filled).eq(two.iter().filter(filled))
}
