//! The reason for which a key is queued, and since when.

use tokio::time::Instant;

use crate::Causes;

/// Why a caller added a key, and when the first of the changes arrived that made it do so. When the
/// queue merges two adds, it merges their reasons.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reason {
    pub causes: Causes,
    /// When the first change arrived for which a caller added the key, or `None` if it was added
    /// for no change. The worker that takes the key gets the earliest time of all its adds, also of
    /// those that are still delayed: the worker sees all changes that have arrived. The time stays
    /// with the key after a sync that failed or was put off.
    pub since: Option<Instant>,
    /// Workers take urgent keys and others in turn, and [one worker](crate::run_workers_observed)
    /// takes no others. The key stays urgent after a sync that failed or was put off.
    pub urgent: bool,
}

impl Reason {
    /// Returns the causes of both, and the earlier time. It is urgent if one of them is.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            causes: self.causes.and(other.causes),
            since: earlier(self.since, other.since),
            urgent: self.urgent || other.urgent,
        }
    }

    /// Returns the reason with [`urgent`](Self::urgent) set to this.
    #[must_use]
    pub fn urgent(self, urgent: bool) -> Self {
        Self { urgent, ..self }
    }
}

impl From<Causes> for Reason {
    fn from(causes: Causes) -> Self {
        Self { causes, ..Self::default() }
    }
}

/// Returns the earlier of two times that may be unknown.
fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
