//! The states and errors that an elector reports.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use kube_endpoint_core_model::ResourceVersion;
use tokio::time::Instant;

/// The annotation in which a leader that releases the Lease leaves the versions of its last writes.
pub const LAST_WRITES_ANNOTATION: &str = "kube-endpoint-manager/last-writes";

/// The role of this process in the election.
///
/// It changes from `Standby` to `Leading` at most once, and from there to `Contested` and back. It
/// ends with `Lost`, or with `Standby` if it was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leadership {
    /// Another process may lead.
    Standby {
        /// The holder of the Lease when this process last read it, or `None` if it had no holder or
        /// was never read.
        leader: Option<String>,
    },
    /// This process leads.
    Leading {
        /// No write may begin, or be under way, after this time. Each renewal sets a later one.
        until: Instant,
        /// The leader before, or `None` if this process has never seen the Lease before it took it.
        /// The value changes only if the Lease is contested: the other holder counts as the leader
        /// before.
        predecessor: Option<Predecessor>,
    },
    /// This process leads, and the Lease shows another holder. Nothing may be written, since
    /// somebody may have given the Lease to that holder. Or API servers with storages of their own
    /// answer, and the next one shows this process again. After the renew deadline the Lease is
    /// lost.
    Contested {
        /// The holder that the Lease shows.
        holder: String,
    },
    /// This process was the leader and is not any more. It must exit.
    Lost,
}

/// The knowledge of a leader about the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predecessor {
    /// The predecessor began no write after this time, because this process had the Lease. It is a
    /// time of this process's clock: clocks of other machines may differ.
    pub wrote_until: Instant,
    /// True if this process took the Lease back from its former process, which was killed. Writes
    /// that it had sent may still be carried out for as long as the server handles a request. After
    /// a release or an expiry none is left: a leader stops its writes at the renew deadline, and
    /// the Lease expires later.
    pub was_killed: bool,
    /// The last writes that the predecessor left when it released the Lease. If it left none, all
    /// are unknown.
    pub last_writes: LastWrites,
}

/// The resource version of the last write of each resource that a leader knows of, by plural name
/// (`endpointslices`).
///
/// For a resource that the leader reads and does not write, it is the version of the last change
/// that it has read.
///
/// It includes the writes of earlier leaders: a leader begins with the versions that it waited for
/// when it took over. If a resource is missing, the leader knew nothing about it: the successor has
/// to find its version out by itself, as it does without any [`LastWrites`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastWrites(pub BTreeMap<String, ResourceVersion>);

impl LastWrites {
    /// Returns the version of the last write of a resource.
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

/// The end of an elector that its caller stopped.
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

/// The reason why a leader no longer leads. The process must exit.
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
