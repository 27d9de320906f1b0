//! Runs one sync of a key, and decides from its result when the key is synced again.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_api_writer::{Carried, FailedWrite, Operation, Writable, WriteError};
use kube_endpoint_core_model::{Admission, ObjectKey, Timestamp, Writes};
use kube_endpoint_informer::Kind;
use kube_endpoint_workqueue::{Attempt, Disposition};
use tokio::time::Instant;

use crate::failure_log::NextTry;
use crate::holds::{Hold, LONGEST_PAUSE};
use crate::log_lines::Line;
use crate::{Cause, ForeignWrite, Outcome, Output, Reconciler, Runtime, SyncError};

/// The result of a plan that was carried out without a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// All writes succeeded.
    Complete,
    /// The namespace is being deleted and takes no new objects. The runtime dropped the remaining
    /// writes, which cannot succeed.
    NamespaceTerminating,
    /// This is a dry run: the runtime recorded the writes and sent nothing.
    Recorded,
}

/// Progress of [`Runtime::carry_out`], for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A write succeeded.
    Wrote(Operation),
    /// All writes of the sub-plan of this index succeeded.
    SubPlan(usize),
}

impl<R: Reconciler> Runtime<R> {
    /// Runs one sync. Turns failures after which the key waits for something other than a retry
    /// into an [`Outcome`].
    pub(crate) async fn sync(&self, key: &ObjectKey) -> Result<Outcome, SyncError> {
        if !self.is_selected(key) {
            self.reconciler.release(self, key);
            return Ok(Outcome::Done);
        }
        // From empty caches it would delete what it cannot see. The first list of what is missing
        // queues the key.
        if !self.cluster().covers(R::kinds(), &key.namespace) {
            return Ok(Outcome::Done);
        }
        // A process that does not hold the lease writes nothing, so its syncs wait.
        self.writer.writer().fence().opened().await;
        let began = Instant::now();
        let dry_run = self.writer.writer().dry_run();
        if let Some(dry_run) = dry_run {
            dry_run.begin(key);
        }
        self.keys.with_trouble_if_any(key, |state| {
            state.holds.begin_sync(Instant::now());
            state.undone.begin();
        });
        let mut result = self.reconciler.sync(self, key).await;
        if matches!(result, Ok(Outcome::Done)) {
            result = self.resolve_updates(key).await;
        }
        if let Some(dry_run) = dry_run
            && let Some(delay) = dry_run.end(key, matches!(result, Ok(Outcome::Done)))
        {
            self.queue.add_after(key.clone(), delay);
        }
        let is_done = matches!(result, Ok(Outcome::Done));
        self.keys.with_trouble_if_any(key, |state| {
            state.foreign.synced(began);
            state.undone.end();
            if is_done {
                state.differing_answers = 0;
            }
        });
        match result {
            Ok(outcome) => Ok(outcome),
            Err(error) => self.after_error(key, error),
        }
    }

    /// Returns the outcome of a sync with this error: waiting may solve it.
    fn after_error(&self, key: &ObjectKey, error: SyncError) -> Result<Outcome, SyncError> {
        if let Some(outage) = &self.outage {
            outage.failed(key, error.writes(), Instant::now());
        }
        if error.writes().iter().any(|failed| failed.error == WriteError::Fenced) {
            self.add(key.clone(), Cause::Retry);
            return Ok(Outcome::Fenced);
        }
        for failed in error.writes() {
            if let WriteError::Busy { message, retry_after: Some(asked), .. } = &failed.error {
                let pause = (*asked).min(LONGEST_PAUSE);
                if let Admission::Write { left_out } = self.admits(Line::Pause) {
                    tracing::info!(
                        queue = self.queue.name(), %key, message, ?asked, ?pause, left_out,
                        "the API server asked for a pause"
                    );
                }
                // The outputs are not up to date, so the key counts as failing, though this uses up
                // no retry.
                self.count_failure(key, &error, NextTry::AfterPause(pause));
                return Ok(self.pause(key, pause));
            }
        }
        if !error.writes().is_empty() && error.writes().iter().all(waits_for_cache::<R::Output>) {
            tracing::debug!(queue = self.queue.name(), %key, %error, "the cache is behind");
            return Ok(self.requeue_when_cache_changes(key));
        }
        // The answer of the server differs from the cache. If the answer is right, the
        // cache will show it and start a sync. Nobody needs an event about that.
        let is_behind = |failed: &FailedWrite| matches!(failed.error, WriteError::CacheBehind(_));
        if error.writes().iter().any(is_behind) {
            if error.writes().iter().all(|failed| is_behind(failed) || waits_for_cache::<R::Output>(failed)) {
                tracing::debug!(queue = self.queue.name(), %key, %error, "the server has another state than the cache");
                // A change of the outputs does not change the answer, so it does not end this wait.
                if self.requeue_after_answer(key) {
                    self.compare_all(&key.namespace);
                    self.count_failure(key, &error, NextTry::Comparison);
                }
                return Ok(Outcome::Stale);
            }
            self.failing.failed(key, &error);
            return Err(error);
        }
        let is_new = self.failing.failed(key, &error);
        if (is_new || !self.options.slow_retries)
            && let Some((subject, event)) = error.event()
        {
            self.events.record(subject.clone(), event);
        }
        Err(error)
    }

    /// Records the result of a sync: counts and logs keys that fail or recover.
    pub(crate) fn settled(&self, attempt: &Attempt<'_, ObjectKey, Outcome, SyncError>) {
        let Attempt { key, result, disposition, .. } = *attempt;
        match (result, disposition) {
            (_, Disposition::Forgotten) => {
                if let Some(outage) = &self.outage {
                    outage.succeeded(key, Instant::now());
                }
                if !self.failing.forget(key) {
                    return;
                }
                self.failure_log.log_recovery(self.queue.name(), key);
            }
            (Err(error), _) => {
                let is_slow = disposition == Disposition::RetriedSlowly
                    && self.failing.retried_slowly(key, Instant::now());
                let next = match disposition {
                    Disposition::Dropped => NextTry::Dropped,
                    _ if is_slow => NextTry::Slow,
                    _ => NextTry::Soon,
                };
                self.failure_log.log_failure(self.queue.name(), key, error, next);
            }
            (Ok(_), _) => return,
        }
        self.count_failing();
    }

    /// Counts and logs a failure after which the key waits for something other than a retry.
    fn count_failure(&self, key: &ObjectKey, error: &SyncError, next: NextTry) {
        self.failing.failed(key, error);
        self.failure_log.log_failure(self.queue.name(), key, error, next);
        self.count_failing();
    }

    fn count_failing(&self) {
        let counts = self.failing.counts();
        let gauge = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        self.metrics.failing_keys.set(gauge(counts.failing));
        self.metrics.slow_retry_keys.set(gauge(counts.retried_slowly));
    }

    /// Carries out sub-plans in order. After a sub-plan that failed it carries out the others, as
    /// upstream does, unless the API server is too busy or an object exists that the plans do not
    /// know. After a failure it keeps the trigger time for the retry.
    ///
    /// # Errors
    ///
    /// The writes that failed.
    pub async fn carry_out(
        &self,
        key: &ObjectKey,
        trigger_time: Option<Timestamp>,
        sub_plans: impl IntoIterator<Item = Writes<R::Output>, IntoIter: Send> + Send,
        progress: impl Fn(Progress) + Send + Sync,
    ) -> Result<Completion, Vec<FailedWrite>> {
        let sub_plans: Vec<_> = sub_plans.into_iter().collect();
        if self.writer.record(key, &sub_plans, || R::Output::of_owner(self.cluster(), key)) {
            return Ok(Completion::Recorded);
        }
        let mut failures = Vec::new();
        let (mut answered, mut ends) = (false, false);
        for (index, writes) in sub_plans.into_iter().enumerate() {
            if !(ends || answered || writes.is_empty()) {
                // Before the first write: another client may be faster than its answer.
                self.keys.with_trouble_if_any(key, |state| state.foreign.answered(Instant::now()));
                self.space_writes(key);
                answered = true;
            }
            self.note(|details| details.plans(&writes));
            if ends {
                continue;
            }
            let wrote = |operation| {
                self.wrote(operation);
                progress(Progress::Wrote(operation));
            };
            let without = self.writes_after_failed_create.then_some(|missing: &[R::Output], rest| {
                R::Output::writes_without(&R::Output::of_owner(self.cluster(), key), rest, missing)
            });
            let Carried { changed_meanwhile, cache_behind, unchanged, failed } =
                self.writer.carry_out(key, writes, || self.position(&key.namespace), wrote, without).await;
            if self.writer.tracker().take_went_back() {
                // A second read has to confirm that the server's storage went back.
                self.compare_outputs(&key.namespace);
            }
            if failed.is_empty() {
                progress(Progress::SubPlan(index));
            }
            if changed_meanwhile {
                // The cache shows what the other client wrote.
                let outputs = R::Output::of_owner(self.cluster(), key);
                let managed: Vec<&R::Output> =
                    outputs.iter().map(|it| &**it).filter(|it| self.reconciler.manages(it)).collect();
                self.on_foreign_write(key, ForeignWrite::DuringOwnWrite, &managed);
            }
            self.repeat_undone(key, &unchanged);
            if cache_behind {
                self.requeue_after_missing_delete(key);
            }
            if failed.iter().any(|failed| matches!(failed.error, WriteError::NamespaceTerminating(_))) {
                return Ok(Completion::NamespaceTerminating);
            }
            ends = failed.iter().any(|failed| match failed.error {
                WriteError::Busy { .. } => true,
                // A name that was generated for one sub-plan exists, perhaps from another one,
                // which would create its object again.
                WriteError::AlreadyExists(_) => R::Output::GENERATES_NAMES,
                _ => false,
            });
            failures.extend(failed);
        }
        self.count_conflicts(key, &failures);
        if failures.is_empty() {
            return Ok(Completion::Complete);
        }
        self.keys.with(key, |state| state.trigger_time.carry_over(trigger_time));
        Err(failures)
    }

    /// Starts a sync later if the server accepted updates of the key but kept the objects with
    /// another content. No event would start one. Upstream does not notice this, so without
    /// [`RuntimeOptions::foreign_write_backoff`](crate::RuntimeOptions::foreign_write_backoff) this
    /// does nothing.
    pub(crate) fn repeat_undone(&self, key: &ObjectKey, unchanged: &[R::Output]) {
        if unchanged.is_empty() || !self.options.foreign_write_backoff {
            return;
        }
        let outputs = R::Output::of_owner(self.cluster(), key);
        let is_undone = |cached: &&Arc<R::Output>| {
            let (name, version) = (&cached.metadata().name, cached.metadata().resource_version);
            let mut sent = unchanged
                .iter()
                .filter(|sent| sent.metadata().name == *name && sent.metadata().resource_version == version);
            sent.any(|sent| sent.content_hash() != cached.content_hash())
        };
        let Some(undone) = outputs.iter().find(is_undone) else { return };
        let delay = self.keys.with_trouble(key, |state| state.undone.again(Instant::now()));
        let (object, queue) = (undone.metadata().key(), self.queue.name());
        if let Admission::Write { left_out } = self.admits(Line::Undone) {
            tracing::info!(
                queue, %key, %object, ?delay, left_out, "the server accepted an update and kept what it had"
            );
        }
        self.recent_foreign_writes.seen(object, self.clock().now());
        self.hold(key, Hold::UndoneUpdate, delay);
    }

    /// Requests a comparison of the cache with the server after three conflicts in a row on an
    /// object whose cached version did not change. A create of an object that exists is such a
    /// conflict too: the cache does not show the object.
    pub(crate) fn count_conflicts(&self, key: &ObjectKey, failures: &[FailedWrite]) {
        let conflict = failures.iter().find(|failed| match failed.error {
            WriteError::Conflict(_) => failed.operation == Operation::Update,
            WriteError::AlreadyExists(_) => !R::Output::GENERATES_NAMES,
            _ => false,
        });
        let cached = conflict.map(|failed| {
            let outputs = R::Output::of_owner(self.cluster(), key);
            let metadata = outputs.iter().map(|output| output.metadata());
            let version = metadata.filter(|it| it.key() == failed.object).map(|it| it.resource_version).max();
            (failed.object.clone(), version.unwrap_or_default())
        });
        if cached.is_none() {
            // Most keys have had no conflict, so there is nothing to reset.
            self.keys.with_trouble_if_any(key, |state| state.conflicts.observe(None));
        } else if self.keys.with_trouble(key, |state| state.conflicts.observe(cached)) {
            if let Admission::Write { left_out } = self.admits(Line::Conflicts) {
                tracing::info!(
                    queue = self.queue.name(), %key, left_out,
                    "conflicts go on though the cache does not change: comparing the cache with the server"
                );
            }
            self.compare_outputs(&key.namespace);
        }
    }

    /// Asks the server about updates of the key whose answer was lost: the sync may have planned
    /// from the state before them. If an object has changed, repeats the sync. Call this when a
    /// sync has found nothing more to write.
    ///
    /// # Errors
    ///
    /// If the object of such an update cannot be read.
    pub(crate) async fn resolve_updates(&self, key: &ObjectKey) -> Result<Outcome, SyncError> {
        let position = || self.position(&key.namespace);
        if !self.writer.resolve_updates::<R::Output>(key, position).await? {
            return Ok(Outcome::Done);
        }
        if self.outputs(key).1 {
            return Ok(self.requeue_when_cache_changes(key));
        }
        self.add(key.clone(), Cause::StaleCache);
        Ok(Outcome::Stale)
    }

    /// If a key has waited for the cache for too long, logs this and stops waiting for deletions:
    /// the server may have been wrong that an object no longer exists, and the next sync asks it
    /// again.
    pub(crate) fn check_long_wait(&self, key: &ObjectKey) {
        let Some(waited) = self.waited_for_long(key) else { return };
        if let Admission::Write { left_out } = self.admits(Line::LongWait) {
            tracing::warn!(
                queue = self.queue.name(), %key, ?waited, left_out,
                "the cache does not show what was written for this key"
            );
        }
        self.writer.tracker().forget_deleted(key);
        self.compare_outputs(&key.namespace);
    }

    /// Requests a comparison of the cache of the outputs with the server.
    pub(crate) fn compare_outputs(&self, namespace: &str) {
        self.cluster().request_version_check(R::Output::INFORMER_KIND, namespace);
    }

    /// Requests a comparison of the caches of Services, Endpoints and the outputs with the API
    /// server. Call this when they may show another state of a namespace: the API server's answers
    /// keep differing, or another client keeps deleting the outputs. The server's storage may have
    /// gone back, and may have passed the positions of all caches since. Then no event shows this.
    pub(crate) fn compare_all(&self, namespace: &str) {
        for kind in BTreeSet::from([Kind::Services, Kind::Endpoints, R::Output::INFORMER_KIND]) {
            self.cluster().request_version_check(kind, namespace);
        }
    }
}

/// Returns true if a failure only means that the cache is behind, and the tracker knows what the
/// cache has to show: either an object whose create was not answered exists, or the object to
/// update no longer exists.
fn waits_for_cache<O: Output>(failed: &FailedWrite) -> bool {
    match failed.error {
        WriteError::AlreadyExists(_) => O::GENERATES_NAMES,
        WriteError::CacheBehind(_) => failed.operation == Operation::Update,
        _ => false,
    }
}
