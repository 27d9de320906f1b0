//! Runs a reconciler.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder};
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_informer::Cluster;
use kube_endpoint_workqueue::{AfterRetries, RetryPolicy, run_workers_observed};
use tokio::time::Instant;

use crate::all_keys::queue_all_keys;
use crate::failure_log::summarize_failures;
use crate::latency::measured;
use crate::observe::observed;
use crate::outages::drive_outages;
use crate::overdue::check_overdue_writes;
use crate::resync::resync_periodically;
use crate::{
    ActivityCounts, Cause, FailingCounts, HeldKey, RecentForeignWrite, Reconciler, Runtime, SlowRetry,
    StateCounts,
};

/// How often a key is retried whose retries have all failed.
const SLOW_RETRY_PERIOD: Duration = Duration::from_secs(300);

/// What a controller works with.
pub struct ControllerContext {
    /// The caches. The controller registers itself as a handler.
    pub cluster: Cluster,
    /// Sends the writes.
    pub writer: ApiWriter,
    /// Records the events.
    pub events: EventRecorder,
    /// The wall clock.
    pub clock: Clock,
    /// Determines the names of new objects and all jitter: a random number in production, a
    /// constant in tests.
    pub seed: u64,
}

/// A controller. Cloning it shares it. The [crate](crate#example) has an example.
pub struct Controller<R: Reconciler> {
    runtime: Arc<Runtime<R>>,
}

impl<R: Reconciler> Clone for Controller<R> {
    fn clone(&self) -> Self {
        Self { runtime: Arc::clone(&self.runtime) }
    }
}

impl<R: Reconciler> Controller<R> {
    /// Creates a controller and registers it as a handler of its cluster. It syncs nothing before
    /// [`Self::run`].
    pub fn new(context: ControllerContext, options: R::Options) -> Self {
        let cluster = context.cluster.clone();
        let runtime = Arc::new(Runtime::new(context, R::new(options)));
        cluster.add_handler(Arc::clone(&runtime) as _);
        Self { runtime }
    }

    /// Waits until the caches of the kinds that it reads are synced, then syncs all keys, and those
    /// that change from then on, until [`Self::shut_down`], and after it the keys that are queued
    /// already, as upstream. Delayed keys are left to the next process. Before the caches are
    /// synced it looks at no changes, so another process may write the outputs.
    ///
    /// # Panics
    ///
    /// When a sync panics: a controller must not run on with fewer workers.
    pub async fn run(self) {
        let runtime = self.runtime;
        tokio::select! {
            biased;
            () = runtime.stopped.notified() => return,
            () = runtime.cluster().synced_kinds(R::kinds()) => {}
        }
        runtime.has_begun.store(true, Ordering::Release);
        runtime.reconciler.start(&runtime);
        queue_all_keys(&runtime).await;
        let (syncing, observing) = (Arc::clone(&runtime), Arc::clone(&runtime));
        let config = runtime.reconciler.config();
        let then = if config.options.slow_retries {
            AfterRetries::RetrySlowly { period: SLOW_RETRY_PERIOD, seed: runtime.seed }
        } else {
            AfterRetries::Drop
        };
        let workers = run_workers_observed(
            runtime.queue.clone(),
            RetryPolicy { then, extra: Cause::extra(), ..RetryPolicy::default() },
            config.workers,
            move |key, reason| {
                let runtime = Arc::clone(&syncing);
                async move {
                    let sync = observed(&runtime, &key, reason.causes);
                    measured(sync, reason.since, |took| runtime.published(took)).await
                }
            },
            move |attempt| {
                observing.activity.synced(attempt.result.is_ok());
                observing.settled(&attempt);
                observing.reconciler.observe(&attempt);
            },
        );
        tokio::select! {
            biased;
            () = workers => {}
            () = runtime.reconciler.background(&runtime) => {}
            () = drive_outages(runtime.outage.as_ref()) => {}
            () = resync_periodically(&runtime) => {}
            () = check_overdue_writes(&runtime) => {}
            () = summarize_failures(&runtime) => {}
        }
    }

    /// Takes no more keys. [`Self::run`] returns when the keys that are queued have been synced. It
    /// does not when a sync never ends, so call it with a time limit.
    pub fn shut_down(&self) {
        self.runtime.queue.shut_down();
        self.runtime.stopped.notify_one();
    }

    /// The stores from which it reads.
    pub fn cluster(&self) -> &Cluster {
        self.runtime.cluster()
    }

    /// How many keys are queued, wait to be queued, or are being synced.
    pub fn pending(&self) -> usize {
        self.runtime.queue.outstanding()
    }

    /// How many keys are queued: they can be taken by a worker now.
    pub fn queue_depth(&self) -> usize {
        self.runtime.queue.len()
    }

    /// What it has done since it was made.
    pub fn activity(&self) -> ActivityCounts {
        self.runtime.activity.counts()
    }

    /// How many keys fail.
    pub fn failing_counts(&self) -> FailingCounts {
        self.runtime.failing.counts()
    }

    /// The keys after `after` whose retries have all failed, in order, `limit` at most. Begin with
    /// the default key, and go on after the last key of each answer.
    pub fn slow_retries(&self, after: &ObjectKey, limit: usize) -> Vec<SlowRetry> {
        self.runtime.failing.slow_retries(after, limit)
    }

    /// The keys whose sync has been running for `min` or longer, each with this time, the longest
    /// first.
    pub fn long_syncs(&self, min: Duration) -> Vec<(ObjectKey, Duration)> {
        let mut syncs = self.runtime.queue.long_running(min);
        syncs.sort_by(|(one, age), (other, other_age)| other_age.cmp(age).then_with(|| one.cmp(other)));
        syncs
    }

    /// The outputs that other clients wrote last, 20 at most, the newest first.
    pub fn recent_foreign_writes(&self) -> Vec<RecentForeignWrite> {
        self.runtime.recent_foreign_writes.list()
    }

    /// The keys that wait, sorted, each with the reason that lasts the longest.
    pub fn held_keys(&self) -> Vec<HeldKey> {
        self.runtime.keys.held(Instant::now())
    }

    /// How many keys something is kept for.
    pub fn state_counts(&self) -> StateCounts {
        self.runtime.counts()
    }
}
