//! Why a key is to be processed, and since when.

use tokio::time::Instant;

use crate::Causes;

/// Why a key was added, and when the first change arrived for which it was. The queue merges the
/// reasons of adds that it merges. They affect neither order nor delay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reason {
    pub causes: Causes,
    /// When the first change arrived for which it was added; none if it was added for no change.
    /// The worker that takes the key learns it, also if a delayed add was for the change: the
    /// worker sees all changes that have arrived. After a sync that failed or was put off it stays
    /// with the key.
    pub since: Option<Instant>,
}

impl Reason {
    /// The causes in either, and the earlier time.
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

/// The earlier one of two times that may be unknown.
pub(crate) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
