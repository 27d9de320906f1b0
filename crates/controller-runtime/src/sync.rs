//! One sync of a key: what a failure means for it, and what becomes of the key afterwards.

use std::sync::Arc;

use kube_endpoint_api_writer::{Carried, FailedWrite, Operation, Writable, WriteError};
use kube_endpoint_core_model::{ObjectKey, Timestamp, Writes};
use kube_endpoint_informer::Kind;
use kube_endpoint_workqueue::{Attempt, Disposition};
use tokio::time::Instant;

use crate::failure_log::NextTry;
use crate::holds::{Hold, LONGEST_PAUSE};
use crate::log_lines::Line;
use crate::{Cause, ForeignWrite, Outcome, Output, Reconciler, Runtime, SyncError};

/// How carrying out a plan ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// All writes succeeded.
    Complete,
    /// The namespace is being deleted and takes no new objects. The remaining writes were dropped:
    /// they cannot succeed.
    NamespaceTerminating,
    /// The writes were recorded and not sent: this is a dry run.
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
    /// One sync, with its errors sorted.
    pub(crate) async fn sync(&self, key: &ObjectKey) -> Result<Outcome, SyncError> {
        if !self.is_selected(key) {
            self.reconciler.release(self, key);
            return Ok(Outcome::Done);
        }
        // A process that does not hold the lease writes nothing, so its syncs wait.
        self.writer.writer().fence().opened().await;
        let began = Instant::now();
        let dry_run = self.writer.writer().dry_run();
        if let Some(dry_run) = dry_run {
            dry_run.begin(key);
        }
        self.keys.with_kept_rare(key, |state| {
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
        self.keys.with_kept_rare(key, |state| {
            state.foreign.synced(began);
            state.undone.end();
            if is_done {
                state.differing_answers = 0;
            }
        });
        let error = match result {
            Ok(outcome) => return Ok(outcome),
            Err(error) => error,
        };
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
                if let Some(left_out) = self.admits(Line::Pause) {
                    tracing::info!(
                        queue = self.queue.name(), %key, message, ?asked, ?pause, left_out,
                        "the API server asked for a pause"
                    );
                }
                // Its outputs are not right, so it counts, though no retry is used up.
                self.count_failure(key, &error, NextTry::AfterPause(pause));
                return Ok(self.pause(key, pause));
            }
        }
        if !error.writes().is_empty() && error.writes().iter().all(waits_for_cache::<R::Output>) {
            tracing::debug!(queue = self.queue.name(), %key, %error, "the cache is behind");
            return Ok(self.requeue_when_cache_changes(key));
        }
        // The server's answer to a question is not what the cache shows. The cache will show that
        // and start a sync, unless the answer is wrong. Nobody needs an event about that.
        let is_behind = |failed: &FailedWrite| matches!(failed.error, WriteError::CacheBehind(_));
        if error.writes().iter().any(is_behind) {
            if error.writes().iter().all(|failed| is_behind(failed) || waits_for_cache::<R::Output>(failed)) {
                tracing::debug!(queue = self.queue.name(), %key, %error, "the server has another state than the cache");
                // No change of the outputs makes the answer another one, so none ends the wait.
                if self.requeue_after_answer(key) {
                    self.doubt_inputs(&key.namespace);
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

    /// Records what became of a key after its sync.
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

    /// Counts and logs a failure after which the key waits for something else than a retry.
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

    /// Carries out sub-plans in order, each as
    /// [`carry_out`](kube_endpoint_api_writer::TrackedWriter::carry_out) of the writer does. If a
    /// sub-plan fails, the others are still carried out, as upstream does, unless the API server is
    /// too busy: that ends all. After a failure the trigger time is kept for the retry.
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
        let (mut answered, mut busy) = (false, false);
        for (index, writes) in sub_plans.into_iter().enumerate() {
            if !(busy || answered || writes.is_empty()) {
                // Before the first write: another client may be faster than its answer.
                self.keys.with_kept_rare(key, |state| state.foreign.answered(Instant::now()));
                self.space_writes(key);
                answered = true;
            }
            self.note(|details| details.plans(&writes));
            if busy {
                continue;
            }
            let wrote = |operation| {
                self.wrote(operation);
                progress(Progress::Wrote(operation));
            };
            let without = self.writes_after_failed_create.then_some(|missing: Vec<R::Output>, rest| {
                R::Output::writes_without(&R::Output::of_owner(self.cluster(), key), rest, &missing)
            });
            let Carried { changed_meanwhile, cache_behind, unchanged, failed } =
                self.writer.carry_out(key, writes, || self.position(&key.namespace), wrote, without).await;
            if self.writer.tracker().take_went_back() {
                // A second read has to confirm it.
                self.suspect(&key.namespace);
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
            busy = failed.iter().any(|failed| matches!(failed.error, WriteError::Busy { .. }));
            failures.extend(failed);
        }
        self.count_conflicts(key, &failures);
        if failures.is_empty() {
            return Ok(Completion::Complete);
        }
        self.keys.with(key, |state| state.trigger_time.carry_over(trigger_time));
        Err(failures)
    }

    /// Starts a sync later if the server accepted updates of the key and left the objects as they
    /// were, with another content. There is no event that would start one. Upstream does not
    /// notice, so without the backoff nothing is repeated.
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
        let delay = self.keys.with_rare(key, |state| state.undone.again(Instant::now()));
        let (object, queue) = (undone.metadata().key(), self.queue.name());
        if let Some(left_out) = self.admits(Line::Undone) {
            tracing::info!(
                queue, %key, %object, ?delay, left_out, "the server accepted an update and kept what it had"
            );
        }
        self.recent_foreign_writes.seen(object, self.clock().now());
        self.hold(key, Hold::UndoneUpdate, delay);
    }

    /// After three conflicts in a row on an object whose cached version did not change, has the
    /// cache compared with the server. A create of an object that exists is such a conflict too:
    /// the cache does not show the object.
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
            // Most keys have had no conflict, and nothing is kept for them.
            self.keys.with_kept_rare(key, |state| state.conflicts.observe(None));
        } else if self.keys.with_rare(key, |state| state.conflicts.observe(cached)) {
            if let Some(left_out) = self.admits(Line::Conflicts) {
                tracing::info!(
                    queue = self.queue.name(), %key, left_out,
                    "conflicts go on though the cache does not change: comparing the cache with the server"
                );
            }
            self.suspect(&key.namespace);
        }
    }

    /// Call this when a sync has found nothing more to write. If the answer to an update of the key
    /// was lost, the plan may have been made from the state before the update, so the server is
    /// asked; the sync is repeated if the object has changed.
    ///
    /// # Errors
    ///
    /// When the server does not say.
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

    /// If a key has waited for the cache for too long, logs that and waits no longer for deletions:
    /// should the server have been wrong about an object that no longer exists, the next sync asks
    /// it again.
    pub(crate) fn check_long_wait(&self, key: &ObjectKey) {
        let Some(waited) = self.waited_for_long(key) else { return };
        if let Some(left_out) = self.admits(Line::LongWait) {
            tracing::warn!(
                queue = self.queue.name(), %key, ?waited, left_out,
                "the cache does not show what was written for this key"
            );
        }
        self.writer.tracker().forget_deleted(key);
        self.suspect(&key.namespace);
    }

    /// Has the cache of the outputs compared with the server.
    pub(crate) fn suspect(&self, namespace: &str) {
        self.cluster().request_version_check(R::Output::INFORMER_KIND, namespace);
    }

    /// Has the caches of Services and Endpoints compared with the API server. Call this when they
    /// may show another state of a namespace: answers of the API server keep differing from them,
    /// or what is made for them is deleted again and again. Its storage may have gone back, and
    /// may have passed the positions of all caches since. Then no event shows what it has.
    pub(crate) fn doubt_inputs(&self, namespace: &str) {
        for kind in [Kind::Services, Kind::Endpoints] {
            self.cluster().request_version_check(kind, namespace);
        }
    }
}

/// Returns true if a failure means no more than that the cache is behind, and the tracker knows
/// what it has to show: an object exists whose create was not answered, or the object to update no
/// longer exists.
fn waits_for_cache<O: Output>(failed: &FailedWrite) -> bool {
    match failed.error {
        WriteError::AlreadyExists(_) => O::GENERATES_NAMES,
        WriteError::CacheBehind(_) => failed.operation == Operation::Update,
        _ => false,
    }
}
