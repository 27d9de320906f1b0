//! Records which Lease a candidate has seen, and computes when the candidate may take it.

use std::time::Duration;

use kube_endpoint_core_model::ResourceVersion;
use tokio::time::Instant;

use crate::lease::Lease;

/// A change that a watch reports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    /// The Lease was created or changed.
    Applied(Lease),
    /// The Lease was deleted. This was its last state, with the version of the deletion.
    Deleted(Lease),
}

impl Event {
    /// Returns the Lease of the event.
    pub(crate) fn lease(&self) -> &Lease {
        let (Self::Applied(lease) | Self::Deleted(lease)) = self;
        lease
    }
}

/// The Lease as last seen, on the clock of this process.
#[derive(Debug)]
pub(crate) struct Observation {
    /// This candidate's lease duration. A record without a duration is valid for this time, and the
    /// record of a deleted Lease for at most this time.
    own_duration: Duration,
    lease: Option<Lease>,
    /// When this candidate first saw the present record, or first learned that there is no Lease.
    since: Option<Instant>,
    /// When the record of the last holder expires. Until then no other candidate may take the
    /// Lease, unless that holder has released it.
    reserved: Option<Instant>,
    /// The newest version that this candidate has seen.
    newest: ResourceVersion,
    /// When a watch showed that version, or `None` if an answer did.
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

    /// Returns the Lease, or `None` if this candidate has not seen it or somebody has deleted it.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.lease.as_ref()
    }

    /// Returns true if this candidate has seen the Lease, also if somebody has deleted it since.
    pub(crate) fn has_seen_lease(&self) -> bool {
        !self.newest.is_none()
    }

    /// Returns the holder; empty if there is none.
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

    /// Takes an answer that says that there is no Lease.
    ///
    /// The record of the deleted Lease stays valid for this candidate's lease duration at most: its
    /// own may be any number that a person wrote, and a live holder restores the Lease within a
    /// retry period.
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

    /// Returns when this candidate may take the Lease, or `None` if it has seen nothing.
    ///
    /// If somebody other than the holder deletes the Lease or removes its holder, the Lease is free
    /// when the last record that this candidate saw expires: the holder may be alive, and then
    /// restores the Lease with its next renewal. A deleted Lease is free after this candidate's
    /// lease duration at the latest.
    pub(crate) fn free_at(&self) -> Option<Instant> {
        let since = self.since?;
        Some(self.reserved.map_or(since, |reserved| reserved.max(since)))
    }

    /// Returns the time until which candidates leave a Lease that does not exist to its last
    /// holder, or `None` if the Lease exists or had no holder.
    pub(crate) fn deleted_until(&self) -> Option<Instant> {
        self.reserved.filter(|_| self.lease.is_none())
    }
}
