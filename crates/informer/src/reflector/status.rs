//! Whether a kind has been listed, and why not.

use std::time::Duration;

use tokio::time::Instant;

use crate::metrics::WatchErrorReason;
use crate::{Kind, Scope};

/// A kind that has not been listed after this many failures, whatever they are, is reported as an
/// error.
const FAILURES_BEFORE_ERROR: u32 = 3;

/// Whether a kind has been listed, and whether its requests fail.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindStatus {
    /// True if the store holds a complete list and handlers were called for it, as far as they want
    /// it. Stays true once it is true.
    pub synced: bool,
    /// The last failed list or watch; none if a request has succeeded since.
    pub failure: Option<KindFailure>,
}

/// A list or a watch that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindFailure {
    pub verb: ListWatchVerb,
    /// Why it failed, as in the label of the metrics.
    pub reason: WatchErrorReason,
    /// The HTTP status, if the server answered with one.
    pub code: Option<u16>,
    pub message: String,
    /// The number of consecutive failures.
    pub failures: u32,
    /// When the first of them happened.
    pub since: Instant,
}

/// The verb of a request, as in an RBAC rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListWatchVerb {
    List,
    Watch,
}

impl ListWatchVerb {
    /// The verb as RBAC rules spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Watch => "watch",
        }
    }
}

impl KindFailure {
    /// What the client must be allowed to do, if the server forbade the request.
    pub fn missing_permission(&self, kind: Kind) -> Option<String> {
        let group = kind.api_group();
        let group =
            if group.is_empty() { "the core API group".to_owned() } else { format!("API group {group}") };
        (self.code == Some(403))
            .then(|| format!("verb {} on resource {} in {group}", self.verb.as_str(), kind.name()))
    }

    /// Logs the failure: as an error if the server forbade the request, or if the kind has never
    /// been listed and the server refused the list or it failed repeatedly; otherwise as a warning.
    pub(crate) fn log(&self, kind: Kind, scope: &Scope, is_synced: bool, delay: Duration) {
        let (resource, verb, error) = (kind.name(), self.verb.as_str(), &self.message);
        let namespace = scope.namespace();
        let retry_in = whole_millis(delay);
        if let Some(missing) = self.missing_permission(kind) {
            tracing::error!(
                resource,
                namespace,
                verb,
                error,
                missing,
                ?retry_in,
                "a permission is missing (RBAC)"
            );
        } else if !is_synced && (self.code.is_some() || self.failures >= FAILURES_BEFORE_ERROR) {
            tracing::error!(
                resource,
                namespace,
                verb,
                error,
                ?retry_in,
                "cannot list this kind; controllers that read it do not start before it is listed"
            );
        } else {
            tracing::warn!(resource, namespace, verb, error, ?retry_in, "trying again");
        }
    }
}

/// Whole milliseconds are easier to read.
pub(crate) fn whole_millis(delay: Duration) -> Duration {
    Duration::from_millis(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
}
