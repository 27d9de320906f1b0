//! The causes of syncs.

use kube_endpoint_workqueue::{Causes, Reason};
use tokio::time::Instant;

/// The cause of a sync, for traces. A sync that several changes started has several causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Cause {
    /// The last sync of the key failed.
    Retry = 0,
    Pod = 1,
    Service = 2,
    Node = 3,
    /// An EndpointSlice changed that the controller does not write.
    EndpointSlice = 4,
    /// An Endpoints object changed that the controller does not write.
    Endpoints = 5,
    /// Another client changed or deleted an output.
    ForeignWrite = 6,
    Resync = 7,
    /// Writes succeed again after an outage.
    OutageEnded = 8,
    /// The last sync ended early: the cache did not show the controller's own writes, or showed
    /// another state than the server.
    StaleCache = 9,
    /// The API server had asked for a pause.
    RetryAfter = 10,
    /// The zones' shares of CPU changed during the last sync of the Service or since then.
    Topology = 11,
    /// The controller found the output of a Service that does not exist when it began.
    Leftover = 12,
    /// The controller began: its process started, took over from another leader, or dropped its
    /// caches.
    Start = 13,
    /// The last sync failed in an outage. This one finds out if the outage has ended.
    Probe = 14,
    /// The EndpointSelector that a Service names changed.
    EndpointSelector = 15,
    /// The Lease that an EndpointSelector names has another holder, or its holder no longer renews
    /// it.
    Lease = 16,
}

impl Cause {
    const ALL: [Self; 17] = [
        Self::Retry,
        Self::Pod,
        Self::Service,
        Self::Node,
        Self::EndpointSlice,
        Self::Endpoints,
        Self::ForeignWrite,
        Self::Resync,
        Self::OutageEnded,
        Self::StaleCache,
        Self::RetryAfter,
        Self::Topology,
        Self::Leftover,
        Self::Start,
        Self::Probe,
        Self::EndpointSelector,
        Self::Lease,
    ];

    /// Returns the causes of the syncs in or after an outage that come in addition to the retries
    /// of a key.
    pub(crate) fn extra() -> Causes {
        Causes::from(Self::Probe).and(Self::OutageEnded.into())
    }

    /// Returns the name in traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Pod => "pod",
            Self::Service => "service",
            Self::Node => "node",
            Self::EndpointSlice => "slice",
            Self::Endpoints => "endpoints",
            Self::ForeignWrite => "foreign_write",
            Self::Resync => "resync",
            Self::OutageEnded => "outage_ended",
            Self::StaleCache => "stale_cache",
            Self::RetryAfter => "retry_after",
            Self::Topology => "topology",
            Self::Leftover => "leftover",
            Self::Start => "start",
            Self::Probe => "probe",
            Self::EndpointSelector => "endpoint_selector",
            Self::Lease => "lease",
        }
    }

    /// Returns this cause, with the time at which the event of the change arrived; see
    /// [`Change::arrived`](kube_endpoint_informer::Change::arrived).
    pub fn since(self, arrived: Option<Instant>) -> Reason {
        Reason { causes: self.into(), since: arrived, urgent: false }
    }

    /// Returns the names of a set, in the order of the enum.
    pub fn names(causes: Causes) -> Vec<&'static str> {
        let given = Self::ALL.into_iter().filter(|cause| causes.contains((*cause).into()));
        given.map(Self::as_str).collect()
    }
}

impl From<Cause> for Causes {
    fn from(cause: Cause) -> Self {
        Self::number(cause as u8)
    }
}

impl From<Cause> for Reason {
    fn from(cause: Cause) -> Self {
        cause.since(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_a_number_and_a_name_of_its_own() {
        let mut all = Causes::NONE;
        for (number, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, number);
            assert_eq!(Cause::names(cause.into()), [cause.as_str()]);
            all = all.and(cause.into());
        }
        let mut names = Cause::names(all);
        names.dedup();
        assert_eq!(names.len(), Cause::ALL.len());
        assert_eq!(Cause::names(Causes::RETRY), ["retry"]);
        assert!(Cause::names(Causes::NONE).is_empty());
    }
}
