//! Conflicts in a row on an object whose cached version does not change: a sign that the cache is
//! not only late.

use kube_endpoint_api_writer::{FailedWrite, Operation, Writable, WriteError};
use kube_endpoint_core_model::{ObjectKey, ResourceVersion};

use crate::log_lines::Line;
use crate::{Output, Reconciler, Runtime};

/// This many conflicts in a row have another cause than a late cache.
const SUSPICIOUS: u32 = 3;

/// The conflicts of a key since its last sync without one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Conflicts {
    /// The object, and its version in the cache.
    object: Option<(ObjectKey, ResourceVersion)>,
    count: u32,
}

impl Conflicts {
    /// Counts the conflict of a sync: the object and its version in the cache, or none for a sync
    /// without a conflict. Returns whether the cache should be compared with the server; then the
    /// count begins anew.
    pub(crate) fn observe(&mut self, conflict: Option<(ObjectKey, ResourceVersion)>) -> bool {
        let count = match conflict {
            None => 0,
            Some(_) if self.object == conflict => self.count + 1,
            Some(_) => 1,
        };
        let suspicious = count >= SUSPICIOUS;
        *self = if count == 0 || suspicious { Self::default() } else { Self { object: conflict, count } };
        suspicious
    }
}

impl<R: Reconciler> Runtime<R> {
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
            self.cluster().request_version_check(R::Output::INFORMER_KIND, &key.namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_conflicts_in_a_row_at_the_same_cached_version_are_suspicious() {
        let check = |conflicts: &[Option<(&str, u64)>], suspicious: &[bool]| {
            let mut counted = Conflicts::default();
            let object = |(name, version): (&str, u64)| (ObjectKey::new("n", name), ResourceVersion(version));
            let got: Vec<bool> = conflicts.iter().map(|it| counted.observe(it.map(object))).collect();
            assert_eq!(got, suspicious, "{conflicts:?}");
        };
        let a = Some(("a", 1));
        check(&[a, a, a, a, a, a], &[false, false, true, false, false, true]);
        check(&[a, a, None, a, a], &[false; 5]);
        check(&[a, a, Some(("a", 2)), Some(("a", 2)), Some(("b", 2))], &[false; 5]);
        let mut settled = Conflicts::default();
        settled.observe(Some((ObjectKey::new("n", "a"), ResourceVersion(1))));
        settled.observe(None);
        assert_eq!(settled, Conflicts::default());
    }
}
