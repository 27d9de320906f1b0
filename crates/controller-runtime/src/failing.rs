//! Keys whose last sync failed.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Bound;

use kube_endpoint_api_writer::Operation;
use kube_endpoint_core_model::ObjectKey;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::SyncError;

/// A key whose retries have all failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowRetry {
    pub key: ObjectKey,
    /// The error of its last sync.
    pub error: String,
    /// The time at which the slow retries began.
    pub since: Instant,
}

/// The numbers of failing keys, as `/statusz`, the status page and the metrics show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailingCounts {
    /// Keys with a failed sync and no successful one since. A sync that waits for the cache or for
    /// the end of a pause does not change this.
    pub failing: usize,
    /// The part of these keys whose retries have all failed: the controller retries them slowly.
    pub retried_slowly: usize,
}

/// The keys whose last sync failed.
#[derive(Default)]
pub(crate) struct FailingKeys(Mutex<State>);

#[derive(Default)]
struct State {
    keys: BTreeMap<ObjectKey, Failing>,
    slow: usize,
}

struct Failing {
    error: String,
    /// The hash of the error without generated names.
    identity: u64,
    slow_since: Option<Instant>,
}

/// Returns a hash of the error without the names of objects that could not be created: each try
/// generates another name.
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
    /// Records that a sync failed. Returns true if the error differs from the last one of the key.
    pub(crate) fn failed(&self, key: &ObjectKey, error: &SyncError) -> bool {
        let identity = identity(error);
        let error = error.to_string();
        let mut state = self.0.lock();
        match state.keys.get_mut(key) {
            Some(failing) => {
                let changed = failing.identity != identity;
                *failing = Failing { error, identity, ..*failing };
                changed
            }
            None => {
                state.keys.insert(key.clone(), Failing { error, identity, slow_since: None });
                true
            }
        }
    }

    /// Records that the controller retries a failed key slowly. Returns true if this is new.
    pub(crate) fn retried_slowly(&self, key: &ObjectKey, now: Instant) -> bool {
        let mut state = self.0.lock();
        let state = &mut *state;
        let is_new = state.keys.get_mut(key).is_some_and(|failing| {
            let is_new = failing.slow_since.is_none();
            failing.slow_since.get_or_insert(now);
            is_new
        });
        state.slow += usize::from(is_new);
        is_new
    }

    /// Forgets a key whose sync succeeded. Returns true if the key had failed.
    pub(crate) fn forget(&self, key: &ObjectKey) -> bool {
        let mut state = self.0.lock();
        let Some(failing) = state.keys.remove(key) else { return false };
        state.slow -= usize::from(failing.slow_since.is_some());
        true
    }

    pub(crate) fn counts(&self) -> FailingCounts {
        let state = self.0.lock();
        FailingCounts { failing: state.keys.len(), retried_slowly: state.slow }
    }

    /// Returns at most `limit` keys after `after` that the controller retries slowly, sorted.
    pub(crate) fn slow_retries(&self, after: &ObjectKey, limit: usize) -> Vec<SlowRetry> {
        let state = self.0.lock();
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
    use std::time::Duration;

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

    #[test]
    fn an_error_is_new_when_it_is_another_and_the_generated_name_does_not_count() {
        let failing = FailingKeys::default();
        let refusal = |name: &str| WriteError::Refused { code: 403, message: format!("{name} is forbidden") };
        let failed = |error| failing.failed(&key(1), &error);
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
            failing.failed(&key(number), &error(Operation::Update, "web", unknown()));
        }
        assert_eq!(failing.slow_retries(&ObjectKey::default(), 10), []);
        for number in [0, 2, 4] {
            assert!(failing.retried_slowly(&key(number), start));
        }
        assert!(!failing.retried_slowly(&key(2), start + Duration::from_secs(300)));
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
