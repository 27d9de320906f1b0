//! The queue as its users see it: a handle that is cheap to clone, and the waiting.

use std::fmt::{self, Debug};
use std::hash::Hash;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::RateLimiter;
use crate::metrics::QueueMetrics;
use crate::state::{Next, State, Wake};

/// What can be queued: the key of an object, not the object.
pub trait Key: Clone + Eq + Hash + Debug + Send + Sync + 'static {}

impl<K: Clone + Eq + Hash + Debug + Send + Sync + 'static> Key for K {}

/// A deduplicating, delaying, rate-limited queue of keys. Clones are handles to one queue.
///
/// Every operation takes time at most logarithmic in the number of keys, and none but [`get`](Self::get) and
/// [`shut_down_with_drain`](Self::shut_down_with_drain) waits. Upstream: client-go's
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
    /// Wakes those who wait for the queue to drain.
    drained: Notify,
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
    /// An empty queue.
    ///
    /// `name` is the label of its metrics, which are registered here with the `metrics` recorder that is current;
    /// `limiter` says how long [`add_rate_limited`](Self::add_rate_limited) waits.
    pub fn new(name: impl Into<Arc<str>>, limiter: impl RateLimiter<K> + 'static) -> Self {
        let name = name.into();
        let state = Mutex::new(State::new(QueueMetrics::register(&name)));
        let limiter = Box::new(limiter);
        Self { inner: Arc::new(Inner { name, limiter, state, ready: Notify::new(), drained: Notify::new() }) }
    }

    /// The name under which the queue's metrics are found.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Asks for the key to be worked.
    ///
    /// Nothing changes when the key is in the queue already; while it is being worked, it comes again, once,
    /// afterwards. If it waits in delay it is worked now and stays in delay as well. After a shut down the call
    /// does nothing.
    pub fn add(&self, key: K) {
        self.step(|state, now| state.add(key, now));
    }

    /// Asks for the key to be worked once `delay` is over; without a delay, at once.
    ///
    /// If the key waits in delay already, the earlier time holds. After a shut down the call does nothing.
    pub fn add_after(&self, key: K, delay: Duration) {
        self.step(|state, now| state.add_after(key, delay, now));
    }

    /// Asks for the key to be worked again once the limiter allows, and counts one more failure of it.
    pub fn add_rate_limited(&self, key: K) {
        let delay = self.inner.limiter.when(&key);
        self.add_after(key, delay);
    }

    /// Ends the key's row of failures, so that its next failure waits as a first one does.
    ///
    /// The queue itself is left as it is: a key that waits in it still comes.
    pub fn forget(&self, key: &K) {
        self.inner.limiter.forget(key);
    }

    /// How often the key failed since it was last forgotten.
    pub fn num_requeues(&self, key: &K) -> u32 {
        self.inner.limiter.num_requeues(key)
    }

    /// Waits for the next key and takes it; call [`done`](Self::done) when it is worked.
    ///
    /// `None` says that the queue is shut down and empty: the worker may go. The future may be dropped at any
    /// time, no key is lost by it; any number of getters may wait.
    pub async fn get(&self) -> Option<K> {
        loop {
            // Whatever happens after this line is seen: by the look at the state, or by the notification.
            let mut notified = pin!(self.inner.ready.notified());
            notified.as_mut().enable();
            match self.step(State::next) {
                Next::Work(key) => return Some(key),
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

    /// Says that the key, which [`get`](Self::get) gave, is worked. If it was added meanwhile it is queued again.
    ///
    /// For a key that nobody works the call does nothing.
    pub fn done(&self, key: &K) {
        self.step(|state, now| state.done(key, now));
    }

    /// How many keys a getter would be given at once. It is out of date when it is read: for information only.
    pub fn len(&self) -> usize {
        self.step(|state, _| state.len())
    }

    /// Whether no key is there to be taken; the same reservation holds.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many keys wait in delay.
    pub fn waiting_len(&self) -> usize {
        self.step(|state, _| state.waiting_len())
    }

    /// How many keys were taken and are not done.
    pub fn in_flight_len(&self) -> usize {
        self.step(|state, _| state.in_flight_len())
    }

    /// How many keys are there to be taken, wait in delay, or are being worked: none when all is done. Counted at one
    /// moment, so that a key on its way from one to the other is not missed.
    pub fn outstanding(&self) -> usize {
        self.step(|state, _| state.len() + state.waiting_len() + state.in_flight_len())
    }

    /// Takes no key any more, from now on. What waits in delay is dropped; what is in the queue is still given
    /// out, and then [`get`](Self::get) answers `None`. Ends the waiting of those who drain the queue.
    pub fn shut_down(&self) {
        self.step(|state, _| state.shut_down(false));
    }

    /// Shuts the queue down as [`shut_down`](Self::shut_down) does, and waits until no key is being worked.
    ///
    /// As in client-go it is only `done` that is waited for: with nothing in flight the call returns at once,
    /// whatever is queued, and a worker that never says `done` makes it wait for ever, unless somebody calls
    /// `shut_down`. That the queue has been worked empty is known when the worker loop returns. The queue shuts
    /// down when the future is first polled, and stays so if it is dropped.
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

    /// Whether the queue was shut down.
    pub fn is_shutting_down(&self) -> bool {
        self.step(|state, _| state.is_shutting_down())
    }

    /// Brings the metrics of unfinished work and of the longest running worker up to date.
    ///
    /// The worker loop does this every [`UPDATE_PERIOD`](crate::UPDATE_PERIOD); whoever works the queue by hand
    /// calls it now and then.
    pub fn update_unfinished_work(&self) {
        self.step(|state, now| state.update_unfinished_work(now));
    }

    /// Ends the key's row of failures and counts it as dropped.
    pub(crate) fn give_up(&self, key: &K) {
        self.forget(key);
        self.step(|state, _| state.count_dropped());
    }

    /// Runs one step under the lock, after every key that is ready by now has been moved into the queue, and wakes
    /// those whom it concerns when the lock is released.
    fn step<R>(&self, step: impl FnOnce(&mut State<K>, Instant) -> R) -> R {
        let (result, wake) = {
            let mut state = self.inner.state.lock();
            // Read under the lock, so that time never runs backwards from one step to the next.
            let now = Instant::now();
            state.promote(now);
            let result = step(&mut state, now);
            (result, state.take_wake())
        };
        self.wake(&wake);
        result
    }

    fn wake(&self, wake: &Wake) {
        // All getters set their timers anew when the next ready time moves forward: if one did it for the others
        // and was then dropped, or got another key to work, nobody would be there in time.
        if wake.all {
            self.inner.ready.notify_waiters();
        }
        for _ in 0..wake.ready {
            self.inner.ready.notify_one();
        }
        if wake.drained {
            self.inner.drained.notify_waiters();
        }
    }
}
