//! The election as a pure state machine: client-go's `tryAcquireOrRenew`, one request at a time.
//!
//! [`Election`] takes answers, watch events and the time, and returns what to do next as an
//! [`Action`]. It reads no clock and sends nothing, so the model test runs several of them on one
//! simulated Lease.
//!
//! An *attempt* is a series of requests. A leader updates the Lease that it knows (the fast path),
//! and reads the Lease only if that fails (the slow path). A standby reads it, and updates or
//! creates it if it is free. After an attempt the election waits: a leader until a retry period has
//! passed since the attempt began, a standby for a retry period with jitter, but no longer than
//! until the Lease is free.

mod ending;

use std::time::Duration;

use kube_endpoint_core_model::Timestamp;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::time::Instant;

use crate::action::{Action, Answer, Request};
use crate::leadership::{Ended, LastWrites, LeaderElectionError, Leadership, Predecessor};
use crate::lease::Lease;
use crate::observation::{Event, Observation};
use crate::options::{ElectorOptions, JITTER_FACTOR};

/// A watch event can start an attempt. A retry period divided by this is the shortest time between
/// the beginnings of two attempts, in case somebody edits the Lease in a loop.
const SPACING: u32 = 20;
/// The most reads in one attempt.
const MAX_READS: u32 = 2;
/// The shortest time limit of a request, as in client-go's `NewFromKubeconfig`. The requests of a
/// release have this limit.
const MIN_TIMEOUT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
enum Phase {
    Standby,
    Leading { until: Instant, predecessor: Option<Predecessor> },
    Stopping { led: bool, deadline: Instant, last_writes: Option<LastWrites> },
    Over(Result<Ended, LeaderElectionError>),
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// The next attempt begins at this time.
    Waiting(Instant),
    /// A request is to be sent.
    Due(Purpose),
    /// The answer to a request that was sent at this time is outstanding.
    Sent(Purpose, Instant),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Read,
    /// Renew the Lease as the leader last saw it.
    FastRenew,
    /// Renew the Lease after reading it.
    Renew,
    /// Become the holder.
    Acquire,
    Release,
}

/// One candidate of an election.
#[derive(Debug)]
pub(crate) struct Election {
    options: ElectorOptions,
    /// The identity of a process that is known to have ended.
    former: Option<String>,
    random: ChaCha8Rng,
    phase: Phase,
    step: Step,
    /// When the last attempt began.
    attempt: Instant,
    /// How often that attempt has read the Lease.
    reads: u32,
    /// The value of [`Observation::free_at`] at the last attempt that found the Lease free.
    tried: Option<Instant>,
    observed: Observation,
    /// The last writes that the Lease showed when this candidate last tried to acquire it; `None`
    /// if it had never seen the Lease. If the API server carried out an earlier try, the Lease
    /// showed the same then: each try has the version of the Lease as its precondition.
    inherited: Option<LastWrites>,
    /// True if the Lease then showed [`Self::former`].
    takes_back: bool,
    /// True if the API server may have carried out such a try although no answer said so.
    may_hold: bool,
    last_error: Option<RequestError>,
    /// The holder that the Lease shows although this candidate leads.
    contested: Option<String>,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RequestError {
    /// Another client has changed the Lease since this candidate read it. All candidates but one
    /// fail to acquire the Lease in this way.
    Conflict(String),
    Other(String),
}

impl RequestError {
    /// Returns the message of the API server or the client.
    pub(crate) fn why(&self) -> &str {
        let (Self::Conflict(why) | Self::Other(why)) = self;
        why
    }
}

impl Election {
    pub(crate) fn new(options: ElectorOptions, seed: u64, now: Instant) -> Self {
        Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            phase: Phase::Standby,
            step: Step::Waiting(now),
            attempt: now,
            reads: 0,
            tried: None,
            observed: Observation::new(options.lease_duration),
            former: None,
            inherited: None,
            takes_back: false,
            may_hold: false,
            last_error: None,
            contested: None,
            options,
        }
    }

    /// Lets this candidate take back a Lease of exactly this holder, whose process has ended: it
    /// waits for no expiry, and a renewal that this process had sent is no sign of life.
    pub(crate) fn take_back_from(&mut self, former: String) {
        self.former = Some(former);
    }

    /// Returns the former process of this candidate, if this one leads because it took the Lease
    /// back from it.
    pub(crate) fn took_back_from(&self) -> Option<&str> {
        let Phase::Leading { predecessor: Some(predecessor), .. } = &self.phase else { return None };
        self.former.as_deref().filter(|_| predecessor.was_killed)
    }

    pub(crate) fn leadership(&self) -> Leadership {
        match &self.phase {
            Phase::Standby => {
                let holder = self.observed.holder();
                Leadership::Standby { leader: (!holder.is_empty()).then(|| holder.to_owned()) }
            }
            Phase::Leading { until, predecessor } => {
                if let Some(holder) = &self.contested {
                    return Leadership::Contested { holder: holder.clone() };
                }
                Leadership::Leading { until: *until, predecessor: predecessor.clone() }
            }
            Phase::Stopping { .. } | Phase::Over(Ok(_)) => Leadership::Standby { leader: None },
            Phase::Over(Err(_)) => Leadership::Lost,
        }
    }

    /// Returns when the Lease expires for the other candidates, or `None` if this candidate does
    /// not lead.
    pub(crate) fn expiry(&self) -> Option<Instant> {
        let Phase::Leading { until, .. } = self.phase else { return None };
        Some(until + (self.options.lease_duration - self.options.renew_deadline))
    }

    /// Returns true if this candidate knows that somebody holds the Lease: it leads, or the API
    /// server answered its last request and the record of another holder is valid.
    pub(crate) fn is_held(&self, now: Instant) -> bool {
        match self.phase {
            Phase::Leading { until, .. } => now < until,
            Phase::Standby => {
                let is_valid = self.observed.free_at().is_some_and(|free| now < free);
                self.last_error.is_none() && !self.observed.holder().is_empty() && is_valid
            }
            Phase::Stopping { .. } | Phase::Over(_) => false,
        }
    }

    /// Returns the error of the last request, or `None` if it succeeded.
    pub(crate) fn last_error(&self) -> Option<&RequestError> {
        self.last_error.as_ref()
    }

    /// Returns the Lease as this candidate last saw it, or `None` if it did not exist then.
    pub(crate) fn lease(&self) -> Option<&Lease> {
        self.observed.lease()
    }

    /// Returns the time until which this standby leaves a deleted Lease to its last holder, or
    /// `None` if it waits for no holder.
    pub(crate) fn deleted_until(&self, now: Instant) -> Option<Instant> {
        match self.phase {
            Phase::Standby => self.observed.deleted_until().filter(|until| *until > now),
            _ => None,
        }
    }

    /// Returns what to do now. `wall_clock` goes into the Lease and has no other use.
    pub(crate) fn next(&mut self, now: Instant, wall_clock: Timestamp) -> Action {
        let limit = self.limit();
        if limit.is_some_and(|limit| limit <= now) {
            self.end_at_limit();
        }
        if let Phase::Over(ended) = &self.phase {
            return Action::End(ended.clone());
        }
        let purpose = match self.step {
            Step::Sent(..) => return Action::Wait(limit),
            Step::Due(purpose) => purpose,
            Step::Waiting(next) => {
                let wake = self.wake(next);
                if now < wake {
                    return Action::Wait(Some(limit.map_or(wake, |limit| limit.min(wake))));
                }
                (self.attempt, self.reads) = (now, 0);
                self.tried = self.observed.free_at().filter(|free| *free <= now).or(self.tried);
                match self.phase {
                    Phase::Leading { .. } if self.is_holder() => Purpose::FastRenew,
                    _ => Purpose::Read,
                }
            }
        };
        self.step = Step::Sent(purpose, now);
        let timeout = match self.phase {
            Phase::Stopping { .. } => MIN_TIMEOUT,
            _ => MIN_TIMEOUT.max(self.options.renew_deadline / 2),
        };
        Action::Send {
            request: self.request(purpose, wall_clock),
            timeout: limit.map_or(timeout, |limit| timeout.min(limit - now)),
            slow_path: purpose == Purpose::Renew && matches!(self.phase, Phase::Leading { .. }),
        }
    }

    /// Takes the answer to the last request.
    pub(crate) fn answered(&mut self, answer: Answer, now: Instant) {
        let Step::Sent(purpose, sent) = self.step else { return };
        self.reads += u32::from(purpose == Purpose::Read);
        self.last_error = None;
        match answer {
            Answer::Lease(lease) => {
                self.observed.answer(&lease, sent, now);
                match purpose {
                    Purpose::Read => self.decide(now),
                    Purpose::Release => self.end(Ok(self.stopped(Ended::Released))),
                    Purpose::FastRenew | Purpose::Renew | Purpose::Acquire => self.renewed(sent, now),
                }
            }
            Answer::NotFound(_) if purpose == Purpose::Read => {
                self.observed.absent(now);
                self.decide(now);
            }
            Answer::NotFound(why) => self.failed(purpose, RequestError::Other(why), true, now),
            Answer::Conflict(why) => self.failed(purpose, RequestError::Conflict(why), false, now),
            Answer::Failed { why, may_be_applied } => {
                self.failed(purpose, RequestError::Other(why), may_be_applied, now);
            }
        }
    }

    /// Takes an event of a watch.
    pub(crate) fn event(&mut self, event: Event, now: Instant) {
        if !self.observed.event(event, now) {
            return;
        }
        if let Step::Due(_) = self.step {
            // The election decided on that request from an older state.
            self.step = Step::Due(Purpose::Read);
        }
        let Phase::Leading { .. } = self.phase else { return };
        if let Some(holder) = self.other_holder() {
            let before = self.step;
            self.contest(holder, now);
            if let Step::Sent(..) = before {
                // The answer to the request comes first.
                self.step = before;
            }
            return;
        }
        if let Step::Waiting(next) = self.step {
            self.step = Step::Waiting(next.min(self.next_renewal(next)));
        }
    }

    /// Returns true if this candidate was the holder when it last saw the Lease.
    fn is_holder(&self) -> bool {
        self.observed.holder() == self.options.identity
    }

    /// Returns true if the holder is a process that is known to have ended.
    fn is_held_by_former(&self) -> bool {
        self.former.as_deref().is_some_and(|former| self.observed.holder() == former)
    }

    /// Returns the holder, if it is another candidate.
    fn other_holder(&self) -> Option<String> {
        let holder = self.observed.holder();
        (!holder.is_empty() && !self.is_holder()).then(|| holder.to_owned())
    }

    /// Returns when a leader renews the Lease next: at the regular time, or soon if somebody else
    /// has deleted the Lease or changed the fields that keep others from taking it.
    fn next_renewal(&self, regular: Instant) -> Instant {
        let duration = self.observed.lease().and_then(Lease::duration);
        let is_intact =
            self.is_holder() && duration.map(|d| d.as_secs()) == Some(self.options.lease_duration.as_secs());
        if is_intact { regular } else { self.attempt + self.options.retry_period / SPACING }
    }

    /// Returns the time after which a leader has lost the Lease, or gives up releasing it.
    fn limit(&self) -> Option<Instant> {
        match self.phase {
            Phase::Leading { until, .. } => Some(until),
            Phase::Stopping { deadline, .. } => Some(deadline),
            Phase::Standby | Phase::Over(_) => None,
        }
    }

    /// Returns when the next attempt begins: at `next`, or, for a standby, when the Lease becomes
    /// free, once.
    fn wake(&self, next: Instant) -> Instant {
        match (&self.phase, self.observed.free_at()) {
            (Phase::Standby, Some(free)) if self.tried != Some(free) => {
                next.min(free.max(self.attempt + self.options.retry_period / SPACING))
            }
            _ => next,
        }
    }

    fn request(&mut self, purpose: Purpose, wall_clock: Timestamp) -> Request {
        let (identity, seconds) = (&self.options.identity, self.options.lease_duration_seconds());
        let lease = self.observed.lease().cloned();
        let exists = lease.is_some();
        let lease = lease.unwrap_or_else(|| Lease::new(&self.options.namespace, &self.options.name));
        let lease = match purpose {
            Purpose::Read => return Request::Get,
            Purpose::FastRenew | Purpose::Renew => lease.renewed(identity, seconds, wall_clock),
            Purpose::Acquire => {
                let has_seen = self.observed.has_seen_lease();
                let reserve_for = self.options.reserve_for;
                // A Lease that this candidate has seen was deleted, and its leader may write.
                if !has_seen && !reserve_for.is_zero() {
                    return Request::Create(lease.reserved(reserve_for, wall_clock));
                }
                self.inherited = has_seen.then(|| lease.last_writes().unwrap_or_default());
                self.takes_back = self.is_held_by_former();
                lease.acquired(identity, seconds, wall_clock)
            }
            Purpose::Release => {
                let last_writes = match &self.phase {
                    Phase::Stopping { last_writes, .. } => last_writes.as_ref(),
                    _ => None,
                };
                lease.released(wall_clock, last_writes)
            }
        };
        if exists { Request::Update(lease) } else { Request::Create(lease) }
    }

    /// Chooses the next step after the Lease was read.
    fn decide(&mut self, now: Instant) {
        let free = self.observed.free_at().filter(|free| *free <= now);
        match (&self.phase, self.other_holder()) {
            (Phase::Leading { .. }, None) if self.is_holder() => self.step = Step::Due(Purpose::Renew),
            (Phase::Leading { .. }, None) => self.step = Step::Due(Purpose::Acquire),
            (Phase::Leading { .. }, Some(holder)) => self.contest(holder, now),
            // An earlier try succeeded, but its answer did not arrive.
            (Phase::Standby, None) if self.is_holder() && self.may_hold => {
                self.step = Step::Due(Purpose::Renew);
            }
            (Phase::Standby, _) if free.is_some() || self.is_held_by_former() => {
                self.tried = free.or(self.tried);
                self.step = Step::Due(Purpose::Acquire);
            }
            (Phase::Standby, _) => self.step = Step::Waiting(now + self.jittered()),
            (Phase::Stopping { .. }, None) if self.is_holder() => self.step = Step::Due(Purpose::Release),
            (Phase::Stopping { .. }, None) => self.end(Ok(self.stopped(Ended::Released))),
            (Phase::Stopping { .. }, Some(holder)) => {
                let why = format!("it is held by {holder}");
                self.end(Ok(self.stopped(Ended::NotReleased { why })));
            }
            (Phase::Over(_), _) => {}
        }
    }

    /// Notes that the API server carried out a renewal that the elector sent at `sent`.
    fn renewed(&mut self, sent: Instant, now: Instant) {
        let until = sent + self.options.renew_deadline;
        if let Some(holder) = self.other_holder() {
            // A watch has shown a newer state.
            return match self.phase {
                Phase::Leading { .. } => self.contest(holder, now),
                _ => self.step = Step::Waiting(now + self.jittered()),
            };
        }
        let next = self.next_renewal(sent + self.options.retry_period);
        self.step = Step::Waiting(next.max(now));
        match &mut self.phase {
            Phase::Leading { until: current, predecessor } => {
                *current = until;
                if self.contested.take().is_some() {
                    // The other holder may have written until now.
                    let last_writes = LastWrites::default();
                    *predecessor = Some(Predecessor { wrote_until: now, was_killed: false, last_writes });
                }
            }
            Phase::Standby if until <= now => {
                // This process was suspended and holds a Lease that has run out. It tries to renew
                // the Lease: no other candidate has taken it.
                self.may_hold = true;
                self.step = Step::Waiting(now);
            }
            Phase::Standby => {
                self.may_hold = false;
                let inherited = self.inherited.take();
                let was_killed = self.takes_back;
                let predecessor =
                    inherited.map(|last_writes| Predecessor { wrote_until: now, was_killed, last_writes });
                self.phase = Phase::Leading { until, predecessor };
            }
            Phase::Stopping { .. } | Phase::Over(_) => {}
        }
    }

    fn failed(&mut self, purpose: Purpose, error: RequestError, may_be_applied: bool, now: Instant) {
        self.last_error = Some(error);
        self.may_hold |= may_be_applied && purpose == Purpose::Acquire;
        if purpose != Purpose::Read && self.reads < MAX_READS {
            self.step = Step::Due(Purpose::Read);
            return;
        }
        let retry_period = self.options.retry_period;
        self.step = Step::Waiting(match self.phase {
            Phase::Leading { .. } => now.max(self.attempt + retry_period),
            Phase::Stopping { .. } => now + retry_period / SPACING,
            Phase::Standby | Phase::Over(_) => now + self.jittered(),
        });
    }

    fn jittered(&mut self) -> Duration {
        self.options.retry_period.mul_f64(1.0 + JITTER_FACTOR * self.random.random_range(0.0..1.0))
    }
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
