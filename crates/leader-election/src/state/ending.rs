//! Ends an election: at a stop, at the renew deadline, or because another candidate holds the
//! Lease.

use tokio::time::Instant;

use super::{Election, MIN_TIMEOUT, Phase, Purpose, RequestError, Step};
use crate::leadership::{Ended, LastWrites, LeaderElectionError};

/// How often a leader reads a Lease with another holder, in a retry period.
const CONTESTED_READS: u32 = 4;

impl Election {
    /// Begins to stop. A leader releases the Lease, with `last_writes`. The caller must drop a
    /// request that is under way.
    pub(crate) fn stop(&mut self, last_writes: Option<LastWrites>, now: Instant) {
        let acquires = matches!(self.step, Step::Sent(Purpose::Acquire, _));
        let led = match self.phase {
            Phase::Standby if !acquires && !self.may_hold => return self.end(Ok(Ended::Standby)),
            Phase::Standby => false,
            Phase::Leading { .. } => true,
            Phase::Stopping { .. } | Phase::Over(_) => return,
        };
        let deadline = now + MIN_TIMEOUT.max(self.options.renew_deadline / 2);
        self.phase = Phase::Stopping { led, deadline, last_writes };
        self.reads = 0;
        let knows_version =
            matches!(self.step, Step::Waiting(_) | Step::Due(Purpose::FastRenew | Purpose::Renew));
        let can_release = led && knows_version && self.is_holder();
        self.step = Step::Due(if can_release { Purpose::Release } else { Purpose::Read });
    }

    pub(super) fn end_at_limit(&mut self) {
        let why =
            self.last_error.as_ref().map_or("no request was answered in time", RequestError::why).to_owned();
        match (&self.phase, self.contested.take()) {
            (Phase::Leading { .. }, Some(holder)) => {
                let lease = self.options.lease();
                self.end(Err(LeaderElectionError::TakenOver { lease, holder }));
            }
            (Phase::Leading { .. }, None) => self.end(Err(LeaderElectionError::RenewDeadline {
                lease: self.options.lease(),
                renew_deadline: self.options.renew_deadline,
                why,
            })),
            _ => self.end(Ok(self.stopped(Ended::NotReleased { why }))),
        }
    }

    /// A leader finds another holder in its Lease. It writes nothing, and reads the Lease again
    /// until its renew deadline, as client-go: API servers with storages of their own may have
    /// answered.
    pub(super) fn contest(&mut self, holder: String, now: Instant) {
        self.contested = Some(holder);
        self.step = Step::Waiting(now + self.options.retry_period / CONTESTED_READS);
    }

    /// Returns how a stop ended: a standby that may have acquired the Lease just before still
    /// counts as a standby.
    pub(super) fn stopped(&self, ended: Ended) -> Ended {
        match self.phase {
            Phase::Stopping { led: true, .. } => ended,
            _ => Ended::Standby,
        }
    }

    pub(super) fn end(&mut self, ended: Result<Ended, LeaderElectionError>) {
        self.phase = Phase::Over(ended);
    }
}
