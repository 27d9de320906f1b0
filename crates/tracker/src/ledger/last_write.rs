//! The version of the last write of a kind.

use std::time::{Duration, Instant};

use kube_endpoint_core_model::ResourceVersion;

/// A write whose answer was lost may still be carried out until this time after it began: the
/// writer waits a minute for the answer in each of two encodings, kube-apiserver's
/// `--request-timeout` is a minute, and a request may wait in a proxy for half a minute.
const MAY_STILL_HAPPEN: Duration = Duration::from_secs(210);

/// The newest version of a kind, and which writes have no known version.
#[derive(Debug, Default)]
pub(crate) struct LastWrite {
    newest: Option<ResourceVersion>,
    in_flight: usize,
    /// How many writes ended without a known version: deletes, and writes whose answer was lost.
    unversioned: u64,
    /// How many of these came before a write whose version is known.
    passed: u64,
    /// A write that begins before this may be older than one whose answer was lost.
    lost_until: Option<Instant>,
}

/// The beginning of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun {
    pub(crate) at: Instant,
    /// [`LastWrite::unversioned`] at this time.
    unversioned: u64,
}

impl LastWrite {
    /// Records that a write begins. One call of [`Self::end`] must follow.
    pub(crate) fn begin(&mut self, at: Instant) -> Begun {
        self.in_flight += 1;
        Begun { at, unversioned: self.unversioned }
    }

    /// Records that a write has ended. If it was not refused, one of the other methods follows.
    pub(crate) fn end(&mut self) {
        self.in_flight = self.in_flight.saturating_sub(1);
    }

    /// Records the version of a write.
    pub(crate) fn answered(&mut self, begun: Begun, version: ResourceVersion) {
        self.newest = self.newest.max(Some(version));
        if self.lost_until.is_none_or(|until| begun.at >= until) {
            self.passed = self.passed.max(begun.unversioned);
        }
    }

    /// Records that an object was deleted.
    pub(crate) fn deleted(&mut self) {
        self.unversioned += 1;
    }

    /// Records that the outcome of a write is unknown.
    pub(crate) fn lost(&mut self, begun: Begun) {
        self.abandoned(begun.at);
    }

    /// Records that the outcome of a write that began at or before `at` is unknown.
    pub(super) fn abandoned(&mut self, at: Instant) {
        self.unversioned += 1;
        self.lost_until = self.lost_until.max(Some(at + MAY_STILL_HAPPEN));
    }

    /// Returns true if one of these writes may be carried out at this time.
    pub(super) fn may_still_happen(&self, at: Instant) -> bool {
        self.lost_until.is_some_and(|until| at < until)
    }

    pub(super) fn continue_from(&mut self, version: Option<ResourceVersion>) {
        // The server may not have the old version.
        self.newest = version;
        self.unversioned += u64::from(version.is_none());
    }

    pub(super) fn version(&self) -> Option<ResourceVersion> {
        self.newest.filter(|_| self.in_flight == 0 && self.passed == self.unversioned)
    }
}
