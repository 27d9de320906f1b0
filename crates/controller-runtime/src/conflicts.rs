//! Counts conflicts in a row on an object whose cached version does not change: they show that the
//! cache is not just late.

use kube_endpoint_core_model::{ObjectKey, ResourceVersion};

/// A late cache does not cause this many conflicts in a row.
const SUSPICIOUS: u32 = 3;

/// The conflicts in a row of a key.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Conflicts {
    /// The object of the last conflict, and its version in the cache.
    object: Option<(ObjectKey, ResourceVersion)>,
    count: u32,
}

impl Conflicts {
    /// Counts the conflict of a sync: the object and its version in the cache. `None` stands for a
    /// sync without a conflict. Returns true if the caller should compare the cache with the
    /// server, and then starts the count again.
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
