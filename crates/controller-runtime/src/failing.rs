//! Keys whose last sync failed, and the end of an outage.
//!
//! An outage ends when a write succeeds after a time in which no write of its kind did. Keys that failed for a reason
//! common to all writes are then woken: a pass over the failing keys in their order, a few at a time, so that neither the
//! queue nor the API server sees all of them at once, and no lock is held for longer than a few keys take.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;
use std::time::Duration;

use kube_endpoint_api_writer::Operation;
use kube_endpoint_core_model::ObjectKey;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::SyncError;

/// A success after so long a time without one ends an outage.
const OUTAGE: Duration = Duration::from_secs(10);
/// A key is woken once in this time at most.
const WAKE_PERIOD: Duration = Duration::from_secs(30);
/// Time between two steps of a pass.
pub(crate) const STEP: Duration = Duration::from_millis(100);
/// Keys that one step wakes at most: 100 each second.
const WOKEN_PER_STEP: usize = 10;
/// Keys that one step looks at, at most.
const SEEN_PER_STEP: usize = 1000;

/// A key whose retries have all failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRetry {
    /// The key.
    pub key: ObjectKey,
    /// The error of its last sync.
    pub error: String,
    /// Since when it is retried slowly.
    pub since: Instant,
}

/// How many keys fail. `/statusz`, the status page and the metrics show these numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailingCounts {
    /// Keys whose last sync failed, and which no sync has succeeded for since. A sync that waits for the cache or for the end of a
    /// pause changes nothing.
    pub failing: usize,
    /// Those of them whose retries have all failed, so that they are retried slowly.
    pub retried_slowly: usize,
}

/// The keys whose last sync failed.
#[derive(Default)]
pub(crate) struct FailingKeys {
    state: Mutex<State>,
    pass_started: Notify,
}

#[derive(Default)]
struct State {
    keys: BTreeMap<ObjectKey, Failing>,
    slow: usize,
    /// By operation: when a write last succeeded, and the pass that one has started.
    operations: [OperationState; 3],
}

#[derive(Default)]
struct OperationState {
    last_success: Option<Instant>,
    pass: Option<Pass>,
}

/// A pass over the failing keys.
struct Pass {
    began: Instant,
    /// The last key that was seen.
    after: ObjectKey,
}

struct Failing {
    error: String,
    /// Hash of the error without generated names.
    identity: u64,
    failed_at: Instant,
    /// By operation: whether a success of it may mean that the key's sync succeeds too.
    waits_for: [bool; 3],
    woken_at: Option<Instant>,
    slow_since: Option<Instant>,
}

fn index(operation: Operation) -> usize {
    match operation {
        Operation::Create => 0,
        Operation::Update => 1,
        Operation::Delete => 2,
    }
}

/// A hash of the error in which the names of objects that could not be created do not count: each try makes another name.
fn identity(error: &SyncError) -> u64 {
    let mut text = error.to_string();
    for write in error.writes().iter().filter(|write| write.operation == Operation::Create) {
        text = text.replace(&*write.object.name, "");
    }
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

impl FailingKeys {
    /// Records that a sync failed. Returns whether the error is another than that of the last sync.
    pub(crate) fn failed(&self, key: &ObjectKey, error: &SyncError, now: Instant) -> bool {
        let mut waits_for = [false; 3];
        for write in error.writes().iter().filter(|write| write.error.is_common()) {
            waits_for[index(write.operation)] = true;
        }
        let identity = identity(error);
        let error = error.to_string();
        let mut state = self.state.lock();
        match state.keys.get_mut(key) {
            Some(failing) => {
                let changed = failing.identity != identity;
                *failing = Failing { error, identity, failed_at: now, waits_for, ..*failing };
                changed
            }
            None => {
                let failing =
                    Failing { error, identity, failed_at: now, waits_for, woken_at: None, slow_since: None };
                state.keys.insert(key.clone(), failing);
                true
            }
        }
    }

    /// Records that a failed key is now retried slowly. Returns whether it was not before.
    pub(crate) fn retried_slowly(&self, key: &ObjectKey, now: Instant) -> bool {
        let mut state = self.state.lock();
        let state = &mut *state;
        let is_new = state.keys.get_mut(key).is_some_and(|failing| {
            let is_new = failing.slow_since.is_none();
            failing.slow_since.get_or_insert(now);
            is_new
        });
        state.slow += usize::from(is_new);
        is_new
    }

    /// Forgets a key, because its sync succeeded. Returns whether it had failed.
    pub(crate) fn forget(&self, key: &ObjectKey) -> bool {
        let mut state = self.state.lock();
        let Some(failing) = state.keys.remove(key) else { return false };
        state.slow -= usize::from(failing.slow_since.is_some());
        true
    }

    /// Returns how many keys fail.
    pub(crate) fn counts(&self) -> FailingCounts {
        let state = self.state.lock();
        FailingCounts { failing: state.keys.len(), retried_slowly: state.slow }
    }

    /// Records that a write succeeded.
    pub(crate) fn wrote(&self, operation: Operation, now: Instant) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let operation = &mut state.operations[index(operation)];
        let last = operation.last_success.replace(now);
        let ends_outage = last.is_none_or(|last| now.saturating_duration_since(last) >= OUTAGE);
        if ends_outage && !state.keys.is_empty() {
            operation.pass = Some(Pass { began: now, after: ObjectKey::default() });
            self.pass_started.notify_one();
        }
    }

    /// Waits until a write succeeds that ends an outage.
    pub(crate) async fn outage_ended(&self) {
        self.pass_started.notified().await;
    }

    /// The next keys to wake, each with the delay after which it may be woken. None when all passes have ended.
    pub(crate) fn next_to_wake(&self, now: Instant) -> Option<Vec<(ObjectKey, Duration)>> {
        let mut state = self.state.lock();
        let State { keys, operations, .. } = &mut *state;
        let (at, operation) =
            operations.iter_mut().enumerate().find(|(_, operation)| operation.pass.is_some())?;
        let pass = operation.pass.as_mut()?;
        let mut woken = Vec::new();
        let mut last = None;
        let rest = keys.range_mut((Bound::Excluded(&pass.after), Bound::Unbounded));
        for (key, failing) in rest.take(SEEN_PER_STEP) {
            if woken.len() == WOKEN_PER_STEP {
                break;
            }
            last = Some(key.clone());
            if !failing.waits_for[at] || failing.failed_at > pass.began {
                continue;
            }
            let earliest = failing.woken_at.map_or(now, |woken_at| (woken_at + WAKE_PERIOD).max(now));
            // One that is to be woken later already is not put off again.
            if failing.woken_at.is_none_or(|woken_at| woken_at <= now) {
                failing.woken_at = Some(earliest);
                woken.push((key.clone(), earliest - now));
            }
        }
        match last {
            Some(last) => pass.after = last,
            None => operation.pass = None,
        }
        Some(woken)
    }

    /// The keys after `after` that are retried slowly, in order, `limit` at most.
    pub(crate) fn slow_retries(&self, after: &ObjectKey, limit: usize) -> Vec<SlowRetry> {
        let state = self.state.lock();
        if state.slow == 0 {
            return Vec::new();
        }
        let later = state.keys.range((Bound::Excluded(after), Bound::Unbounded));
        later
            .filter_map(|(key, failing)| {
                Some(SlowRetry { key: key.clone(), error: failing.error.clone(), since: failing.slow_since? })
            })
            .take(limit)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use kube_endpoint_api_writer::{FailedWrite, WriteError};

    use super::*;

    fn key(number: usize) -> ObjectKey {
        ObjectKey::new("default", format!("web-{number:05}"))
    }

    fn error(operation: Operation, name: &str, error: WriteError) -> SyncError {
        SyncError::from(FailedWrite { operation, object: ObjectKey::new("default", name), error })
    }

    fn unknown() -> WriteError {
        WriteError::Unknown("the connection broke".into())
    }

    fn refused(code: u16) -> WriteError {
        WriteError::Refused { code, message: "no".into() }
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// All keys that the passes wake, with their delays in seconds.
    fn woken(failing: &FailingKeys, now: Instant) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        while let Some(keys) = failing.next_to_wake(now) {
            all.extend(keys.into_iter().map(|(key, delay)| (key.name.to_string(), delay.as_secs())));
        }
        all
    }

    #[test]
    fn keys_that_failed_for_a_common_reason_are_woken_by_the_same_operation_only() {
        let start = Instant::now();
        let check = |failed: Operation, with: WriteError, succeeds: Operation, wakes: bool| {
            let failing = FailingKeys::default();
            failing.failed(&key(1), &error(failed, "web-1", with.clone()), start);
            failing.wrote(succeeds, start + secs(1));
            let count = woken(&failing, start + secs(1)).len();
            assert_eq!(count, usize::from(wakes), "{failed:?} {with:?} {succeeds:?}");
        };
        check(Operation::Create, unknown(), Operation::Create, true);
        check(Operation::Update, unknown(), Operation::Update, true);
        check(Operation::Delete, unknown(), Operation::Delete, true);
        check(Operation::Create, unknown(), Operation::Update, false);
        check(Operation::Create, refused(401), Operation::Create, true);
        for code in [400, 403, 413, 422] {
            check(Operation::Create, refused(code), Operation::Create, false);
        }
        check(Operation::Update, WriteError::Conflict("no".into()), Operation::Update, false);
        check(Operation::Update, WriteError::NotFound("no".into()), Operation::Update, false);
    }

    #[test]
    fn an_outage_is_ten_seconds_without_success() {
        let start = Instant::now();
        let failing = FailingKeys::default();
        failing.wrote(Operation::Update, start);
        failing.failed(&key(1), &error(Operation::Update, "web", unknown()), start);
        failing.wrote(Operation::Update, start + secs(9));
        assert_eq!(woken(&failing, start + secs(9)), []);
        failing.wrote(Operation::Update, start + secs(19));
        assert_eq!(woken(&failing, start + secs(19)), [("web-00001".to_owned(), 0)]);
    }

    #[test]
    fn a_key_is_woken_once_in_thirty_seconds() {
        let start = Instant::now();
        let failing = FailingKeys::default();
        let check = |at: u64, expected: &[u64]| {
            let now = start + secs(at);
            failing.wrote(Operation::Update, now);
            let delays: Vec<u64> = woken(&failing, now).into_iter().map(|(_, delay)| delay).collect();
            assert_eq!(delays, expected, "after {at} s");
        };
        failing.failed(&key(1), &error(Operation::Update, "web", unknown()), start);
        check(0, &[0]);
        check(12, &[18]);
        check(24, &[]);
        check(34, &[26]);
        check(100, &[0]);
    }

    #[test]
    fn a_key_that_failed_after_the_outage_is_not_woken_by_its_end() {
        let start = Instant::now();
        let failing = FailingKeys::default();
        failing.failed(&key(1), &error(Operation::Update, "web", unknown()), start);
        failing.wrote(Operation::Update, start + secs(20));
        failing.failed(&key(1), &error(Operation::Update, "web", unknown()), start + secs(21));
        assert_eq!(woken(&failing, start + secs(21)), []);
    }

    #[test]
    fn ten_thousand_keys_are_woken_ten_at_a_time_and_each_once() {
        let start = Instant::now();
        let failing = FailingKeys::default();
        for number in 0..10_000 {
            failing.failed(&key(number), &error(Operation::Update, "web", unknown()), start);
        }
        failing.wrote(Operation::Update, start + secs(20));
        let mut steps = 0;
        let mut all = Vec::new();
        while let Some(keys) = failing.next_to_wake(start + secs(20)) {
            assert!(keys.len() <= WOKEN_PER_STEP);
            steps += 1;
            all.extend(keys);
        }
        assert_eq!((steps, all.len()), (1001, 10_000));
        all.dedup();
        assert_eq!(all.len(), 10_000);
    }

    #[test]
    fn an_error_is_new_when_it_is_another_and_the_generated_name_does_not_count() {
        let start = Instant::now();
        let failing = FailingKeys::default();
        let refusal = |name: &str| WriteError::Refused { code: 403, message: format!("{name} is forbidden") };
        let failed = |error| failing.failed(&key(1), &error, start);
        assert!(failed(error(Operation::Create, "web-a", refusal("web-a"))));
        assert!(!failed(error(Operation::Create, "web-b", refusal("web-b"))));
        assert!(failed(error(Operation::Create, "web-c", unknown())));
        assert!(failed(error(Operation::Create, "web-d", refusal("web-d"))));
        failing.forget(&key(1));
        assert!(failed(error(Operation::Create, "web-e", refusal("web-e"))), "after a success");
    }

    #[test]
    fn keys_that_are_retried_slowly_are_listed_in_pages() {
        let start = Instant::now();
        let failing = FailingKeys::default();
        for number in 0..5 {
            failing.failed(&key(number), &error(Operation::Update, "web", unknown()), start);
        }
        assert_eq!(failing.slow_retries(&ObjectKey::default(), 10), []);
        for number in [0, 2, 4] {
            assert!(failing.retried_slowly(&key(number), start));
        }
        assert!(!failing.retried_slowly(&key(2), start + secs(300)));
        assert_eq!(failing.counts(), FailingCounts { failing: 5, retried_slowly: 3 });
        let page = failing.slow_retries(&ObjectKey::default(), 2);
        assert_eq!(page.iter().map(|it| &it.key).collect::<Vec<_>>(), [&key(0), &key(2)]);
        assert_eq!(
            (page[1].since, &*page[1].error),
            (start, "failed to update default/web: the connection broke")
        );
        assert_eq!(failing.slow_retries(&page[1].key, 2).len(), 1);
        assert!(failing.forget(&key(0)) && failing.forget(&key(1)));
        assert_eq!(failing.counts(), FailingCounts { failing: 3, retried_slowly: 2 });
        assert!(!failing.forget(&key(1)), "it has not failed since");
    }
}
