//! The reasons why a key waits, and the end of each wait.
//!
//! Two waits block every sync of a key: the pause that the API server asked for, and the wait for
//! the cache to show the key's own writes. [`Hold::Spacing`] delays the syncs that changes of pods
//! start, unless they are urgent. The other waits start a sync at their end, and anything else may
//! start one before. A failed key waits for its retry in the queue instead, see
//! [`Config::rate_limiter`](crate::Config::rate_limiter).

use std::time::Duration;

use kube_endpoint_core_model::{Backoff, ObjectKey};
use kube_endpoint_workqueue::Reason;
use rand::RngExt;
use tokio::time::Instant;

use crate::{Cause, Outcome, Reconciler, Runtime, Spacing};

/// The longest wait of a sync for the cache: the event that it waits for may have arrived already,
/// or may never arrive.
const STALE_RETRY: Duration = Duration::from_secs(1);
/// A key that has waited this long for the cache stops waiting for deletions, and asks the server
/// again. The delay after an answer that differs from the cache grows up to this time.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// The longest pause, whatever the API server asks for. [`Runtime::pause`] adds up to a tenth.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// The delays after answers in a row that differ from the cache.
const DIFFERING_ANSWERS: Backoff = Backoff::new(STALE_RETRY, LONGEST_WAIT);

/// Why a key waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The API server asked for a pause (`Retry-After`).
    RetryAfter,
    /// The cache does not show the controller's own writes yet. A change of the outputs ends it.
    OwnWrites,
    /// The API server has another state than the cache.
    DifferingAnswer,
    /// Another client has changed an output.
    ForeignWrite,
    /// The API server accepted an update and kept what it had.
    UndoneUpdate,
    /// The controller wrote a short time ago, for a Service with many pods. This delays changes of
    /// pods that are not urgent.
    Spacing,
}

impl Hold {
    /// Returns the reason, in words that follow "the key waits:".
    pub fn as_str(self) -> &'static str {
        match self {
            Self::RetryAfter => "the API server asked for a pause",
            Self::OwnWrites => "the cache does not show the controller's own writes yet",
            Self::DifferingAnswer => "the API server has another state than the cache",
            Self::ForeignWrite => "another client changed an output, and it is not corrected at once",
            Self::UndoneUpdate => "the API server accepted an update and kept what it had",
            Self::Spacing => "changes of its pods are written together",
        }
    }

    /// Returns true if the wait blocks nothing and only starts a sync at its end.
    fn only_starts_sync(self) -> bool {
        matches!(self, Self::DifferingAnswer | Self::ForeignWrite | Self::UndoneUpdate)
    }

    /// Returns the cause of the sync at the end of the wait.
    fn cause(self) -> Cause {
        match self {
            Self::RetryAfter => Cause::RetryAfter,
            Self::OwnWrites | Self::DifferingAnswer => Cause::StaleCache,
            Self::ForeignWrite | Self::UndoneUpdate => Cause::ForeignWrite,
            Self::Spacing => Cause::Pod,
        }
    }
}

/// The wait of a key that ends last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldKey {
    pub key: ObjectKey,
    pub why: Hold,
    /// The time since which the key waits for this reason.
    pub since: Instant,
    /// The end of the wait. A change of the outputs may end it before.
    pub until: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Held {
    pub(crate) why: Hold,
    pub(crate) since: Instant,
    /// A change of the outputs sets this to `None`; the next sync finds out if the reason is gone.
    pub(crate) until: Option<Instant>,
}

/// The waits of one key.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Holds(Vec<Held>);

impl Holds {
    fn find(&mut self, why: Hold) -> Option<&mut Held> {
        self.0.iter_mut().find(|held| held.why == why)
    }

    /// Begins a wait, or moves its end. A wait that only starts a sync keeps the earlier of two
    /// ends, as the queue does for its sync, and spacing the later one.
    pub(crate) fn set(&mut self, why: Hold, now: Instant, until: Instant) {
        let Some(held) = self.find(why) else {
            return self.0.push(Held { why, since: now, until: Some(until) });
        };
        let pending = held.until.filter(|end| *end > now);
        held.until = Some(match pending {
            Some(end) if why.only_starts_sync() => end.min(until),
            Some(end) if why == Hold::Spacing => end.max(until),
            _ => until,
        });
    }

    /// Forgets a wait whose reason is gone.
    pub(crate) fn clear(&mut self, why: Hold) {
        self.0.retain(|held| held.why != why);
    }

    /// Ends a wait before its time. Returns true if the key was waiting for this reason.
    pub(crate) fn end(&mut self, why: Hold) -> bool {
        self.find(why).is_some_and(|held| held.until.take().is_some())
    }

    /// Returns the rest of a wait; `None` if the key does not wait for this reason.
    pub(crate) fn left(&self, why: Hold, now: Instant) -> Option<Duration> {
        let held = self.0.iter().find(|held| held.why == why)?;
        Some(held.until?.saturating_duration_since(now)).filter(|left| !left.is_zero())
    }

    /// Forgets the waits that have ended, and those that only start a sync. Call this when a sync
    /// begins. The wait for own writes stays until a sync finds that the cache shows them.
    pub(crate) fn begin_sync(&mut self, now: Instant) {
        self.0.retain(|held| match held.why {
            Hold::OwnWrites => true,
            why => !why.only_starts_sync() && held.until > Some(now),
        });
    }

    /// Returns how long a key has waited if this is at least [`LONGEST_WAIT`], and then counts
    /// again from now.
    fn restart_after_longest_wait(&mut self, why: Hold, now: Instant) -> Option<Duration> {
        let held = self.find(why)?;
        let waited = now.saturating_duration_since(held.since);
        (waited >= LONGEST_WAIT).then(|| {
            held.since = now;
            waited
        })
    }

    /// Returns true if a wait blocks every sync of the key.
    pub(crate) fn block_syncs(&self) -> bool {
        let blocks = |held: &Held| matches!(held.why, Hold::RetryAfter | Hold::OwnWrites);
        self.0.iter().any(|held| blocks(held) && held.until.is_some())
    }

    /// Returns the wait that ends last, apart from spacing, which is too short to show.
    pub(crate) fn longest(&self, now: Instant) -> Option<Held> {
        let lasts = |held: &&Held| held.why != Hold::Spacing && held.until > Some(now);
        self.0.iter().filter(lasts).max_by_key(|held| held.until).copied()
    }
}

impl<R: Reconciler> Runtime<R> {
    /// Makes a key wait, and starts a sync after `delay`.
    pub(crate) fn hold(&self, key: &ObjectKey, why: Hold, delay: Duration) {
        let now = Instant::now();
        self.keys.with_trouble(key, |state| state.holds.set(why, now, now + delay));
        self.add_after(key.clone(), delay, why.cause());
    }

    /// Repeats the sync when the cache shows a change of the key's outputs, at the latest after a
    /// second.
    pub fn requeue_when_cache_changes(&self, key: &ObjectKey) -> Outcome {
        self.hold(key, Hold::OwnWrites, STALE_RETRY);
        Outcome::Stale
    }

    /// Repeats a sync that has written something and cannot go on before the cache shows it. This
    /// calls [`Self::requeue_when_cache_changes`], unless another client keeps changing or deleting
    /// the outputs or the server has undone an update. The key then waits for the longer of these
    /// delays.
    pub fn requeue_after_writes(&self, key: &ObjectKey) -> Outcome {
        let now = Instant::now();
        let wait = self.keys.with_trouble_if_any(key, |state| {
            let foreign = state.foreign.longest_delay(now).map(|delay| (delay, Hold::ForeignWrite));
            let undone = state.undone.delay(now).map(|delay| (delay, Hold::UndoneUpdate));
            foreign.into_iter().chain(undone).max_by_key(|(delay, _)| *delay)
        });
        let Some((delay, why)) = wait.flatten() else { return self.requeue_when_cache_changes(key) };
        self.hold(key, why, delay);
        Outcome::Stale
    }

    /// Syncs the key again when the cache shows a deletion. Call this after a delete found that the
    /// object no longer existed.
    pub fn requeue_after_missing_delete(&self, key: &ObjectKey) {
        // The cache may already show the deletion. No event then tells the tracker, so this asks
        // the cache.
        if self.outputs(key).1 {
            self.requeue_when_cache_changes(key);
        }
    }

    /// Starts a sync that waits for a change of the key's outputs. Call this when the cache shows
    /// one.
    pub(crate) fn outputs_changed(&self, key: &ObjectKey) {
        if self.keys.with_trouble_if_any(key, |state| state.holds.end(Hold::OwnWrites)) == Some(true) {
            self.add(key.clone(), Cause::StaleCache);
        }
    }

    /// Repeats a sync after an answer of the server that differs from the cache. The delay doubles
    /// with each such answer until a sync succeeds. Returns true if it has reached
    /// [`LONGEST_WAIT`].
    pub(crate) fn requeue_after_answer(&self, key: &ObjectKey) -> bool {
        let delay = self.keys.with_trouble(key, |state| {
            let delay = DIFFERING_ANSWERS.delay(state.differing_answers);
            state.differing_answers = state.differing_answers.saturating_add(1);
            delay
        });
        self.hold(key, Hold::DifferingAnswer, delay);
        delay == LONGEST_WAIT
    }

    /// Syncs the key again after a pause, and up to a tenth of it more.
    pub(crate) fn pause(&self, key: &ObjectKey, pause: Duration) -> Outcome {
        self.hold(key, Hold::RetryAfter, self.jittered(pause, 0.1));
        Outcome::Paused
    }

    /// Returns true if a pause of the key has not ended yet, and then repeats the sync at its end.
    pub(crate) fn is_paused(&self, key: &ObjectKey) -> bool {
        let now = Instant::now();
        let left = self.keys.with_trouble_if_any(key, |state| state.holds.left(Hold::RetryAfter, now));
        let Some(left) = left.flatten() else { return false };
        self.add_after(key.clone(), left, Cause::RetryAfter);
        true
    }

    /// Returns, at most once a minute, how long the cache has not shown the key's own writes.
    pub(crate) fn waited_for_long(&self, key: &ObjectKey) -> Option<Duration> {
        let now = Instant::now();
        let waited = |holds: &mut Holds| holds.restart_after_longest_wait(Hold::OwnWrites, now);
        self.keys.with_trouble_if_any(key, |state| waited(&mut state.holds)).flatten()
    }

    /// Begins the spacing: changes of pods that are not urgent wait for its end. Call this before
    /// the first write of a sync.
    pub(crate) fn space_writes(&self, key: &ObjectKey) {
        let Some(spacing) = self.spacing.filter(|spacing| *spacing != Spacing::NONE) else { return };
        let spacing = spacing.of(self.cluster().pod_count_of(key));
        if !spacing.is_zero() {
            let now = Instant::now();
            self.keys.with_trouble(key, |state| state.holds.set(Hold::Spacing, now, now + spacing));
        }
    }

    /// Returns how long a change of a pod has to wait for the end of the spacing.
    pub(crate) fn left_of_spacing(&self, key: &ObjectKey) -> Duration {
        if self.spacing.is_none() {
            return Duration::ZERO;
        }
        let now = Instant::now();
        let left = self.keys.with_trouble_if_any(key, |state| state.holds.left(Hold::Spacing, now));
        left.flatten().unwrap_or_default()
    }

    /// Puts a sync off that only changes of pods cause, if the spacing has not ended: these changes
    /// arrived during the write that began it.
    pub(crate) fn wait_for_spacing(&self, key: &ObjectKey, reason: Reason) -> Option<Outcome> {
        if reason.urgent || !reason.causes.is_within(Cause::Pod.into()) {
            return None;
        }
        let left = self.left_of_spacing(key);
        if left.is_zero() {
            return None;
        }
        self.add_after(key.clone(), left, reason);
        Some(Outcome::Spaced)
    }

    /// Adds a random part of up to `share` to a time.
    pub(crate) fn jittered(&self, time: Duration, share: f64) -> Duration {
        time.mul_f64(1.0 + self.random.lock().random_range(0.0..share))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_reason_that_ends_last_is_shown_and_spacing_is_not() {
        let (mut holds, now) = (Holds::default(), Instant::now());
        assert_eq!(holds.longest(now), None);
        holds.set(Hold::OwnWrites, now, now + secs(1));
        holds.set(Hold::RetryAfter, now, now + secs(30));
        holds.set(Hold::Spacing, now, now + secs(100));
        let longest = |holds: &Holds, at: u64| holds.longest(now + secs(at)).map(|held| held.why);
        assert_eq!(longest(&holds, 0), Some(Hold::RetryAfter));
        assert_eq!(longest(&holds, 30), None, "all have ended");
        holds.set(Hold::OwnWrites, now + secs(30), now + secs(31));
        assert_eq!(holds.longest(now + secs(30)).unwrap().since, now, "it has waited since then");
        for (delay, want) in [(300, 300), (1, 1), (60, 1)] {
            holds.set(Hold::ForeignWrite, now, now + secs(delay));
            assert_eq!(holds.left(Hold::ForeignWrite, now), Some(secs(want)), "the earliest end counts");
        }
        for (delay, want) in [(5, 100), (200, 200)] {
            holds.set(Hold::Spacing, now, now + secs(delay));
            assert_eq!(holds.left(Hold::Spacing, now), Some(secs(want)), "the latest end counts");
        }
    }

    #[test]
    fn a_sync_ends_the_waits_that_were_to_start_one() {
        let now = Instant::now();
        let left = |at: u64| {
            let mut holds = Holds::default();
            for why in [
                Hold::RetryAfter,
                Hold::OwnWrites,
                Hold::DifferingAnswer,
                Hold::ForeignWrite,
                Hold::UndoneUpdate,
                Hold::Spacing,
            ] {
                holds.set(why, now, now + secs(10));
            }
            holds.begin_sync(now + secs(at));
            holds.0.iter().map(|held| held.why).collect::<Vec<_>>()
        };
        assert_eq!(left(9), [Hold::RetryAfter, Hold::OwnWrites, Hold::Spacing]);
        assert_eq!(left(10), [Hold::OwnWrites], "until a sync finds that the cache shows its writes");
    }

    #[test]
    fn a_change_ends_a_wait_once_and_does_not_forget_its_beginning() {
        let (mut holds, now) = (Holds::default(), Instant::now());
        assert!(!holds.end(Hold::OwnWrites));
        holds.set(Hold::OwnWrites, now, now + secs(1));
        assert!(holds.block_syncs());
        assert_eq!([holds.end(Hold::OwnWrites), holds.end(Hold::OwnWrites)], [true, false]);
        assert!(!holds.block_syncs());
        let mut after = |at: u64| holds.restart_after_longest_wait(Hold::OwnWrites, now + secs(at));
        assert_eq!(
            [59, 60, 61, 119, 121].map(&mut after),
            [None, Some(secs(60)), None, None, Some(secs(61))]
        );
        holds.clear(Hold::OwnWrites);
        assert_eq!(holds, Holds::default());
    }
}
