//! One sync of a key: what a failure means for it, and what becomes of the key afterwards.

use std::time::Duration;

use kube_endpoint_api_writer::{FailedWrite, Operation, WriteError};
use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_workqueue::{Attempt, Disposition};
use tokio::time::Instant;

use crate::failure_log::NextTry;
use crate::log_lines::Line;
use crate::waiting::{LONGEST_PAUSE, LONGEST_WAIT};
use crate::{Cause, Outcome, Output, Reconciler, Runtime, SyncError};

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
        self.keys.with_kept_rare(key, |state| state.undone.begin());
        let mut was_compared = self.is_compared(key);
        let mut result = self.reconciler.sync(self, key).await;
        // The first sync after a take-over may end with a comparison of the outputs; the next one
        // carries the plan out.
        while self.is_compared(key) && !std::mem::replace(&mut was_compared, true) {
            result = self.reconciler.sync(self, key).await;
        }
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
                state.comparison_delay = Duration::ZERO;
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
            return Ok(self.keep_deferred(key));
        }
        // The server's answer to a question is not what the cache shows. The cache will show that
        // and start a sync, unless the answer is wrong. Nobody needs an event about that.
        let is_behind = |failed: &FailedWrite| matches!(failed.error, WriteError::CacheBehind(_));
        if error.writes().iter().any(is_behind) {
            if error.writes().iter().all(|failed| is_behind(failed) || waits_for_cache::<R::Output>(failed)) {
                tracing::debug!(queue = self.queue.name(), %key, %error, "the server has another state than the cache");
                // No change of the outputs makes the answer another one, so none ends the wait.
                let wait = self.next_comparison(key);
                self.add_after(key.clone(), wait, Cause::StaleCache);
                if wait == LONGEST_WAIT {
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
                self.log_recovery(key);
            }
            (Err(error), _) => {
                let is_slow = disposition == Disposition::RetriedSlowly
                    && self.failing.retried_slowly(key, Instant::now());
                let next = match disposition {
                    Disposition::Dropped => NextTry::Dropped,
                    _ if is_slow => NextTry::Slow,
                    _ => NextTry::Soon,
                };
                self.log_failure(key, error, next);
            }
            (Ok(_), _) => return,
        }
        self.count_failing();
    }

    /// Counts and logs a failure after which the key waits for something else than a retry.
    fn count_failure(&self, key: &ObjectKey, error: &SyncError, next: NextTry) {
        self.failing.failed(key, error);
        self.log_failure(key, error, next);
        self.count_failing();
    }

    fn count_failing(&self) {
        let counts = self.failing.counts();
        let gauge = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
        self.metrics.failing_keys.set(gauge(counts.failing));
        self.metrics.slow_retry_keys.set(gauge(counts.retried_slowly));
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
