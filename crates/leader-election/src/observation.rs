//! What a candidate has seen of the Lease, and when it is free for the candidate.

use std::time::Duration;

use kube_endpoint_core_model::ResourceVersion;
use tokio::time::Instant;

use crate::lease::Lease;

/// What a watch shows.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// The Lease was created or changed.
    Applied(Lease),
    /// The Lease was deleted. This was its last state, with the version of the deletion.
    Deleted(Lease),
}

impl Event {
    /// The Lease of the event.
    pub(crate) fn lease(&self) -> &Lease {
        let (Self::Applied(lease) | Self::Deleted(lease)) = self;
        lease
    }
}

/// The Lease as last seen, on the clock of this process.
#[derive(Debug)]
pub(crate) struct Observation {
    /// This candidate's lease duration: how long a record without a duration is valid, and how long
    /// at most the record of a deleted Lease is.
    own_duration: Duration,
    lease: Option<Lease>,
    /// When the present state was seen first: the record of the Lease, or that there is no Lease.
    since: Option<Instant>,
    /// When the record of the last holder expires. Until then the Lease is not free, unless that
    /// holder has released it.
    reserved: Option<Instant>,
    /// The newest version that was seen.
    newest: ResourceVersion,
    /// When a watch showed that version, if it was a watch.
    shown: Option<Instant>,
}

impl Observation {
    pub(crate) fn new(own_duration: Duration) -> Self {
        Self {
            own_duration,
            lease: None,
            since: None,
            reserved: None,
            newest: ResourceVersion::default(),
            shown: None,
        }
    }

    /// The Lease; none if it was not seen or was deleted.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// The holder; empty if there is none.
    pub(crate) fn holder(&self) -> &str {
        self.lease.as_ref().map_or("", Lease::holder)
    }

    /// Takes an answer to a request that was sent at `sent`. An answer is newer than all events
    /// before the request, whatever its version: the API server may have been restored from a
    /// backup. It is older than an event that has a higher version and arrived while the request
    /// was under way.
    pub(crate) fn answer(&mut self, lease: &Lease, sent: Instant, now: Instant) {
        let is_older = lease.version() < self.newest && self.shown.is_some_and(|shown| shown >= sent);
        if !is_older {
            (self.newest, self.shown) = (lease.version(), None);
            self.apply(lease.clone(), now);
        }
    }

    /// Takes the answer that there is no Lease.
    ///
    /// A duration that was seen before may be any number that a person wrote. A live holder
    /// restores the Lease within a retry period, so this candidate's duration is enough.
    pub(crate) fn absent(&mut self, now: Instant) {
        self.reserved = self.reserved.map(|reserved| reserved.min(now + self.own_duration));
        if self.lease.take().is_some() || self.since.is_none() {
            self.since = Some(now);
        }
    }

    /// Takes an event of a watch. Returns false if it is not newer than what was seen before.
    pub(crate) fn event(&mut self, event: Event, now: Instant) -> bool {
        let version = event.lease().version();
        if version <= self.newest {
            return false;
        }
        (self.newest, self.shown) = (version, Some(now));
        match event {
            Event::Applied(lease) => self.apply(lease, now),
            Event::Deleted(_) => self.absent(now),
        }
        true
    }

    fn apply(&mut self, lease: Lease, now: Instant) {
        if self.lease.as_ref().is_none_or(|old| old.record() != lease.record()) {
            self.since = Some(now);
            if !lease.holder().is_empty() {
                self.reserved = Some(now + lease.duration().unwrap_or(self.own_duration));
            } else if lease.is_released() {
                self.reserved = None;
            }
        }
        self.lease = Some(lease);
    }

    /// When the Lease is free for another holder; none if nothing was seen.
    ///
    /// A Lease that is deleted, or whose holder is removed by somebody who is not the holder, is
    /// free when the last record that was seen expires. Its holder may be alive, and restores the
    /// Lease with its next renewal. A deleted Lease is free after this candidate's lease duration
    /// at the latest.
    pub(crate) fn free_at(&self) -> Option<Instant> {
        let since = self.since?;
        Some(self.reserved.map_or(since, |reserved| reserved.max(since)))
    }

    /// Until when a Lease that does not exist is left to its last holder; none if the Lease exists
    /// or had no holder.
    pub(crate) fn deleted_until(&self) -> Option<Instant> {
        self.reserved.filter(|_| self.lease.is_none())
    }
}
