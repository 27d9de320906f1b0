//! Keeps delayed keys in the order in which they become ready.
//!
//! A key has at most one entry: an earlier time replaces it. So memory grows with the number of
//! keys, not of calls. Upstream: `waitForPriorityQueue` in client-go
//! `util/workqueue/delaying_queue.go`.

use std::collections::BTreeMap;

use ahash::HashMap;
use tokio::time::Instant;

use crate::{Causes, Key, Reason};

/// When an entry is ready. The sequence number orders the entries of one time by call.
type Place = (Instant, u64);

#[derive(Debug)]
pub(crate) struct Waiting<K> {
    by_place: BTreeMap<Place, K>,
    // Never iterated: its order is random.
    place_of: HashMap<K, (Place, Reason)>,
    next_sequence: u64,
}

impl<K: Key> Waiting<K> {
    pub(crate) fn new() -> Self {
        Self { by_place: BTreeMap::new(), place_of: HashMap::default(), next_sequence: 0 }
    }

    /// Delays a key until `ready_at`, unless it has an earlier entry, and merges the reason with
    /// that of its entry. Returns true if the key is now the first to become ready.
    pub(crate) fn insert(&mut self, key: K, ready_at: Instant, mut reason: Reason) -> bool {
        if let Some((place, earlier)) = self.place_of.get_mut(&key) {
            reason = reason.and(*earlier);
            if place.0 <= ready_at {
                *earlier = reason;
                return false;
            }
            self.by_place.remove(place);
        }
        let first = self.next_ready().is_none_or(|next| ready_at < next);
        let place = (ready_at, self.next_sequence);
        self.next_sequence += 1;
        self.by_place.insert(place, key.clone());
        self.place_of.insert(key, (place, reason));
        first
    }

    /// Removes the first key that is ready by `now`. Returns it with the time at which it became
    /// ready, and its reason.
    pub(crate) fn pop_ready(&mut self, now: Instant) -> Option<(Instant, K, Reason)> {
        let first = self.by_place.first_entry()?;
        let (ready_at, _) = *first.key();
        if ready_at > now {
            return None;
        }
        let key = first.remove();
        let reason = self.place_of.remove(&key).map(|(_, reason)| reason).unwrap_or_default();
        Some((ready_at, key, reason))
    }

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.place_of.contains_key(key)
    }

    /// Returns the reason of a delayed key.
    pub(crate) fn reason_of(&mut self, key: &K) -> Option<&mut Reason> {
        self.place_of.get_mut(key).map(|(_, reason)| reason)
    }

    /// Returns true if a key is delayed and urgent.
    pub(crate) fn is_urgent(&self, key: &K) -> bool {
        // Most of the time no key is delayed.
        !self.place_of.is_empty() && self.place_of.get(key).is_some_and(|(_, reason)| reason.urgent)
    }

    /// Takes all but the causes out of the reason of a delayed key.
    pub(crate) fn take_change(&mut self, key: &K) -> Reason {
        if self.place_of.is_empty() {
            return Reason::default();
        }
        let Some(reason) = self.reason_of(key) else { return Reason::default() };
        let taken = Reason { causes: Causes::NONE, ..*reason };
        *reason = reason.causes.into();
        taken
    }

    /// Returns the time at which the next key becomes ready.
    pub(crate) fn next_ready(&self) -> Option<Instant> {
        self.by_place.first_key_value().map(|((ready_at, _), _)| *ready_at)
    }

    /// Frees memory, if there is much more than `kept` entries or the present ones need.
    pub(crate) fn release_memory(&mut self, kept: usize) {
        if self.place_of.capacity() > 4 * kept.max(self.place_of.len()) {
            self.place_of.shrink_to(kept);
        }
    }

    /// Returns the number of keys for which it has memory.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.place_of.capacity()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_place.len()
    }

    pub(crate) fn clear(&mut self) {
        self.by_place.clear();
        self.place_of.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_key_has_one_entry() {
        let start = Instant::now();
        let mut waiting = Waiting::new();
        for millis in (1..=1000).rev() {
            assert!(waiting.insert("a", start + Duration::from_millis(millis), Reason::default()));
            assert_eq!((waiting.by_place.len(), waiting.place_of.len()), (1, 1));
        }
    }

    #[test]
    fn insert_returns_whether_the_next_ready_time_moves_forward() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut waiting = Waiting::new();
        assert!(waiting.insert("a", at(20), Reason::default()), "the first one");
        assert!(!waiting.insert("b", at(30), Reason::default()), "a later one");
        assert!(!waiting.insert("c", at(20), Reason::default()), "one of the same time");
        assert!(waiting.insert("b", at(10), Reason::default()), "one that overtakes");
        assert_eq!(waiting.next_ready(), Some(at(10)));
        assert!(waiting.pop_ready(at(9)).is_none());
    }

    #[test]
    fn a_key_keeps_all_its_causes_and_its_earliest_change() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        let mut waiting = Waiting::new();
        for (millis, cause, since) in [(20, 1, Some(7)), (30, 2, Some(5)), (10, 3, None)] {
            let reason = Reason { causes: Causes::number(cause), since: since.map(at), urgent: false };
            waiting.insert("a", at(millis), reason);
        }
        let causes = [1, 2, 3].map(Causes::number).into_iter().fold(Causes::NONE, Causes::and);
        let all = Reason { causes, since: Some(at(5)), urgent: false };
        assert_eq!(waiting.pop_ready(at(40)), Some((at(10), "a", all)));
    }
}
