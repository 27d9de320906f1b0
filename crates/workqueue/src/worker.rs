//! The worker loop: takes keys, syncs their objects, and retries what fails.
//!
//! Upstream: `worker`, `processNextWorkItem` and `handleErr` of each controller, and the loop in
//! client-go that keeps the metrics of unfinished work.

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use opentelemetry::context::FutureExt;
use parking_lot::Mutex;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::span::{self, SyncTracer};
use crate::{Causes, Key, Reason, WorkQueue};

/// How often the worker loop updates the metrics of unfinished work.
pub const UPDATE_PERIOD: Duration = Duration::from_millis(500);

/// The number of retries of a key that keeps failing, and its fate afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The number of retries whose delay the rate limiter decides.
    pub max_retries: u32,
    /// The policy for a key whose last retry has failed.
    pub then: AfterRetries,
    /// A sync is an extra one if it has no other causes than these. If it fails while the key waits
    /// for a retry, the key goes on waiting, and this uses up no retry.
    pub extra: Causes,
}

/// The policy for a key whose retries have all failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterRetries {
    /// The worker loop drops the key: it syncs it again only when something adds it. Upstream does
    /// this.
    Drop,
    /// The worker loop retries the key until it succeeds, each time after `period` plus up to a
    /// fifth of it. The retries before do not wait longer than that either.
    RetrySlowly {
        /// The shortest delay.
        period: Duration,
        /// The seed of the random part of the delay.
        seed: u64,
    },
}

impl Default for RetryPolicy {
    /// 15 retries, the `maxRetries` of all three controllers, then [`AfterRetries::Drop`]. No sync
    /// is an extra one.
    fn default() -> Self {
        Self { max_retries: 15, then: AfterRetries::Drop, extra: Causes::NONE }
    }
}

/// The result of a sync that did not fail.
pub trait SyncOutcome {
    /// Returns true if the sync succeeded: the worker loop then forgets the failures of the key. It
    /// keeps them after a sync that was put off, which neither failed nor succeeded, so that a key
    /// that is put off between two failures still backs off.
    fn is_success(&self) -> bool {
        true
    }
}

impl SyncOutcome for () {}

/// Tells what the worker loop did with a key after a sync.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// The sync succeeded; the key's failures are forgotten.
    Forgotten,
    /// The sync was put off; the key's failures stay.
    PutOff,
    /// The sync failed; the key is retried when the limiter allows.
    Retried {
        /// Number of consecutive failures, including this one.
        requeues: u32,
    },
    /// All retries failed; the key is retried slowly.
    RetriedSlowly,
    /// All retries failed; the key is dropped.
    Dropped,
}

/// One finished sync, for the caller's own metrics.
#[derive(Debug)]
pub struct Attempt<'a, K, T, E> {
    pub key: &'a K,
    pub result: &'a Result<T, E>,
    /// The action of the worker loop on the key.
    pub disposition: Disposition,
    pub elapsed: Duration,
}

/// Syncs keys until the queue is shut down and empty: [`run_workers_observed`] with an observer
/// that logs each failure, and logs a dropped key as an error.
pub async fn run_workers<K, T, E, F, Fut>(
    queue: WorkQueue<K>,
    policy: RetryPolicy,
    concurrency: usize,
    sync: F,
) where
    K: Key,
    T: SyncOutcome + 'static,
    E: Display + 'static,
    F: Fn(K) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
{
    let name = queue.clone();
    let log = move |attempt: Attempt<'_, K, T, E>| log_failure(name.name(), &attempt);
    run_workers_observed(queue, policy, concurrency, move |key, _| sync(key), log).await;
}

fn log_failure<K: Key, T, E: Display>(queue: &str, attempt: &Attempt<'_, K, T, E>) {
    let Attempt { key, result: Err(error), disposition, .. } = attempt else { return };
    match disposition {
        Disposition::Dropped => {
            tracing::error!(queue, %key, %error, "sync failed after all retries, the key is dropped");
        }
        _ => tracing::warn!(queue, %key, %error, ?disposition, "sync failed, the key will be retried"),
    }
}

/// Processes the queue with `concurrency` workers (at least one), each in its own task, until the
/// queue is shut down and empty. One more worker takes only keys whose [`Reason`] is urgent, so
/// that these never wait until the syncs of other keys end.
///
/// A worker calls `sync` with a key and the reason of its adds. If it succeeds, the worker forgets
/// the key's failures. If it fails, the worker adds the key again with the delay of the queue's
/// rate limiter, at most `policy.max_retries` times; then `policy.then` applies.
/// `workqueue_dropped_total` counts dropped keys. The worker calls `observe` with every result
/// before the key is done. `observe` decides what to log: the worker logs nothing above the debug
/// level, since all keys may fail at once.
///
/// Dropping this future cancels the workers at their current await, and their keys are done without
/// a retry. A panic in `sync` or in `observe` marks its key done, cancels the other workers and
/// continues in the caller: as in upstream, a controller that panics ends its process and does not
/// continue with fewer workers.
pub async fn run_workers_observed<K, T, E, F, Fut, O>(
    queue: WorkQueue<K>,
    policy: RetryPolicy,
    concurrency: usize,
    sync: F,
    observe: O,
) where
    K: Key,
    T: SyncOutcome + 'static,
    E: Display + 'static,
    F: Fn(K, Reason) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<T, E>> + Send + 'static,
    O: Fn(Attempt<'_, K, T, E>) + Send + Sync + 'static,
{
    let job = Arc::new(Job {
        queue: queue.clone(),
        max_retries: policy.max_retries,
        extra: policy.extra,
        slow: SlowRetries::new(policy.then),
        tracer: SyncTracer::new(),
        sync,
        observe,
    });
    let mut workers = JoinSet::new();
    for _ in 0..concurrency.max(1) {
        let job = Arc::clone(&job);
        workers.spawn(async move {
            while let Some((key, reason)) = job.queue.get_with_reason().await {
                job.work(key, reason).await;
            }
        });
    }
    let of_urgent = Arc::clone(&job);
    workers.spawn(async move {
        while let Some((key, reason)) = of_urgent.queue.get_urgent().await {
            of_urgent.work(key, reason).await;
        }
    });

    let mut updates = interval(UPDATE_PERIOD);
    updates.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // While no key is being processed, the metrics stay at zero and no timer runs.
    let mut is_idle = true;
    loop {
        tokio::select! {
            biased;
            joined = workers.join_next() => match joined {
                None => break,
                Some(Ok(())) => {}
                Some(Err(error)) => if let Ok(panic) = error.try_into_panic() {
                    std::panic::resume_unwind(panic);
                }
            },
            () = queue.work_started(), if is_idle => {
                updates.reset();
                is_idle = false;
            }
            _ = updates.tick(), if !is_idle => {
                queue.update_unfinished_work();
                is_idle = queue.in_flight_len() == 0;
            }
        }
    }
    // The last update may have counted work that is finished by now.
    queue.update_unfinished_work();
}

/// The parameters that all workers of one loop share.
struct Job<K, F, O> {
    queue: WorkQueue<K>,
    max_retries: u32,
    extra: Causes,
    slow: Option<SlowRetries>,
    tracer: SyncTracer,
    sync: F,
    observe: O,
}

impl<K: Key, F, O> Job<K, F, O> {
    async fn work<T, E, Fut>(&self, key: K, reason: Reason)
    where
        T: SyncOutcome,
        E: Display,
        F: Fn(K, Reason) -> Fut,
        Fut: Future<Output = Result<T, E>>,
        O: Fn(Attempt<'_, K, T, E>),
    {
        let in_flight = InFlight { queue: &self.queue, key };
        // A sync that finds nothing to do never waits: a long queue of such keys would block the
        // thread without this. The key is in flight here, so that a caller that drains the queue
        // waits for it.
        yield_now().await;
        let start = Instant::now();
        let requeues = self.queue.num_requeues(&in_flight.key);
        let context = self.tracer.begin(self.queue.name(), &in_flight.key, requeues);
        let result = (self.sync)(in_flight.key.clone(), reason).with_context(context.clone()).await;
        span::end(&context, result.as_ref().err());
        let disposition = self.settle(&in_flight.key, reason, &result);
        if (reason.since.is_some() || reason.urgent)
            && !matches!(disposition, Disposition::Forgotten | Disposition::Dropped)
        {
            self.queue.give_back(&in_flight.key, reason);
        }
        (self.observe)(Attempt {
            key: &in_flight.key,
            result: &result,
            disposition,
            elapsed: start.elapsed(),
        });
    }

    /// Applies the retry policy. The key is still in flight, so that no worker can take it again
    /// before it is done.
    fn settle<T: SyncOutcome, E: Display>(
        &self,
        key: &K,
        reason: Reason,
        result: &Result<T, E>,
    ) -> Disposition {
        let error = match result {
            Ok(outcome) if outcome.is_success() => {
                self.queue.forget(key);
                return Disposition::Forgotten;
            }
            Ok(_) => return Disposition::PutOff,
            Err(error) => error,
        };
        let queue = self.queue.name();
        let requeues = self.queue.num_requeues(key);
        if reason.causes.is_within(self.extra) && self.queue.is_waiting(key) {
            tracing::debug!(queue, %key, requeues, %error, "an extra sync failed, the key waits for its retry");
            Disposition::Retried { requeues }
        } else if requeues < self.max_retries {
            let requeues = requeues.saturating_add(1);
            tracing::debug!(queue, %key, requeues, %error, "sync failed, the key will be retried");
            let longest = self.slow.as_ref().map_or(Duration::MAX, SlowRetries::delay);
            self.queue.add_rate_limited_within(key.clone(), longest);
            Disposition::Retried { requeues }
        } else if let Some(slow) = &self.slow {
            tracing::debug!(queue, %key, requeues, %error, "sync failed, the key will be retried slowly");
            self.queue.add_after_for(key.clone(), slow.delay(), Causes::RETRY);
            Disposition::RetriedSlowly
        } else {
            tracing::debug!(queue, %key, requeues, %error, "sync failed after all retries, the key is dropped");
            self.queue.give_up(key);
            Disposition::Dropped
        }
    }
}

/// The delays of slow retries.
struct SlowRetries {
    period: Duration,
    random: Mutex<ChaCha8Rng>,
}

impl SlowRetries {
    fn new(then: AfterRetries) -> Option<Self> {
        let AfterRetries::RetrySlowly { period, seed } = then else { return None };
        Some(Self { period, random: Mutex::new(ChaCha8Rng::seed_from_u64(seed)) })
    }

    /// Returns the next delay: the period and up to a fifth of it.
    fn delay(&self) -> Duration {
        self.period.mul_f64(self.random.lock().random_range(1.0..1.2))
    }
}

/// A key that a worker has taken. Dropping this marks the key done, also after a panic or when the
/// worker is cancelled.
struct InFlight<'a, K: Key> {
    queue: &'a WorkQueue<K>,
    key: K,
}

impl<K: Key> Drop for InFlight<'_, K> {
    fn drop(&mut self) {
        self.queue.done(&self.key);
    }
}
