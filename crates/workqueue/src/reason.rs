//! The reason for which a key is queued, and since when.

use tokio::time::Instant;

use crate::Causes;

/// Why a caller added a key, and when the first of the changes arrived that made it do so. When the
/// queue merges two adds, it merges their reasons. Reasons affect neither order nor delay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reason {
    pub causes: Causes,
    /// When the first change arrived for which a caller added the key, or `None` if it was added
    /// for no change. The worker that takes the key gets the earliest time of all its adds, also of
    /// those that are still delayed: the worker sees all changes that have arrived. The time stays
    /// with the key after a sync that failed or was put off.
    pub since: Option<Instant>,
}

impl Reason {
    /// Returns the causes of both, and the earlier time.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self { causes: self.causes.and(other.causes), since: earlier(self.since, other.since) }
    }
}

impl From<Causes> for Reason {
    fn from(causes: Causes) -> Self {
        Self { causes, since: None }
    }
}

/// Returns the earlier of two times that may be unknown.
pub(crate) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
