//! Runs a reconciler.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kube_endpoint_api_writer::{ApiWriter, Clock, DryRun, EventRecorder};
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_informer::Cluster;
use kube_endpoint_workqueue::{AfterRetries, RetryPolicy, run_workers_observed};
use tokio::time::Instant;

use crate::all_keys::queue_all_keys;
use crate::failure_log::summarize_failures;
use crate::latency::measured;
use crate::observe::observed;
use crate::other_controller::look_for_other_controller;
use crate::outages::drive_outages;
use crate::overdue::check_overdue_writes;
use crate::resync::resync_periodically;
use crate::{
    ActivityCounts, Cause, FailingCounts, HeldKey, OtherController, RecentForeignWrite, Reconciler, Runtime,
    SlowRetry, StateCounts,
};

/// The time between two retries of a key whose first retries have all failed.
const SLOW_RETRY_PERIOD: Duration = Duration::from_secs(300);

/// The things that a controller needs from its process.
pub struct ControllerContext {
    /// The caches. The controller registers itself as a handler.
    pub cluster: Cluster,
    /// Sends the writes.
    pub writer: ApiWriter,
    /// Records the events.
    pub events: EventRecorder,
    /// The wall clock.
    pub clock: Clock,
    /// The seed of the names of new objects and of all jitter: a random number in production, a
    /// constant in tests.
    pub seed: u64,
}

/// A controller. Clones share it. The [crate](crate#example) has an example.
pub struct Controller<R: Reconciler> {
    runtime: Arc<Runtime<R>>,
}

impl<R: Reconciler> Clone for Controller<R> {
    fn clone(&self) -> Self {
        Self { runtime: Arc::clone(&self.runtime) }
    }
}

impl<R: Reconciler> Controller<R> {
    /// Creates a controller and registers it as a handler of its cluster. The controller syncs
    /// nothing before [`Self::run`].
    pub fn new(context: ControllerContext, options: R::Options) -> Self {
        let cluster = context.cluster.clone();
        let runtime = Arc::new(Runtime::new(context, R::new(options)));
        cluster.add_handler(Arc::clone(&runtime) as _);
        Self { runtime }
    }

    /// Waits until the caches of [`Reconciler::kinds`] are synced, then syncs all keys, and from
    /// then on each key that a change concerns. It syncs no key of a namespace that the caches do
    /// not cover ([`Cluster::covers`]) before they do. After [`Self::shut_down`] it syncs the keys
    /// that are queued already, as upstream does, and leaves delayed keys to the next process.
    /// Until the caches are synced it ignores changes, so another process may write the outputs.
    ///
    /// # Panics
    ///
    /// If a sync panics: a controller must not run on with fewer workers.
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
                    if let Some(outcome) = runtime.wait_for_spacing(&key, reason) {
                        return Ok(outcome);
                    }
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
            () = look_for_other_controller(&runtime) => {}
            () = summarize_failures(&runtime) => {}
        }
    }

    /// Takes no more keys. [`Self::run`] returns when it has synced the queued keys. Give it a time
    /// limit: it does not return if a sync never ends.
    pub fn shut_down(&self) {
        self.runtime.queue.shut_down();
        self.runtime.stopped.notify_one();
    }

    /// Returns the stores from which the controller reads.
    pub fn cluster(&self) -> &Cluster {
        self.runtime.cluster()
    }

    /// Returns how many keys are queued, are delayed, or are being synced.
    pub fn pending(&self) -> usize {
        self.runtime.queue.outstanding()
    }

    /// Returns how many keys are queued: a worker can take them now.
    pub fn queue_depth(&self) -> usize {
        self.runtime.queue.len()
    }

    /// Returns the numbers of syncs and writes since the controller was created.
    pub fn activity(&self) -> ActivityCounts {
        self.runtime.activity.counts()
    }

    /// Returns how many keys fail.
    pub fn failing_counts(&self) -> FailingCounts {
        self.runtime.failing.counts()
    }

    /// Returns the number of keys for which a dry run plans writes, and 0 without a dry run.
    pub fn planned_by_dry_run(&self) -> usize {
        self.runtime.writer.writer().dry_run().map_or(0, DryRun::len)
    }

    /// Returns at most `limit` keys after `after` whose retries have all failed, sorted. Begin with
    /// the default key, then pass the last key of each answer.
    pub fn slow_retries(&self, after: &ObjectKey, limit: usize) -> Vec<SlowRetry> {
        self.runtime.failing.slow_retries(after, limit)
    }

    /// Returns the keys whose sync has been running for at least `min`, each with this time, the
    /// longest first.
    pub fn long_syncs(&self, min: Duration) -> Vec<(ObjectKey, Duration)> {
        let mut syncs = self.runtime.queue.long_running(min);
        syncs.sort_by(|(one, age), (other, other_age)| other_age.cmp(age).then_with(|| one.cmp(other)));
        syncs
    }

    /// Returns the outputs that other clients wrote last, at most 20, the newest first.
    pub fn recent_foreign_writes(&self) -> Vec<RecentForeignWrite> {
        self.runtime.recent_foreign_writes.list()
    }

    /// Returns the controller that writes the same objects beside this one, if it has shown itself
    /// in the last hour.
    pub fn other_controller(&self) -> Option<OtherController> {
        let other = self.runtime.other_controller.lock().clone();
        other.filter(|other| other.is_recent(self.runtime.clock().now()))
    }

    /// Returns the keys that wait, sorted, each with the wait that ends last.
    pub fn held_keys(&self) -> Vec<HeldKey> {
        self.runtime.keys.held(Instant::now())
    }

    /// Returns the numbers of keys with each kind of state.
    pub fn state_counts(&self) -> StateCounts {
        self.runtime.counts()
    }
}
