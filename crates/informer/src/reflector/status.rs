//! The status of a kind: synced or not, and the failure of its requests.

use std::time::Duration;

use tokio::time::Instant;

use crate::metrics::WatchErrorReason;
use crate::{Kind, Scope};

/// After this many failures of any sort, a reflector logs an error if it has never listed the kind,
/// and nobody waits for it if others of the kind succeed.
const FAILURES_BEFORE_ERROR: u32 = 3;

/// The status of a kind: synced or not, and the failure of its requests.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindStatus {
    /// True if the store holds a complete list and the cluster has called the handlers for it; for
    /// pods only if a handler wants them. Stays true once it is true.
    pub synced: bool,
    /// The last failed list or watch, or `None` if a request has succeeded since. Failures of
    /// single namespaces do not count ([`Cluster::unreadable`](crate::Cluster::unreadable)).
    pub failure: Option<KindFailure>,
}

/// A list or a watch that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct KindFailure {
    pub verb: ListWatchVerb,
    /// The reason, as in the label of the metrics.
    pub reason: WatchErrorReason,
    /// The HTTP status, if the server answered with one.
    pub code: Option<u16>,
    pub message: String,
    /// The number of consecutive failures.
    pub failures: u32,
    /// When the first of these failures happened.
    pub since: Instant,
}

/// The verb of a request, as in an RBAC rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListWatchVerb {
    List,
    Watch,
}

impl ListWatchVerb {
    /// Returns the verb as RBAC rules spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Watch => "watch",
        }
    }
}

impl KindFailure {
    /// Returns the permission that the client lacks, if the server forbade the request.
    pub fn missing_permission(&self, kind: Kind) -> Option<String> {
        let group = kind.api_group();
        let group =
            if group.is_empty() { "the core API group".to_owned() } else { format!("API group {group}") };
        self.is_forbidden()
            .then(|| format!("verb {} on resource {} in {group}", self.verb.as_str(), kind.name()))
    }

    /// Returns true if the server forbids the request.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.code == Some(403)
    }

    /// Returns true if the next attempt will hardly succeed: the server forbids the request, or it
    /// has failed repeatedly.
    pub(crate) fn lasts(&self) -> bool {
        self.is_forbidden() || self.failures >= FAILURES_BEFORE_ERROR
    }

    /// Logs the failure as an error if the server forbade the request, or if the reflector has
    /// never listed the kind and the server refused the list or it failed repeatedly. Otherwise
    /// logs a warning.
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
                "cannot list this kind, for which controllers may wait"
            );
        } else {
            tracing::warn!(resource, namespace, verb, error, ?retry_in, "trying again");
        }
    }
}

/// Cuts a delay to whole milliseconds, which are easier to read.
pub(crate) fn whole_millis(delay: Duration) -> Duration {
    Duration::from_millis(u64::try_from(delay.as_millis()).unwrap_or(u64::MAX))
}
