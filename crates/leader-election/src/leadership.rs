//! What an elector reports.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kube_endpoint_core_model::ResourceVersion;
use tokio::time::Instant;

/// The annotation of a released Lease that has the versions of the last writes.
pub const LAST_WRITES_ANNOTATION: &str = "kube-endpoint-manager/last-writes";

/// Whether this process leads.
///
/// It changes from `Standby` to `Leading` at most once, and ends with `Lost`, or with `Standby` if
/// it was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Another process may lead.
    Standby {
        /// The holder of the Lease when it was last seen; none if it was not seen, or had no
        /// holder.
        leader: Option<String>,
    },
    /// This process leads.
    Leading {
        /// No write may begin, or be under way, after this time. Each renewal moves it.
        until: Instant,
        /// The last writes of the previous leader, if it released the Lease and left them. None if
        /// it did not: its last writes are unknown. The value does not change while this process
        /// leads.
        last_writes: Option<LastWrites>,
    },
    /// This process was the leader and is not any more. It must exit.
    Lost,
}

/// The resource version of the last write of each resource that a leader knows of, by plural name
/// (`endpointslices`).
///
/// For a resource that the leader reads and does not write, it is the version of the last change
/// that it has read.
///
/// It includes the writes of earlier leaders: a leader begins with what it waited for when it took
/// over. A resource that is missing is one of which the leader knew nothing; the successor has to
/// find out by itself, as it does without any [`LastWrites`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastWrites(pub BTreeMap<String, ResourceVersion>);

impl LastWrites {
    /// The version of the last write of a resource.
    pub fn get(&self, plural: &str) -> Option<ResourceVersion> {
        self.0.get(plural).copied()
    }
}

impl fmt::Display for LastWrites {
    /// `endpoints 12, pods 34`, or `none`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (index, (plural, version)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{plural} {version}")?;
        }
        Ok(())
    }
}

impl<S: Into<String>> FromIterator<(S, ResourceVersion)> for LastWrites {
    fn from_iter<I: IntoIterator<Item = (S, ResourceVersion)>>(versions: I) -> Self {
        Self(versions.into_iter().map(|(plural, version)| (plural.into(), version)).collect())
    }
}

/// How an elector ended that was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Standby,
    /// It led and released the Lease.
    Released,
    /// It led and could not release the Lease. The next leader waits until the Lease expires.
    NotReleased {
        /// The error of the last attempt.
        why: String,
    },
}

/// Why a leader does not lead any more. The process must exit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaderElectionError {
    /// No renewal succeeded within the renew deadline.
    #[error("leader election lost: lease {lease} was not renewed within {renew_deadline:?}: {why}")]
    RenewDeadline {
        /// Namespace and name of the Lease.
        lease: String,
        renew_deadline: Duration,
        /// The error of the last attempt.
        why: String,
    },
    /// The Lease has another holder.
    #[error("leader election lost: lease {lease} is held by {holder}")]
    TakenOver {
        /// Namespace and name of the Lease.
        lease: String,
        /// The new holder.
        holder: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_writes_are_logged_by_resource() {
        let writes = [("pods", ResourceVersion(34)), ("endpoints", ResourceVersion(12))];
        assert_eq!(LastWrites::from_iter(writes).to_string(), "endpoints 12, pods 34");
        assert_eq!(LastWrites::default().to_string(), "none");
    }
}
