//! Everything that is kept for a key, in one map.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::time::Duration;

use kube_endpoint_core_model::{ObjectKey, PlannedEvent, ResourceVersion};
use kube_endpoint_tracker::TriggerTime;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::conflicts::Conflicts;
use crate::foreign::{ForeignChanges, Undone};

/// So many locks share the keys. A pass over all keys then holds each lock for a small part of them.
const SHARDS: usize = 64;

/// What is kept for one key. It is small for a key that syncs without trouble, as most keys do.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct KeyState<S> {
    /// The pods' and the Service's times that the last sync saw.
    pub(crate) trigger_time: TriggerTime,
    /// The events of the last plan.
    pub(crate) last_events: Option<Vec<PlannedEvent>>,
    /// What few keys have.
    pub(crate) rare: Rare,
    /// The controller's own.
    pub(crate) own: S,
}

/// The part of the state that has its default value for most keys. Such a key has no allocation for it.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Rare(Option<Box<RareState>>);

/// What is kept for few keys, or for a short time.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RareState {
    /// The version of the Service about which a warning was logged.
    pub(crate) warned: Option<ResourceVersion>,
    /// Whether the sync waits for the cache to show our own writes.
    pub(crate) deferred: bool,
    /// Since when the cache has not shown all of our own writes.
    pub(crate) stale_since: Option<Instant>,
    /// How long the key waits since the server's last answer that differed from the cache; none after a sync that succeeded.
    pub(crate) comparison_delay: Duration,
    /// Conflicts in a row.
    pub(crate) conflicts: Conflicts,
    /// Until when the API server asked to be left alone.
    pub(crate) paused_until: Option<Instant>,
    /// A sync that a change of a pod starts waits until then, because the last sync wrote a short time ago.
    pub(crate) spaced_until: Option<Instant>,
    /// Changes of the outputs that other clients made.
    pub(crate) foreign: ForeignChanges,
    /// Updates that the server undid.
    pub(crate) undone: Undone,
}

impl Rare {
    /// Returns what is kept, unless all of it has its default value.
    pub(crate) fn get(&self) -> Option<&RareState> {
        self.0.as_deref()
    }

    /// Reads or changes it.
    pub(crate) fn with<T>(&mut self, use_state: impl FnOnce(&mut RareState) -> T) -> T {
        match &mut self.0 {
            Some(state) => {
                let result = use_state(state);
                if **state == RareState::default() {
                    self.0 = None;
                }
                result
            }
            None => {
                let mut state = RareState::default();
                let result = use_state(&mut state);
                if state != RareState::default() {
                    self.0 = Some(Box::new(state));
                }
                result
            }
        }
    }
}

/// How many keys something is kept for, to find what is never forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StateCounts {
    /// Keys with a trigger time.
    pub trigger_times: usize,
    /// Keys and objects of which the cache does not show our own writes yet.
    pub outstanding_writes: usize,
    /// Keys whose last events are kept.
    pub reported: usize,
    /// Keys whose sync waits for the cache or for the end of a pause.
    pub deferred: usize,
    /// Changes that other clients made, and that may come back.
    pub foreign_changes: usize,
    /// Keys whose last sync failed.
    pub failing: usize,
    /// Deleted Services of which outputs or Endpoints are left, if only some Services are selected.
    pub leftovers: usize,
    /// Keys with state of the controller's own.
    pub own: usize,
}

/// The state of all keys. A key whose state has the default value has no entry.
pub(crate) struct KeyStates<S> {
    /// Selects a shard. It is the same in every process.
    hasher: BuildHasherDefault<DefaultHasher>,
    shards: Vec<Mutex<HashMap<ObjectKey, KeyState<S>>>>,
}

impl<S: Default + PartialEq> Default for KeyStates<S> {
    fn default() -> Self {
        Self {
            hasher: BuildHasherDefault::default(),
            shards: std::iter::repeat_with(Mutex::default).take(SHARDS).collect(),
        }
    }
}

impl<S: Default + PartialEq> KeyStates<S> {
    /// Reads or changes the state of a key.
    pub(crate) fn with<T>(&self, key: &ObjectKey, use_state: impl FnOnce(&mut KeyState<S>) -> T) -> T {
        let mut shard = self.shard(key).lock();
        match shard.get_mut(key) {
            Some(state) => {
                let result = use_state(state);
                if *state == KeyState::default() {
                    shard.remove(key);
                }
                result
            }
            None => {
                let mut state = KeyState::default();
                let result = use_state(&mut state);
                if state != KeyState::default() {
                    shard.insert(key.clone(), state);
                }
                result
            }
        }
    }

    /// Reads or changes the part of the state of a key that few keys have.
    pub(crate) fn with_rare<T>(&self, key: &ObjectKey, use_state: impl FnOnce(&mut RareState) -> T) -> T {
        self.with(key, |state| state.rare.with(use_state))
    }

    /// Removes everything that is kept for a key.
    pub(crate) fn remove(&self, key: &ObjectKey) -> KeyState<S> {
        self.shard(key).lock().remove(key).unwrap_or_default()
    }

    /// The keys whose own state matches, sorted.
    #[expect(clippy::disallowed_methods, reason = "the keys are sorted")]
    pub(crate) fn matching(&self, matches: impl Fn(&S) -> bool) -> Vec<ObjectKey> {
        let mut found = Vec::new();
        for shard in &self.shards {
            let shard = shard.lock();
            found.extend(shard.iter().filter(|(_, state)| matches(&state.own)).map(|(key, _)| key.clone()));
        }
        found.sort_unstable();
        found
    }

    /// Counts what is kept. `outstanding_writes`, `failing` and `leftovers` are not kept here, and stay zero.
    #[expect(clippy::disallowed_methods, reason = "sums do not depend on the order")]
    #[expect(clippy::iter_over_hash_type, reason = "sums do not depend on the order")]
    pub(crate) fn counts(&self) -> StateCounts {
        let mut counts = StateCounts::default();
        for shard in &self.shards {
            for state in shard.lock().values() {
                counts.trigger_times += usize::from(!state.trigger_time.is_empty());
                counts.reported += usize::from(state.last_events.is_some());
                let rare = state.rare.get();
                counts.deferred +=
                    usize::from(rare.is_some_and(|it| it.deferred || it.paused_until.is_some()));
                counts.foreign_changes += rare.map_or(0, |it| it.foreign.len());
                counts.own += usize::from(state.own != S::default());
            }
        }
        counts
    }

    fn shard(&self, key: &ObjectKey) -> &Mutex<HashMap<ObjectKey, KeyState<S>>> {
        let number = self.hasher.hash_one(key) % SHARDS as u64;
        // SHARDS fits any usize.
        &self.shards[number as usize]
    }
}
