//! Logs keys whose syncs fail: a line for each new fact about a key, and a summary each minute,
//! however many keys fail.
//!
//! - A key has a line for each new error, and another one every five minutes while the error goes
//!   on.
//! - A recovery has a line if its failure has one.
//! - At most [`LogLimit::LINES`] lines about failures appear in a minute, and as many about
//!   recoveries. The summary counts the others.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;
use std::time::Duration;

use ahash::HashMap;
use kube_endpoint_core_model::{Admission, LogLimit, ObjectKey};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::{Reconciler, Runtime, SyncError};

/// The time after which the log repeats an error that goes on.
const REPEAT: Duration = Duration::from_secs(300);
/// The most errors of a key to remember, for a key that alternates between them.
const ERRORS_OF_KEY: usize = 4;

/// The keys that fail, and the lines that were logged about them.
#[derive(Debug, Default)]
pub(crate) struct FailureLog {
    state: Mutex<State>,
    failures: LogLimit,
    recoveries: LogLimit,
}

#[derive(Debug, Default)]
struct State {
    keys: HashMap<ObjectKey, Failing>,
    /// The number of keys for each last error without names.
    errors: BTreeMap<Arc<str>, usize>,
    left_out: LeftOut,
}

#[derive(Debug)]
struct Failing {
    since: Instant,
    /// The last error, without names.
    error: Arc<str>,
    /// The errors that were logged last, with their times.
    logged: Vec<(Arc<str>, Instant)>,
}

/// Lines that were left out since the last summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LeftOut {
    failures: u64,
    recoveries: u64,
}

/// The part of a summary besides the number of keys.
#[derive(Debug, PartialEq, Eq)]
struct Summary {
    /// The most frequent error, without names, and the number of keys that have it.
    error: Option<(Arc<str>, usize)>,
    left_out: LeftOut,
}

impl FailureLog {
    /// Records that the sync of a key failed. Returns how long the key has failed if the caller
    /// must log this. An `urgent` line says more than the error, so it is due even if the error was
    /// logged a short time ago.
    fn failed(&self, key: &ObjectKey, error: &SyncError, urgent: bool, now: Instant) -> Option<Duration> {
        let error: Arc<str> = without_names(error, key).into();
        let mut state = self.state.lock();
        let State { keys, errors, left_out } = &mut *state;
        let new = || Failing { since: now, error: Arc::clone(&error), logged: Vec::new() };
        let is_new = !keys.contains_key(key);
        let failing = keys.entry(key.clone()).or_insert_with(new);
        if is_new || failing.error != error {
            if !is_new {
                one_less(errors, &failing.error);
            }
            *errors.entry(Arc::clone(&error)).or_default() += 1;
            failing.error = Arc::clone(&error);
        }
        let logged = failing.logged.iter().position(|(logged, _)| *logged == error);
        let is_due = logged.is_none_or(|place| now - failing.logged[place].1 >= REPEAT);
        if !(is_due || urgent) {
            return None;
        }
        if self.failures.admit(now.into_std()) == Admission::LeaveOut {
            left_out.failures += 1;
            return None;
        }
        if let Some(place) = logged {
            failing.logged.remove(place);
        } else if failing.logged.len() == ERRORS_OF_KEY {
            failing.logged.remove(0);
        }
        failing.logged.push((error, now));
        Some(now - failing.since)
    }

    /// Records that the sync of a key succeeded. Returns how long the key had failed if the caller
    /// must log this.
    fn recovered(&self, key: &ObjectKey, now: Instant) -> Option<Duration> {
        let mut state = self.state.lock();
        let State { keys, errors, left_out } = &mut *state;
        let failing = keys.remove(key)?;
        one_less(errors, &failing.error);
        if failing.logged.is_empty() || self.recoveries.admit(now.into_std()) == Admission::LeaveOut {
            left_out.recoveries += 1;
            return None;
        }
        Some(now - failing.since)
    }

    /// Returns the summary of the time since the last call.
    fn summary(&self) -> Summary {
        let mut state = self.state.lock();
        let most = state.errors.iter().max_by_key(|(_, count)| **count);
        Summary {
            error: most.map(|(error, count)| (Arc::clone(error), *count)),
            left_out: std::mem::take(&mut state.left_out),
        }
    }
}

fn one_less(errors: &mut BTreeMap<Arc<str>, usize>, error: &Arc<str>) {
    if let Some(count) = errors.get_mut(error) {
        *count -= 1;
        if *count == 0 {
            errors.remove(error);
        }
    }
}

/// Returns the text of an error without the names of objects: it is the same for all keys that fail
/// for one reason, and for all names that were generated for one object. For an error of several
/// writes, this is the text of the first.
fn without_names(error: &SyncError, key: &ObjectKey) -> String {
    let Some(write) = error.writes().first() else { return without_word(&error.to_string(), &key.name) };
    let mut text = format!("failed to {}", write.operation.as_str());
    let _ = write!(text, ": {}", write.error);
    without_word(&without_word(&text, &write.object.name), &key.name)
}

/// Replaces a word by an ellipsis, but not parts of other words.
fn without_word(text: &str, word: &str) -> String {
    let is_inner = |c: char| c.is_alphanumeric() || c == '-';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word).filter(|_| !word.is_empty()) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let starts = !before.chars().next_back().or(out.chars().next_back()).is_some_and(is_inner);
        let is_word = starts && !after.starts_with(is_inner);
        out.push_str(before);
        out.push_str(if is_word { "…" } else { word });
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Returns whole seconds, which are easier to read; `None` for less than a second.
fn whole_seconds(time: Duration) -> Option<tracing::field::DebugValue<Duration>> {
    (time.as_secs() > 0).then(|| tracing::field::debug(Duration::from_secs(time.as_secs())))
}

/// The time of the next try of a key whose sync failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextTry {
    /// After the delay of the queue's rate limiter.
    Soon,
    /// After five minutes: the slow retries begin.
    Slow,
    /// When something adds the key again.
    Dropped,
    /// In a minute, when the controller compares the server with the cache again.
    Comparison,
    /// After the pause that the API server asked for, a minute at most.
    AfterPause(Duration),
}

impl FailureLog {
    /// Logs a failed sync if a line is due.
    pub(crate) fn log_failure(&self, queue: &str, key: &ObjectKey, error: &SyncError, next: NextTry) {
        let is_last = matches!(next, NextTry::Slow | NextTry::Dropped);
        let Some(time) = self.failed(key, error, is_last, Instant::now()) else {
            return;
        };
        let failing_for = whole_seconds(time);
        match next {
            NextTry::Soon => {
                tracing::warn!(queue, %key, failing_for, %error, "a sync failed; the key is retried");
            }
            NextTry::Slow => tracing::error!(
                queue, %key, failing_for, %error,
                "all retries of a sync failed; the key is retried every five minutes until it succeeds"
            ),
            NextTry::Dropped => tracing::error!(
                queue, %key, failing_for, %error,
                "all retries of a sync failed; the key is dropped until something adds it again"
            ),
            NextTry::Comparison => tracing::warn!(
                queue, %key, failing_for, %error,
                "the server keeps having another state than the cache; it is asked once a minute"
            ),
            NextTry::AfterPause(pause) => tracing::warn!(
                queue, %key, failing_for, ?pause, %error,
                "a sync failed; the key waits as long as the API server asked for, a minute at most"
            ),
        }
    }

    /// Logs that a key has recovered if its failure was logged.
    pub(crate) fn log_recovery(&self, queue: &str, key: &ObjectKey) {
        if let Some(time) = self.recovered(key, Instant::now()) {
            let failed_for = whole_seconds(time);
            tracing::info!(queue, %key, failed_for, "the sync of a key succeeds again");
        }
    }
}

/// Logs once a minute how many keys fail, and how many lines about single keys were left out.
pub(crate) async fn summarize_failures<R: Reconciler>(runtime: &Runtime<R>) {
    loop {
        sleep(LogLimit::PERIOD).await;
        log_summary(runtime);
    }
}

fn log_summary<R: Reconciler>(runtime: &Runtime<R>) {
    let counts = runtime.failing.counts();
    let Summary { error, left_out } = runtime.failure_log.summary();
    let queue = runtime.queue.name();
    let count = |count: u64| (count > 0).then_some(count);
    let (failures, recoveries) = (count(left_out.failures), count(left_out.recoveries));
    if counts.failing > 0 {
        let (most_frequent, keys_with_it) = error.unzip();
        tracing::warn!(
            queue,
            failing = counts.failing,
            retried_slowly = count(counts.retried_slowly as u64),
            most_frequent = most_frequent.as_deref(),
            keys_with_it,
            lines_left_out = failures,
            recoveries_left_out = recoveries,
            "keys are failing"
        );
    } else if recoveries.is_some() {
        tracing::info!(queue, recoveries_left_out = recoveries, "no key fails any more");
    }
}

#[cfg(test)]
mod tests {
    use kube_endpoint_api_writer::{FailedWrite, Operation, WriteError};

    use super::*;

    fn key(number: usize) -> ObjectKey {
        ObjectKey::new("shop", format!("web-{number}"))
    }

    fn error(name: &str, message: &str) -> SyncError {
        let error = WriteError::Failed { code: 500, message: message.to_owned() };
        let object = ObjectKey::new("shop", name);
        SyncError::from(FailedWrite { operation: Operation::Create, object, error })
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn names_do_not_distinguish_errors() {
        let check = |name: &str, message: &str, want: &str| {
            let error = error(name, message);
            assert_eq!(without_names(&error, &ObjectKey::new("shop", "web")), want, "{name}: {message}");
        };
        check("web-x", "slices \"web-x\" is invalid", "failed to create: slices \"…\" is invalid");
        check("web-x", "no service shop/web", "failed to create: no service shop/…");
        check("web-x", "web-xy web.x aweb web", "failed to create: web-xy ….x aweb …");
        check("a", "a webhook said: that a", "failed to create: … webhook said: that …");
        check("", "no names", "failed to create: no names");
        let plan = SyncError::new(Vec::new(), "pod web-1 of web has no node".to_owned());
        assert_eq!(without_names(&plan, &ObjectKey::new("shop", "web")), "pod web-1 of … has no node");
    }

    #[test]
    fn an_error_is_logged_when_it_is_new_and_every_five_minutes() {
        let (log, start) = (FailureLog::default(), Instant::now());
        let failed = |second, name: &str, message: &str| {
            let time = log.failed(&key(1), &error(name, message), false, start + secs(second));
            time.map(|time| time.as_secs())
        };
        assert_eq!(failed(0, "web-1-a", "no"), Some(0));
        assert_eq!(failed(1, "web-1-b", "no"), None, "only the generated name differs");
        assert_eq!(failed(2, "web-1-c", "busy"), Some(2));
        assert_eq!(failed(3, "web-1-d", "no"), None, "it alternates");
        assert_eq!(failed(299, "web-1-e", "busy"), None);
        assert_eq!(failed(300, "web-1-f", "no"), Some(300));
        assert_eq!(failed(302, "web-1-g", "busy"), Some(302));
        assert_eq!(log.recovered(&key(1), start + secs(310)), Some(secs(310)));
        assert_eq!(log.recovered(&key(1), start + secs(311)), None, "once");
        assert_eq!(failed(312, "web-1-h", "no"), Some(0), "another failure");
    }

    #[test]
    fn lines_are_limited_and_the_summary_counts_the_others() {
        let (log, start) = (FailureLog::default(), Instant::now());
        let fail = |number, message| log.failed(&key(number), &error("web", message), false, start).is_some();
        assert_eq!((0..100).filter(|number| fail(*number, "no")).count(), 20);
        assert!(!fail(100, "busy"));
        let left_out = LeftOut { failures: 81, recoveries: 0 };
        let most = Some(("failed to create: no".into(), 100));
        assert_eq!(log.summary(), Summary { error: most, left_out });
        // Keys change from one error to the other.
        (0..60).for_each(|number| assert!(!fail(number, "busy")));
        let summary = log.summary();
        assert_eq!(summary.error, Some(("failed to create: busy".into(), 61)));
        let recovered = (0..=100).filter(|number| log.recovered(&key(*number), start + secs(9)).is_some());
        assert_eq!(recovered.count(), 20);
        let left_out = LeftOut { failures: 0, recoveries: 81 };
        assert_eq!(log.summary(), Summary { error: None, left_out });
        let state = log.state.lock();
        assert!(state.keys.is_empty() && state.errors.is_empty());
    }
}
