//! The state of a queue and its transitions. Each takes the time as an argument and runs under the
//! queue's lock.
//!
//! Upstream: `Typed` in client-go `util/workqueue/queue.go`, and the waiting loop of
//! `delaying_queue.go`, which is [`State::promote`] here: it runs before every other step.

use std::collections::BTreeMap;
use std::time::Duration;

use ahash::HashMap;
use tokio::time::Instant;

use crate::metrics::QueueMetrics;
use crate::waiting::Waiting;
use crate::{Causes, Key, Reason};

/// The callers to wake once the lock is released.
#[derive(Debug, Default)]
pub(crate) struct Wake {
    /// The number of newly queued keys. Each wakes one getter.
    pub(crate) ready: usize,
    /// The number of keys that have become urgent. Each wakes one getter of urgent keys.
    pub(crate) urgent: usize,
    /// The next ready time moved forward, or the queue was shut down. Wakes all getters.
    pub(crate) all: bool,
    /// No key is being processed, or draining was ended. Wakes all callers that drain.
    pub(crate) drained: bool,
    /// A key is being processed while none was before. Wakes the worker loop.
    pub(crate) started: bool,
}

/// The next action of a getter.
#[derive(Debug)]
pub(crate) enum Next<K> {
    /// Return this key, with the reason of its adds.
    Work(K, Reason),
    /// Wait until woken, or until this time.
    Wait(Option<Instant>),
    /// Return `None`: the queue is shut down and empty.
    ShutDown,
}

/// A key to be processed.
struct Dirty {
    /// The time of its first add.
    added: Instant,
    reason: Reason,
    /// The place in the queue, if the key is not being processed.
    place: u64,
}

/// The state of a queue. Nothing iterates over its maps where the order matters, since it is
/// random.
pub(crate) struct State<K> {
    /// Keys that can be taken, by their place. All are in `dirty`, none in `in_flight`.
    queue: BTreeMap<u64, K>,
    /// Those of them whose reason is urgent, instead of in `queue`.
    urgent: BTreeMap<u64, K>,
    /// The last place.
    last_place: u64,
    /// True if a getter of any keys is to begin with the ones that are not urgent.
    is_turn_of_others: bool,
    /// Keys to be processed.
    dirty: HashMap<K, Dirty>,
    /// Keys that workers are processing, with the time at which they took them. `done` queues those
    /// again that are also dirty.
    in_flight: HashMap<K, Instant>,
    waiting: Waiting<K>,
    shutting_down: bool,
    draining: bool,
    metrics: QueueMetrics,
    wake: Wake,
}

impl<K: Key> State<K> {
    pub(crate) fn new(metrics: QueueMetrics) -> Self {
        Self {
            queue: BTreeMap::new(),
            urgent: BTreeMap::new(),
            last_place: 0,
            is_turn_of_others: false,
            dirty: HashMap::default(),
            in_flight: HashMap::default(),
            waiting: Waiting::new(),
            shutting_down: false,
            draining: false,
            metrics,
            wake: Wake::default(),
        }
    }

    /// Queues the keys whose delay has ended, as if they were added at that time.
    pub(crate) fn promote(&mut self, now: Instant) {
        while let Some((ready_at, key, reason)) = self.waiting.pop_ready(now) {
            self.add(key, reason, ready_at);
        }
    }

    pub(crate) fn add(&mut self, key: K, mut reason: Reason, now: Instant) {
        if self.shutting_down {
            return;
        }
        reason.urgent |= self.waiting.is_urgent(&key);
        let Some(dirty) = self.dirty.get_mut(&key) else {
            self.dirty.insert(key.clone(), Dirty { added: now, reason, place: 0 });
            self.metrics.adds.increment(1);
            self.update_depth();
            if !self.in_flight.contains_key(&key) {
                self.push(key);
            }
            return;
        };
        let was_urgent = dirty.reason.urgent;
        dirty.reason = dirty.reason.and(reason);
        if dirty.reason.urgent
            && !was_urgent
            && let Some(key) = self.queue.remove(&dirty.place)
        {
            self.push(key);
        }
    }

    pub(crate) fn add_after(&mut self, key: K, reason: Reason, delay: Duration, now: Instant) {
        if self.shutting_down {
            return;
        }
        self.metrics.retries.increment(1);
        if delay.is_zero() {
            self.add(key, reason, now);
        } else if self.waiting.insert(key, later(now, delay), reason) {
            self.wake.all = true;
        }
    }

    /// Takes an urgent key, or another one, in turn as long as there are both.
    pub(crate) fn next(&mut self, now: Instant) -> Next<K> {
        let others_first = std::mem::take(&mut self.is_turn_of_others);
        let other = if others_first { self.queue.pop_first() } else { None };
        let key = other.or_else(|| {
            let urgent = self.urgent.pop_first();
            self.is_turn_of_others = urgent.is_some();
            urgent.or_else(|| self.queue.pop_first())
        });
        self.take(key, now)
    }

    /// Takes an urgent key.
    pub(crate) fn next_urgent(&mut self, now: Instant) -> Next<K> {
        let key = self.urgent.pop_first();
        self.take(key, now)
    }

    fn take(&mut self, queued: Option<(u64, K)>, now: Instant) -> Next<K> {
        let Some((_, key)) = queued else {
            self.release_memory();
            return if self.shutting_down { Next::ShutDown } else { Next::Wait(self.waiting.next_ready()) };
        };
        let mut reason = Reason::default();
        if let Some(dirty) = self.dirty.remove(&key) {
            self.metrics.queue_duration.record(now.saturating_duration_since(dirty.added));
            reason = dirty.reason;
        }
        reason = reason.and(self.waiting.take_change(&key));
        self.update_depth();
        self.wake.started |= self.in_flight.is_empty();
        self.in_flight.insert(key.clone(), now);
        Next::Work(key, reason)
    }

    pub(crate) fn done(&mut self, key: &K, now: Instant) {
        // A key that is not being processed may be queued, and must not be queued twice.
        let Some((key, since)) = self.in_flight.remove_entry(key) else { return };
        self.metrics.work_duration.record(now.saturating_duration_since(since));
        if self.dirty.contains_key(&key) {
            self.push(key);
        }
        self.wake.drained |= self.in_flight.is_empty();
    }

    pub(crate) fn give_back(&mut self, key: &K, change: Reason) {
        let added = self.dirty.get_mut(key).map(|dirty| &mut dirty.reason);
        if let Some(reason) = added.or_else(|| self.waiting.reason_of(key)) {
            *reason = reason.and(Reason { causes: Causes::NONE, ..change });
        }
    }

    pub(crate) fn shut_down(&mut self, drain: bool) {
        self.shutting_down = true;
        self.draining = drain;
        self.waiting.clear();
        self.wake.all = true;
        self.wake.drained = true;
    }

    /// Returns true if a caller that drains the queue can return.
    pub(crate) fn is_drained(&self) -> bool {
        self.in_flight.is_empty() || !self.draining
    }

    pub(crate) fn is_shutting_down(&self) -> bool {
        self.shutting_down
    }

    pub(crate) fn len(&self) -> usize {
        self.queue.len() + self.urgent.len()
    }

    pub(crate) fn waiting_len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_waiting(&self, key: &K) -> bool {
        self.waiting.contains(key)
    }

    pub(crate) fn is_wanted(&self, key: &K) -> bool {
        !self.urgent.is_empty() || self.dirty.contains_key(key)
    }

    pub(crate) fn in_flight_len(&self) -> usize {
        self.in_flight.len()
    }

    pub(crate) fn count_dropped(&self) {
        self.metrics.dropped.increment(1);
    }

    #[expect(clippy::disallowed_methods, reason = "the sum and the maximum do not depend on the order")]
    pub(crate) fn update_unfinished_work(&self, now: Instant) {
        // Durations are whole numbers, so that the sum does not depend on the order.
        let ages = self.in_flight.values().map(|since| now.saturating_duration_since(*since));
        let (total, longest) = ages.fold((Duration::ZERO, Duration::ZERO), |(total, longest), age| {
            (total.saturating_add(age), longest.max(age))
        });
        self.metrics.unfinished_work.set(total);
        self.metrics.longest_running.set(longest);
    }

    /// Returns the keys that workers have been processing for `min` or longer, in no particular
    /// order.
    #[expect(clippy::disallowed_methods, reason = "the caller sorts them")]
    pub(crate) fn long_running(&self, min: Duration, now: Instant) -> Vec<(K, Duration)> {
        let ages = self.in_flight.iter().map(|(key, since)| (key, now.saturating_duration_since(*since)));
        ages.filter(|(_, age)| *age >= min).map(|(key, age)| (key.clone(), age)).collect()
    }

    pub(crate) fn take_wake(&mut self) -> Wake {
        std::mem::take(&mut self.wake)
    }

    /// Frees the memory that a burst of keys took, such as all keys at the start.
    fn release_memory(&mut self) {
        const KEPT: usize = 256;
        if self.dirty.capacity() > 4 * KEPT {
            self.dirty.shrink_to(KEPT);
        }
        self.waiting.release_memory(KEPT);
    }

    /// Queues a dirty key at the end.
    fn push(&mut self, key: K) {
        let Some(dirty) = self.dirty.get_mut(&key) else { return };
        self.last_place += 1;
        dirty.place = self.last_place;
        self.wake.ready += 1;
        if dirty.reason.urgent {
            self.urgent.insert(self.last_place, key);
            self.wake.urgent += 1;
        } else {
            self.queue.insert(self.last_place, key);
        }
    }

    /// Sets the depth instead of incrementing and decrementing it, so that a queue that is created
    /// again under the same name starts from zero.
    fn update_depth(&self) {
        self.metrics.depth.set(u32::try_from(self.dirty.len()).unwrap_or(u32::MAX));
    }
}

/// Returns `now` plus `delay`, limited to the longest time that a timer can represent.
fn later(now: Instant, delay: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    now.checked_add(delay.min(CENTURY)).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_memory_of_a_burst_is_given_back_when_the_queue_is_empty() {
        let mut state = State::new(QueueMetrics::register("burst"));
        let now = Instant::now();
        for key in 0..10_000 {
            state.add_after(key, Reason::default(), Duration::from_millis(1), now);
        }
        assert!(state.waiting.capacity() >= 10_000);
        state.promote(now + Duration::from_secs(1));
        assert!(state.dirty.capacity() >= 10_000);
        while let Next::Work(key, _) = state.next(now) {
            state.done(&key, now);
        }
        assert!(state.dirty.capacity() < 1_000);
        assert!(state.waiting.capacity() < 1_000);
    }
}
