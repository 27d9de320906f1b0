//! Syncs that wait: for the cache, and for the pauses that the API server asks for.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_endpoint_api_writer::WriteError;
use kube_endpoint_core_model::{ObjectKey, Text};
use kube_endpoint_informer::Kind;
use kube_endpoint_tracker::CachePosition;
use rand::RngExt;
use tokio::time::{Instant, sleep};

use crate::key_state::RareState;
use crate::log_lines::Line;
use crate::{Cause, Outcome, Output, Reconciler, Runtime, SyncError};

/// How long a sync waits for the cache at most: the event that it waits for may have come already,
/// or may never come.
pub(crate) const STALE_RETRY: Duration = Duration::from_secs(1);
/// How long a key waits for the cache to show a deletion before it asks the server again.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long a pause lasts at most, whatever the API server asks for; up to a tenth of it is added.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The most objects about which the server is asked in a minute.
const MOST_QUESTIONS: usize = 100;

impl<R: Reconciler> Runtime<R> {
    /// Looks after writes that the cache never shows: an event was lost, or the server's storage
    /// was set back to a state from before the write and has passed its version since. No event may
    /// ever come that starts a sync then.
    pub(crate) async fn check_overdue_writes(&self) {
        let mut missed = BTreeMap::new();
        let mut positions = BTreeMap::new();
        loop {
            sleep(LONGEST_WAIT).await;
            self.sync_overdue(&mut positions);
            missed.extend(self.writer.tracker().take_missed());
            self.ask_about(&mut missed).await;
        }
    }

    /// Syncs keys with writes that the cache does not show although it has read on. `before` are
    /// the positions in the namespaces of these keys a minute ago. A cache that has read nothing
    /// since is behind, and has lost nothing.
    fn sync_overdue(&self, before: &mut BTreeMap<Text, CachePosition>) {
        let overdue = self.writer.tracker().overdue();
        let namespaces = overdue.iter().map(|key| &key.namespace);
        let now: BTreeMap<Text, CachePosition> =
            namespaces.map(|namespace| (namespace.clone(), self.position(namespace))).collect();
        let has_read_on = |key: &&ObjectKey| {
            before.get(&key.namespace).is_some_and(|position| now.get(&key.namespace) != Some(position))
        };
        let keys: Vec<&ObjectKey> = overdue.iter().filter(has_read_on).collect();
        *before = now;
        if let Some(first) = keys.first() {
            tracing::warn!(
                queue = self.queue.name(), keys = keys.len(), %first,
                "the cache does not show writes of these keys, so they are synced again"
            );
        }
        for key in keys {
            self.add(key.clone(), Cause::StaleCache);
        }
    }

    /// Asks the server about objects whose last write the cache has read past without showing it.
    /// If one exists as written, the cache is that of another state of the server's storage, and
    /// everything is listed again. Objects that cannot be judged yet stay in `missed`.
    async fn ask_about(&self, missed: &mut BTreeMap<ObjectKey, CachePosition>) {
        let is_current = |object: &ObjectKey, written: &mut CachePosition| {
            written.epoch == self.position(&object.namespace).epoch
        };
        missed.retain(is_current);
        let asked: Vec<ObjectKey> = missed.keys().take(MOST_QUESTIONS).cloned().collect();
        for object in asked {
            // The position is read first: the cache is then at least as new.
            let position = self.position(&object.namespace);
            let cached = R::Output::cached_version(self.cluster(), &object);
            let version = match self.writer.writer().get::<R::Output>(&object).await {
                Ok(found) => Some(found.version()),
                Err(WriteError::NotFound(_)) => None,
                // Another time.
                Err(_) => return,
            };
            let Some(version) = version.filter(|it| *it <= position.version && cached != Some(*it)) else {
                missed.remove(&object);
                continue;
            };
            if self.cluster().report_set_back() {
                tracing::warn!(
                    queue = self.queue.name(), %object, %version, position = %position.version,
                    "the API server has an object in a version that the watch should have shown: its storage was set \
                     back, so all kinds are listed again"
                );
            }
            return;
        }
    }

    /// If a key has waited for the cache for too long, logs that and waits no longer for deletions:
    /// should the server have been wrong about an object that no longer exists, the next sync asks
    /// it again.
    pub(crate) fn check_long_wait(&self, key: &ObjectKey) {
        let now = Instant::now();
        let since = self.keys.with_rare(key, |state| *state.stale_since.get_or_insert(now));
        if now - since < LONGEST_WAIT {
            return;
        }
        self.keys.with_kept_rare(key, |state| state.stale_since = None);
        if let Some(left_out) = self.admits(Line::LongWait) {
            tracing::warn!(
                queue = self.queue.name(), %key, waited = ?(now - since), left_out,
                "the cache does not show what was written for this key"
            );
        }
        self.writer.tracker().forget_deleted(key);
        self.cluster().request_version_check(R::Output::INFORMER_KIND, &key.namespace);
    }

    /// Has the caches of Services and Endpoints compared with the API server. Call this when they
    /// may show another state of a namespace: answers of the API server keep differing from them,
    /// or what is made for them is deleted again and again. Its storage may have been set back, and
    /// may have passed the positions of all caches since. Then no event shows what it has.
    pub(crate) fn doubt_inputs(&self, namespace: &str) {
        for kind in [Kind::Services, Kind::Endpoints] {
            self.cluster().request_version_check(kind, namespace);
        }
    }

    /// Call this after a delete found that the object no longer existed: the key is synced again
    /// when the cache shows that.
    pub fn wait_for_deletion(&self, key: &ObjectKey) {
        // The cache may have shown it before the delete was tried. Nothing else would tell the
        // tracker then.
        if self.outputs(key).1 {
            self.defer(key);
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
            return Ok(self.defer(key));
        }
        self.add(key.clone(), Cause::StaleCache);
        Ok(Outcome::Stale)
    }

    /// Repeats the sync when the cache shows a change of the key's outputs, after a second at the
    /// latest.
    pub fn defer(&self, key: &ObjectKey) -> Outcome {
        self.defer_for(key, STALE_RETRY)
    }

    /// Repeats a sync that has written something and needs the cache to show that before it goes
    /// on: as [`Self::defer`], unless another client keeps deleting or changing what is written, or
    /// the server has undone it. Then the next sync waits as long as the answer to that.
    pub fn go_on_later(&self, key: &ObjectKey) -> Outcome {
        let now = Instant::now();
        let delays = |state: &mut RareState| state.foreign.longest_delay(now).max(state.undone.delay(now));
        let wait = self.keys.with_kept_rare(key, delays).flatten();
        let Some(wait) = wait else { return self.defer(key) };
        self.add_after(key.clone(), wait, Cause::StaleCache);
        Outcome::Stale
    }

    /// As [`Self::defer`], with another time.
    pub(crate) fn defer_for(&self, key: &ObjectKey, longest: Duration) -> Outcome {
        self.keys.with_rare(key, |state| state.deferred = true);
        self.add_after(key.clone(), longest, Cause::StaleCache);
        Outcome::Stale
    }

    /// As [`Self::defer`], unless the sync has been deferred already.
    pub(crate) fn keep_deferred(&self, key: &ObjectKey) -> Outcome {
        if self.keys.with_kept_rare(key, |state| state.deferred) == Some(true) {
            return Outcome::Stale;
        }
        self.defer(key)
    }

    /// Starts a sync that was deferred: the cache shows a change of the key's outputs.
    pub(crate) fn resume(&self, key: &ObjectKey) {
        if self.keys.with_kept_rare(key, |state| std::mem::take(&mut state.deferred)) == Some(true) {
            self.add(key.clone(), Cause::StaleCache);
        }
    }

    /// Syncs the key again after a pause, and up to a tenth of it more.
    pub(crate) fn pause(&self, key: &ObjectKey, pause: Duration) -> Outcome {
        let pause = self.jittered(pause, 0.1);
        self.keys.with_rare(key, |state| state.paused_until = Some(Instant::now() + pause));
        self.add_after(key.clone(), pause, Cause::RetryAfter);
        Outcome::Paused
    }

    /// A time and up to `share` of it more.
    pub(crate) fn jittered(&self, time: Duration, share: f64) -> Duration {
        time.mul_f64(1.0 + self.random.lock().random_range(0.0..share))
    }

    /// Returns true if a pause of the key has not ended yet. The sync is then repeated at its end.
    pub(crate) fn is_paused(&self, key: &ObjectKey) -> bool {
        let left = self.keys.with_kept_rare(key, |state| {
            let left = state.paused_until?.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.paused_until = None;
                return None;
            }
            Some(left)
        });
        let Some(left) = left.flatten() else { return false };
        self.add_after(key.clone(), left, Cause::RetryAfter);
        true
    }
}
