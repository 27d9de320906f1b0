//! The public handle of a queue, and waiting for keys.

use std::fmt::{self, Debug, Display};
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::metrics::QueueMetrics;
use crate::state::{Next, State, Wake};
use crate::{Causes, RateLimiter, Reason};

/// A key that can be queued, and that the log shows with `Display`. Queue the keys of objects, not
/// the objects.
pub trait Key: Clone + Eq + Hash + Debug + Display + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Debug + Display + Send + Sync + 'static> Key for K {}

/// A deduplicating, delaying, rate-limited queue of keys. Clones are handles to one queue.
///
/// Every operation takes at most logarithmic time in the number of keys. Only [`get`](Self::get)
/// and [`shut_down_with_drain`](Self::shut_down_with_drain) wait. Upstream: client-go's
/// `TypedRateLimitingInterface`.
pub struct WorkQueue<K> {
    inner: Arc<Inner<K>>,
}

struct Inner<K> {
    name: Arc<str>,
    limiter: Box<dyn RateLimiter<K>>,
    state: Mutex<State<K>>,
    /// Wakes getters.
    ready: Notify,
    /// Wakes getters of urgent keys.
    urgent: Notify,
    /// Wakes the callers that wait for the queue to drain.
    drained: Notify,
    /// Wakes the worker loop, which waits while no key is being processed.
    started: Notify,
}

impl<K> Clone for WorkQueue<K> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<K: Key> Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.inner.state.lock();
        f.debug_struct("WorkQueue")
            .field("name", &self.inner.name)
            .field("len", &state.len())
            .field("waiting", &state.waiting_len())
            .field("in_flight", &state.in_flight_len())
            .field("shutting_down", &state.is_shutting_down())
            .finish_non_exhaustive()
    }
}

impl<K: Key> WorkQueue<K> {
    /// Creates an empty queue.
    ///
    /// `name` is the label of the queue's metrics, which this call registers with the current
    /// `metrics` recorder. `limiter` decides the delays of
    /// [`add_rate_limited`](Self::add_rate_limited).
    pub fn new(name: impl Into<Arc<str>>, limiter: impl RateLimiter<K> + 'static) -> Self {
        let name = name.into();
        let state = Mutex::new(State::new(QueueMetrics::register(&name)));
        let limiter = Box::new(limiter);
        let notify = Notify::new;
        let [ready, urgent, drained, started] = [notify(), notify(), notify(), notify()];
        Self { inner: Arc::new(Inner { name, limiter, state, ready, urgent, drained, started }) }
    }

    /// Returns the name of the queue, which is the label of its metrics.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Adds a key.
    ///
    /// A key that is queued already stays where it is, unless it becomes urgent. If a worker is
    /// processing the key, the queue takes it again, once, when the worker is done. A delayed key
    /// is queued now and stays delayed as well. After a shutdown, the call is a no-op.
    pub fn add(&self, key: K) {
        self.add_for(key, Reason::default());
    }

    /// As [`add`](Self::add), and tells the worker why.
    pub fn add_for(&self, key: K, reason: impl Into<Reason>) {
        let reason = reason.into();
        self.step(|state, now| state.add(key, reason, now));
    }

    /// Adds a key after a delay.
    ///
    /// If the key is delayed already, the earlier time applies. After a shutdown, the call is a
    /// no-op.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.add_after_for(key, delay, Reason::default());
    }

    /// As [`add_after`](Self::add_after), and tells the worker why.
    pub fn add_after_for(&self, key: K, delay: Duration, reason: impl Into<Reason>) {
        let reason = reason.into();
        self.step(|state, now| state.add_after(key, reason, delay, now));
    }

    /// Counts a failure of a key and adds the key after the delay that the limiter returns.
    pub fn add_rate_limited(&self, key: K) {
        self.add_rate_limited_within(key, Duration::MAX);
    }

    /// As [`add_rate_limited`](Self::add_rate_limited), but with a delay of `longest` at most. A
    /// limiter for all keys reserves nothing later than that: the key comes back sooner, and the
    /// reservation would only delay keys that fail afterwards.
    pub(crate) fn add_rate_limited_within(&self, key: K, longest: Duration) {
        let delay = self.inner.limiter.when_within(&key, longest);
        self.add_after_for(key, delay, Causes::RETRY);
    }

    /// Resets the failures of a key, so that its next failure counts as the first one.
    ///
    /// The queue itself does not change: a queued or delayed key stays there.
    pub fn forget(&self, key: &K) {
        self.inner.limiter.forget(key);
    }

    /// Returns the number of failures of a key since the last call of [`forget`](Self::forget).
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.inner.limiter.num_requeues(key)
    }

    /// Waits for the next key and takes it. Call [`done`](Self::done) when it has been processed.
    ///
    /// Returns `None` when the queue is shut down and empty. Any number of callers may wait.
    ///
    /// # Cancel safety
    ///
    /// No key is lost if the future is dropped.
    pub async fn get(&self) -> Option<K> {
        self.get_with_reason().await.map(|(key, _)| key)
    }

    /// As [`get`](Self::get), with the reason of the adds that this call answers.
    pub async fn get_with_reason(&self) -> Option<(K, Reason)> {
        self.get_by(State::next, &self.inner.ready).await
    }

    /// As [`get_with_reason`](Self::get_with_reason), but takes only keys whose reason is urgent.
    /// Returns `None` when the queue is shut down and has no such key.
    pub async fn get_urgent(&self) -> Option<(K, Reason)> {
        self.get_by(State::next_urgent, &self.inner.urgent).await
    }

    async fn get_by(
        &self,
        next: impl Fn(&mut State<K>, Instant) -> Next<K>,
        wakes: &Notify,
    ) -> Option<(K, Reason)> {
        loop {
            // It registers before the call reads the state, so that it misses no change in between.
            let mut notified = pin!(wakes.notified());
            notified.as_mut().enable();
            match self.step(&next) {
                Next::Work(key, reason) => return Some((key, reason)),
                Next::ShutDown => return None,
                Next::Wait(None) => notified.await,
                Next::Wait(Some(ready_at)) => tokio::select! {
                    biased;
                    () = notified => {}
                    () = sleep_until(ready_at) => {}
                },
            }
        }
    }

    /// Marks a key that [`get`](Self::get) returned as processed. If somebody has added it
    /// meanwhile, the queue takes it again.
    ///
    /// For a key that is not being processed, the call is a no-op.
    pub fn done(&self, key: &K) {
        self.step(|state, now| state.done(key, now));
    }

    /// Leaves the time of a change, and that it is urgent, with a key whose processing did not
    /// publish that change. The next call of [`get`](Self::get) that returns the key returns them
    /// with it. Call this after the add that repeats the processing; without one, the call is a
    /// no-op.
    pub(crate) fn give_back(&self, key: &K, change: Reason) {
        self.step(|state, _| state.give_back(key, change));
    }

    /// Returns the number of keys that a worker can take now. It may be outdated when the call
    /// returns, so use it for information only.
    pub fn len(&self) -> usize {
        self.step(|state, _| state.len())
    }

    /// Returns true if a worker can take no key now; for information only, as [`len`](Self::len).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of delayed keys.
    pub fn waiting_len(&self) -> usize {
        self.step(|state, _| state.waiting_len())
    }

    /// Returns true if a key is delayed.
    pub(crate) fn is_waiting(&self, key: &K) -> bool {
        self.step(|state, _| state.is_waiting(key))
    }

    /// Returns true if the worker that processes a key should put off what can wait: an urgent key
    /// is queued, or this one has been added again.
    pub fn is_wanted(&self, key: &K) -> bool {
        self.step(|state, _| state.is_wanted(key))
    }

    /// Returns the number of keys that workers are processing.
    pub fn in_flight_len(&self) -> usize {
        self.step(|state, _| state.in_flight_len())
    }

    /// Returns the number of keys that are queued, delayed or being processed, counted under one
    /// lock.
    pub fn outstanding(&self) -> usize {
        self.step(|state, _| state.len() + state.waiting_len() + state.in_flight_len())
    }

    /// Shuts the queue down: it ignores later adds and drops delayed keys. [`get`](Self::get) still
    /// returns the queued keys, then `None`. Calls of
    /// [`shut_down_with_drain`](Self::shut_down_with_drain) return.
    pub fn shut_down(&self) {
        self.step(|state, _| state.shut_down(false));
    }

    /// Shuts the queue down as [`shut_down`](Self::shut_down) does, and waits until no key is being
    /// processed.
    ///
    /// As in client-go, the call waits only for `done`: if no key is being processed it returns at
    /// once, even if keys are queued. If a worker never calls `done`, it waits until `shut_down` is
    /// called. To wait until the queue is empty, wait for the worker loop. The first poll of the
    /// future shuts the queue down, which stays so if the future is dropped.
    pub async fn shut_down_with_drain(&self) {
        self.step(|state, _| state.shut_down(true));
        loop {
            let mut drained = pin!(self.inner.drained.notified());
            drained.as_mut().enable();
            if self.step(|state, _| state.is_drained()) {
                return;
            }
            drained.await;
        }
    }

    /// Returns true if the queue was shut down.
    pub fn is_shutting_down(&self) -> bool {
        self.step(|state, _| state.is_shutting_down())
    }

    /// Updates the metrics of unfinished work and of the longest running worker.
    ///
    /// The worker loop calls this every [`UPDATE_PERIOD`](crate::UPDATE_PERIOD) while keys are
    /// being processed. Without it, call it periodically.
    pub fn update_unfinished_work(&self) {
        self.step(|state, now| state.update_unfinished_work(now));
    }

    /// Returns the keys that workers have been processing for `min` or longer, each with this time,
    /// in no particular order.
    pub fn long_running(&self, min: Duration) -> Vec<(K, Duration)> {
        self.step(|state, now| state.long_running(min, now))
    }

    /// Waits until a worker takes a key while nobody processes another. It returns at once if that
    /// has happened since the last call.
    pub(crate) async fn work_started(&self) {
        self.inner.started.notified().await;
    }

    /// Resets the failures of a key and counts it as dropped.
    pub(crate) fn give_up(&self, key: &K) {
        self.forget(key);
        self.step(|state, _| state.count_dropped());
    }

    /// Queues the keys whose delay has ended and runs `step`, both under the lock; then wakes the
    /// callers concerned.
    fn step<R>(&self, step: impl FnOnce(&mut State<K>, Instant) -> R) -> R {
        let (result, wake) = {
            let mut state = self.inner.state.lock();
            // The call reads the clock under the lock, so that time does not go backwards between
            // steps.
            let now = Instant::now();
            state.promote(now);
            let result = step(&mut state, now);
            (result, state.take_wake())
        };
        self.wake(&wake);
        result
    }

    fn wake(&self, wake: &Wake) {
        // When the next ready time moves forward, every waiting caller must reset its timer: a
        // single one could be dropped, or take another key, and none would wake in time.
        if wake.all {
            self.inner.ready.notify_waiters();
            self.inner.urgent.notify_waiters();
        }
        for _ in 0..wake.ready {
            self.inner.ready.notify_one();
        }
        for _ in 0..wake.urgent {
            self.inner.urgent.notify_one();
        }
        if wake.drained {
            self.inner.drained.notify_waiters();
        }
        if wake.started {
            self.inner.started.notify_one();
        }
    }
}
