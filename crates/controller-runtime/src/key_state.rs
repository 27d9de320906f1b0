//! One map with the state of all keys.

use std::sync::atomic::{AtomicUsize, Ordering};

use hashbrown::HashTable;
use kube_endpoint_core_model::{ObjectKey, PlannedEvent};
use kube_endpoint_tracker::TriggerTime;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::conflicts::Conflicts;
use crate::foreign::{ForeignChanges, Undone};
use crate::holds::{HeldKey, Holds};

/// The number of locks. A pass over all keys holds each lock only for a part of the keys.
const SHARDS: usize = 64;

/// The state of one key. It is small for most keys, which sync without trouble.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct KeyState<S> {
    pub(crate) trigger_time: TriggerTime,
    /// The events of the last plan.
    pub(crate) last_events: Option<Vec<PlannedEvent>>,
    /// The state that only few keys have.
    pub(crate) trouble: Trouble,
    pub(crate) own: S,
}

/// The part of the state that has its default value for most keys, which need no allocation for it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Trouble(Option<Box<TroubleState>>);

/// State that few keys have, or only for a short time.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct TroubleState {
    /// The reasons why the key waits.
    pub(crate) holds: Holds,
    /// How many answers of the server in a row differed from the cache. A sync that succeeds resets
    /// this.
    pub(crate) differing_answers: u32,
    pub(crate) conflicts: Conflicts,
    /// Changes of the outputs that other clients made.
    pub(crate) foreign: ForeignChanges,
    /// Updates that the server undid.
    pub(crate) undone: Undone,
}

impl Trouble {
    /// Returns the state, or `None` if all of it has its default value.
    pub(crate) fn get(&self) -> Option<&TroubleState> {
        self.0.as_deref()
    }

    /// Reads or changes the state.
    pub(crate) fn with<T>(&mut self, use_state: impl FnOnce(&mut TroubleState) -> T) -> T {
        match &mut self.0 {
            Some(state) => {
                let result = use_state(state);
                if **state == TroubleState::default() {
                    self.0 = None;
                }
                result
            }
            None => {
                let mut state = TroubleState::default();
                let result = use_state(&mut state);
                if state != TroubleState::default() {
                    self.0 = Some(Box::new(state));
                }
                result
            }
        }
    }
}

/// The numbers of keys with each kind of state, to find state that is never forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// Keys with a trigger time.
    pub trigger_times: usize,
    /// Keys and objects whose own writes the cache does not show yet.
    pub outstanding_writes: usize,
    /// Keys with the events of their last plan.
    pub reported: usize,
    /// Keys that block their syncs: they wait for the cache or for the end of a pause.
    pub deferred: usize,
    /// Changes by other clients that may come back.
    pub foreign_changes: usize,
    /// Keys whose last sync failed.
    pub failing: usize,
    /// Deleted Services that left outputs or Endpoints. Zero without a service selector.
    pub leftovers: usize,
    /// Keys with a [`Reconciler::State`](crate::Reconciler::State).
    pub own: usize,
}

/// The hasher has a random seed, because tenants choose names.
#[expect(clippy::disallowed_types, reason = "no order that anyone sees depends on it")]
type Hasher = ahash::RandomState;

/// The entries are boxed, because a table that has grown has up to 2.3 times as many slots as
/// entries.
type Shard<S> = Mutex<HashTable<Box<Entry<S>>>>;

struct Entry<S> {
    key: ObjectKey,
    state: KeyState<S>,
}

/// The state of all keys. A key whose state has the default value has no entry.
pub(crate) struct KeyStates<S> {
    /// One hash selects the shard and the place in it.
    hasher: Hasher,
    shards: Vec<Shard<S>>,
    /// The number of keys in trouble. It changes under the lock of their shard. While it is zero,
    /// [`Self::with_trouble_if_any`] looks up no key. It is rarely zero if the writes of large
    /// Services are spaced, so this helps clusters of small Services.
    troubled: AtomicUsize,
}

impl<S: Default + PartialEq> Default for KeyStates<S> {
    fn default() -> Self {
        Self {
            hasher: Hasher::default(),
            shards: std::iter::repeat_with(Mutex::default).take(SHARDS).collect(),
            troubled: AtomicUsize::new(0),
        }
    }
}

impl<S: Default + PartialEq> KeyStates<S> {
    /// Reads or changes the state of a key.
    pub(crate) fn with<T>(&self, key: &ObjectKey, use_state: impl FnOnce(&mut KeyState<S>) -> T) -> T {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        if let Ok(mut entry) = shard.find_entry(hash, |entry| entry.key == *key) {
            let state = &mut entry.get_mut().state;
            let had_trouble = state.trouble.get().is_some();
            let result = use_state(state);
            self.count_trouble(had_trouble, state.trouble.get().is_some());
            if *state == KeyState::default() {
                entry.remove();
            }
            return result;
        }
        let mut state = KeyState::default();
        let result = use_state(&mut state);
        if state != KeyState::default() {
            self.count_trouble(false, state.trouble.get().is_some());
            let entry = Box::new(Entry { key: key.clone(), state });
            shard.insert_unique(hash, entry, |entry| self.hasher.hash_one(&entry.key));
        }
        result
    }

    /// Reads or changes the part of the state of a key that few keys have.
    pub(crate) fn with_trouble<T>(
        &self,
        key: &ObjectKey,
        use_state: impl FnOnce(&mut TroubleState) -> T,
    ) -> T {
        self.with(key, |state| state.trouble.with(use_state))
    }

    /// As [`Self::with_trouble`], but for a key without trouble it returns `None` and does not call
    /// `use_state`. Use it to read or reset state: it is cheap for most keys. To set a value use
    /// [`Self::with_trouble`].
    pub(crate) fn with_trouble_if_any<T>(
        &self,
        key: &ObjectKey,
        use_state: impl FnOnce(&mut TroubleState) -> T,
    ) -> Option<T> {
        if self.troubled.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        let mut entry = shard.find_entry(hash, |entry| entry.key == *key).ok()?;
        let state = &mut entry.get_mut().state;
        state.trouble.get()?;
        let result = state.trouble.with(use_state);
        self.count_trouble(true, state.trouble.get().is_some());
        if *state == KeyState::default() {
            entry.remove();
        }
        Some(result)
    }

    /// Removes the state of a key.
    pub(crate) fn remove(&self, key: &ObjectKey) -> KeyState<S> {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        let entry = shard.find_entry(hash, |entry| entry.key == *key);
        let Ok(entry) = entry else { return KeyState::default() };
        let state = entry.remove().0.state;
        self.count_trouble(state.trouble.get().is_some(), false);
        state
    }

    /// Counts a key that got into trouble or out of it. Call this under the lock of its shard.
    fn count_trouble(&self, had: bool, has: bool) {
        match (had, has) {
            (false, true) => drop(self.troubled.fetch_add(1, Ordering::Relaxed)),
            (true, false) => drop(self.troubled.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }

    /// Returns the keys whose own state matches, sorted.
    pub(crate) fn matching(&self, matches: impl Fn(&S) -> bool) -> Vec<ObjectKey> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            found.extend(
                shard.iter().filter(|entry| matches(&entry.state.own)).map(|entry| entry.key.clone()),
            );
        }
        found.sort_unstable();
        found
    }

    /// Returns the keys that wait, sorted.
    pub(crate) fn held(&self, now: Instant) -> Vec<HeldKey> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            all.extend(shard.iter().filter_map(|entry| {
                let held = entry.state.trouble.get()?.holds.longest(now)?;
                let until = held.until?;
                Some(HeldKey { key: entry.key.clone(), why: held.why, since: held.since, until })
            }));
        }
        all.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        all
    }

    /// Counts the state. `outstanding_writes`, `failing` and `leftovers` stay zero: other types
    /// hold them.
    pub(crate) fn counts(&self) -> StateCounts {
        let mut counts = StateCounts::default();
        for shard in &self.shards {
            for entry in shard.lock().iter() {
                let state = &entry.state;
                counts.trigger_times += usize::from(!state.trigger_time.is_empty());
                counts.reported += usize::from(state.last_events.is_some());
                let trouble = state.trouble.get();
                counts.deferred += usize::from(trouble.is_some_and(|it| it.holds.block_syncs()));
                counts.foreign_changes += trouble.map_or(0, |it| it.foreign.len());
                counts.own += usize::from(state.own != S::default());
            }
        }
        counts
    }

    fn shard(&self, hash: u64) -> &Shard<S> {
        // A table uses the lowest and the highest bits of the hash for places within it. SHARDS
        // fits any usize.
        &self.shards[((hash >> 32) % SHARDS as u64) as usize]
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::holds::Hold;

    type States = KeyStates<u8>;

    static START: LazyLock<Instant> = LazyLock::new(Instant::now);

    /// Functions that read or reset state.
    const RESETS: [fn(&mut TroubleState) -> bool; 4] = [
        |state| state.holds.end(Hold::OwnWrites),
        |state| std::mem::take(&mut state.differing_answers) > 0,
        |state| std::mem::take(&mut state.holds).block_syncs(),
        |state| state.holds.block_syncs(),
    ];

    /// Functions that change state. The last three set no trouble.
    const CHANGES: [fn(&States, &ObjectKey); 5] = [
        |states, key| {
            states.with_trouble(key, |state| state.holds.set(Hold::OwnWrites, *START, *START));
        },
        |states, key| states.with_trouble(key, |state| state.differing_answers = 1),
        |states, key| states.with(key, |state| state.own += 1),
        |states, key| states.with(key, |state| state.own = 0),
        |states, key| drop(states.remove(key)),
    ];

    fn troubled_keys(states: &States) -> usize {
        let of_shard = |shard: &Shard<u8>| {
            shard.lock().iter().filter(|entry| entry.state.trouble.get().is_some()).count()
        };
        states.shards.iter().map(of_shard).sum()
    }

    proptest! {
        /// `with_trouble_if_any` finds and leaves the same state as `with_trouble`.
        #[test]
        fn a_reset_may_leave_out_keys_without_rare_state(
            steps in vec((0..3_usize, 0..CHANGES.len(), 0..RESETS.len()), 1..30),
        ) {
            let keys = ["a", "b", "c"].map(|name| ObjectKey::new("shop", name));
            let (left_out, visited) = (States::default(), States::default());
            for (key, change, reset) in steps {
                CHANGES[change](&left_out, &keys[key]);
                CHANGES[change](&visited, &keys[key]);
                let found = left_out.with_trouble_if_any(&keys[key], RESETS[reset]).unwrap_or_default();
                prop_assert_eq!(found, visited.with_trouble(&keys[key], RESETS[reset]));
                prop_assert_eq!(left_out.counts(), visited.counts());
                for states in [&left_out, &visited] {
                    prop_assert_eq!(states.troubled.load(Ordering::Relaxed), troubled_keys(states));
                }
                for key in &keys {
                    let state = |states: &States| states.with(key, |state| format!("{state:?}"));
                    prop_assert_eq!(state(&left_out), state(&visited));
                }
            }
            keys.iter().for_each(|key| drop(left_out.remove(key)));
            prop_assert_eq!(left_out.counts(), StateCounts::default());
            prop_assert_eq!(left_out.troubled.load(Ordering::Relaxed), 0);
        }
    }
}
