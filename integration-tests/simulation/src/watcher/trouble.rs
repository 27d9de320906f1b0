//! Keeps the troubles that exempt processes from rules for a time: faults, restores of the server,
//! overlapping writers. Each exemption ends at a known time.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::RequestInfo;

use super::positions;
use crate::history::{Fault, Kind, Selection, Verb};
use crate::objects::namespace_name;

/// How long after the server was set back, or after the faults that hid this, rules may be broken
/// that hold only for one order of versions: 100 s until it is noticed, and a cold start.
const CALM: Duration = Duration::from_secs(100 + 60);
/// How long after a restore a process may notice it by an answer to a write.
const NOTICED: Duration = Duration::from_secs(60 * 60);
/// Controllers start again because the storage went back once in this time at most.
const START_PERIOD: Duration = Duration::from_secs(600);
/// The same, after lists showed an older state: watches have brought the caches up to date.
const AGED: Duration = Duration::from_secs(2 * 60);
/// The longest delay of a request by a fault.
const LONGEST_DELAY: Duration = Duration::from_secs(60);
/// How long after the last trouble it may still be the cause of requests.
const SETTLING: Duration = Duration::from_secs(60);
/// The same time after managers give up silent connections: they retry keys whose retries have all
/// failed every five minutes.
const SLOW_SETTLING: Duration = Duration::from_secs(9 * 60);

/// Faults, restores and overlapping writers of a run.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// The time within which managers give up a silent connection.
    silence: Duration,
    /// The active faults, and those that may still have effects, with the time of their end.
    faults: Vec<(Fault, Option<Duration>)>,
    /// The time of the last end of a fault, or of the last action on a process or the storage.
    last: Duration,
    /// The last time at which trouble kept controllers from removing endpoints.
    hindered: Duration,
    /// The last time at which writes of two processes may have overlapped, or somebody restored the
    /// server.
    disturbed: Option<Duration>,
    /// The time of the last restore of the server, or of the end of the last fault that hid it,
    /// with its silent connections.
    set_back: Option<Duration>,
    /// When a process last started again because the storage went back.
    started_again: Option<Duration>,
    /// When a server last stopped answering from another storage than the others.
    agreed: Option<Duration>,
    /// True if the server was set back while faults were active that may keep processes from
    /// noticing.
    is_restore_hidden: bool,
    /// The last time at which lists showed an older state.
    aged: Option<Duration>,
    /// The last time at which the server undid updates. Endpoints that a plan has moved to another
    /// slice may then be gone.
    undone: Option<Duration>,
    /// The last time at which requests were late, or a process was suspended.
    slow: Option<Duration>,
    /// The last time at which watches were silent.
    silent: Option<Duration>,
    /// True if there has been a fault with `Retry-After` since the last check of the requests.
    was_pausing: bool,
}

fn is_within(last: Option<Duration>, time: Duration, at: Duration) -> bool {
    last.is_some_and(|last| at < last + time)
}

impl Trouble {
    /// `silence` is the time within which managers give up a silent connection.
    pub(super) fn new(silence: Duration) -> Self {
        Self { silence, ..Self::default() }
    }

    pub(super) fn fault_begins(&mut self, at: Duration, fault: &Fault) {
        self.faults.retain(|(_, ended)| ended.is_none_or(|ended| at < ended + LONGEST_DELAY));
        self.faults.push((fault.clone(), None));
        self.was_pausing |= names_pause(fault);
    }

    pub(super) fn fault_ends(&mut self, at: Duration, fault: &Fault) {
        let ended = self.faults.iter_mut().find(|(active, ended)| ended.is_none() && active == fault);
        if let Some((_, ended)) = ended {
            *ended = Some(at);
        }
        self.last = at;
        if hinders(fault) {
            self.hindered = at;
        }
        if matches!(fault, Fault::OtherStorage { .. }) {
            self.agreed = Some(at);
        }
        if ages(fault) {
            self.aged = Some(at);
        }
        if undoes(fault) {
            self.undone = Some(at);
        }
        if slows(fault) {
            self.slow = Some(at);
        }
        if silences(fault) {
            self.silent = Some(at);
        }
        if self.is_restore_hidden {
            // A request from before the end hangs on.
            let hangs = if silences(fault) { self.silence } else { Duration::ZERO };
            self.set_back = self.set_back.max(Some(at + hangs));
            self.defer_start();
            let is_hidden = self.active().any(hides);
            self.is_restore_hidden = is_hidden;
        }
    }

    /// Notes an action on a process or the storage.
    pub(super) fn happens(&mut self, at: Duration) {
        self.last = at;
    }

    /// Notes trouble that may keep controllers from removing endpoints.
    pub(super) fn hinder(&mut self, at: Duration) {
        self.hindered = at;
    }

    /// Notes a suspension of processes that ends now.
    pub(super) fn suspended(&mut self, at: Duration) {
        self.slow = Some(at);
    }

    /// Notes that the writes of two processes may overlap now.
    pub(super) fn disturb(&mut self, at: Duration) {
        (self.last, self.disturbed) = (at, Some(at));
    }

    /// Notes a restore of the server.
    pub(super) fn restored(&mut self, at: Duration) {
        // An earlier request over a silent connection hangs on.
        self.set_back = self.silent.map(|silent| silent + self.silence).max(Some(at));
        self.defer_start();
        let is_hidden = self.active().any(hides);
        self.is_restore_hidden = is_hidden;
        self.hinder(at);
    }

    /// A process that has started again within the period does so again at its end.
    fn defer_start(&mut self) {
        let next = self.started_again.map(|started| started + START_PERIOD);
        self.set_back = self.set_back.max(next.filter(|next| self.set_back.is_some_and(|at| at < *next)));
    }

    /// The controllers of a process start again. Fails if nothing may look as if the storage went
    /// back.
    pub(super) fn starts_again(&mut self, at: Duration) -> Result<(), String> {
        self.started_again = Some(at);
        let late = START_PERIOD + CALM;
        let has_cause = self.is_restore_hidden
            || is_within(self.set_back, NOTICED, at)
            || self.has_other_storage()
            || self.active().any(ages)
            || is_within(self.agreed, late, at)
            || is_within(self.aged, late, at);
        if has_cause { Ok(()) } else { Err("nothing was restored".to_owned()) }
    }

    /// Writes do not overlap any more, and all those that did have been made up for.
    pub(super) fn settle(&mut self, at: Duration) {
        self.disturbed.take_if(|disturbed| at >= *disturbed + positions::LONGEST_PLAN);
    }

    fn active(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter().filter(|(_, ended)| ended.is_none()).map(|(fault, _)| fault)
    }

    /// Returns true if faults are active.
    pub(super) fn is_active(&self) -> bool {
        self.active().next().is_some()
    }

    /// Returns true while a server answers from another storage than the others.
    pub(super) fn has_other_storage(&self) -> bool {
        self.active().any(|fault| matches!(fault, Fault::OtherStorage { .. }))
    }

    /// Returns true if nothing has gone wrong since then.
    pub(super) fn is_over_since(&self, time: Duration) -> bool {
        !self.is_active() && self.last <= time
    }

    /// Returns true if nothing has gone wrong since then but requests that are refused all the
    /// time: rights are missing, or a policy or a quota forbids them.
    pub(super) fn only_refuses_since(&self, time: Duration) -> bool {
        let forbids = |fault: &Fault| matches!(fault, Fault::Refused { status: 403 | 422, server: None, .. });
        self.is_active() && self.active().all(forbids) && self.last <= time
    }

    /// Returns true if there has been no trouble, and the Lease has not changed hands, for long
    /// enough that requests have other causes.
    pub(super) fn is_settled(&self, at: Duration, leads_since: Duration) -> bool {
        !self.is_active()
            && at >= self.last.max(leads_since) + SETTLING
            && self.disturbed.is_none()
            && !self.was_restored(at)
            && !is_within(self.silent, self.silence + SLOW_SETTLING, at)
    }

    /// Returns true if no trouble has kept controllers from removing endpoints since then.
    pub(super) fn is_unhindered_since(&self, time: Duration) -> bool {
        !self.active().any(hinders) && self.hindered <= time
    }

    /// Returns true if the versions that processes read may be those of another history.
    pub(super) fn is_set_back(&self, at: Duration) -> bool {
        self.active().any(ages) || is_within(self.aged, AGED, at) || self.was_restored(at)
    }

    /// Returns true if versions may have started over, and processes may not know.
    pub(super) fn was_restored(&self, at: Duration) -> bool {
        self.is_restore_hidden || is_within(self.set_back, CALM, at)
    }

    /// Returns true if writes of two processes may have overlapped.
    pub(super) fn is_overlapping(&self) -> bool {
        self.disturbed.is_some()
    }

    /// Returns true if the writes of processes may contradict the state that they read: they
    /// overlapped, or read another history.
    pub(super) fn is_disturbed(&self, at: Duration) -> bool {
        self.is_overlapping() || self.is_set_back(at)
    }

    /// Returns true if the server may have undone updates of a plan.
    pub(super) fn is_undone(&self, at: Duration) -> bool {
        self.active().any(undoes) || is_within(self.undone, positions::LONGEST_PLAN, at)
    }

    /// Returns the longest time since a process read the inputs of a write of now.
    pub(super) fn longest_plan(&self, at: Duration) -> Duration {
        let is_slow = self.active().any(slows) || is_within(self.slow, positions::LONGEST_PLAN, at);
        if is_slow { positions::LONGEST_PLAN } else { positions::USUAL_PLAN }
    }

    /// Returns true if a fault explains this status of an answer.
    pub(super) fn explains(&self, at: Duration, request: &RequestInfo, status: u16) -> bool {
        let has_effect = |ended: Option<Duration>| ended.is_none_or(|ended| at < ended + LONGEST_DELAY);
        self.faults.iter().any(|(fault, ended)| has_effect(*ended) && refuses(fault, request, status))
    }

    /// Returns true if answers have named the pause before a retry since the last call.
    pub(super) fn take_pausing(&mut self) -> bool {
        let is_pausing = self.active().any(names_pause);
        std::mem::replace(&mut self.was_pausing, is_pausing)
    }
}

/// Returns true if a fault may keep controllers from removing endpoints. A refused create must not.
fn hinders(fault: &Fault) -> bool {
    !matches!(
        fault,
        Fault::Refused {
            verb: Some(Verb::Create),
            kind: Some(Kind::EndpointSlices | Kind::Endpoints),
            status: 400..429,
            ..
        }
    )
}

/// Returns true if a fault may keep processes from reading, and so from noticing a restore of the
/// server.
fn hides(fault: &Fault) -> bool {
    let reads =
        |verb: Option<Verb>| verb.is_none_or(|verb| matches!(verb, Verb::Get | Verb::List | Verb::Watch));
    match *fault {
        Fault::Refused { verb, .. }
        | Fault::AnswersLost { verb, .. }
        | Fault::RequestsLost { verb, .. }
        | Fault::RequestsLate { verb, .. }
        | Fault::AnswersLate { verb, .. } => reads(verb),
        Fault::UpdatesUndone { .. } | Fault::ForeignWriter { .. } => false,
        _ => true,
    }
}

/// Returns true if processes read older states.
fn ages(fault: &Fault) -> bool {
    matches!(fault, Fault::OlderLists { .. })
}

/// Returns true if the server accepts updates and undoes them.
fn undoes(fault: &Fault) -> bool {
    matches!(fault, Fault::UpdatesUndone { .. })
}

/// Returns true if a plan may be under way for longer.
fn slows(fault: &Fault) -> bool {
    matches!(fault, Fault::HalfOpen { .. } | Fault::RequestsLate { .. } | Fault::AnswersLate { .. })
}

/// Returns true if watches stay open and send nothing.
fn silences(fault: &Fault) -> bool {
    matches!(fault, Fault::HalfOpen { .. } | Fault::WatchesStall { .. })
}

/// Returns true if answers name the pause before a retry.
fn names_pause(fault: &Fault) -> bool {
    matches!(fault, Fault::Refused { retry_after: Some(_), .. })
}

/// Returns true if a fault answers a request with a status.
fn refuses(fault: &Fault, request: &RequestInfo, status: u16) -> bool {
    let is_of = |by| Selection { by, ..Selection::default() }.matches(request);
    let is_streamed = request.parameter("sendInitialEvents").is_some();
    match *fault {
        Fault::Refused { verb, kind, by, status: refused, .. } => {
            status == refused && Selection { verb, kind, by, ..Selection::default() }.matches(request)
        }
        Fault::Forbidden { kind, by, namespace } => {
            status == 403
                && Selection { kind, by, ..Selection::default() }.matches(request)
                && request.namespace == namespace_name(namespace)
        }
        Fault::ContinueRefused { by, status: refused } => {
            let is_continued = request.parameter("continue").is_some();
            is_of(by) && (is_streamed && status == 400 || is_continued && status == refused)
        }
        Fault::OlderLists { by, .. } => is_of(by) && is_streamed && status == 400,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SILENCE: Duration = Duration::from_secs(30 * 60);
    const MINUTE: Duration = Duration::from_secs(60);

    fn half_open() -> Fault {
        Fault::HalfOpen { by: None, applied: false, server: None }
    }

    /// Seeds 2952 and 5616 showed this.
    #[test]
    fn a_restore_during_an_outage_is_known_when_the_outage_and_its_silent_connections_have_ended() {
        for (fault, hangs) in
            [(Fault::Unreachable { by: None, server: None }, Duration::ZERO), (half_open(), SILENCE)]
        {
            let mut trouble = Trouble::new(SILENCE);
            trouble.fault_begins(MINUTE, &fault);
            trouble.restored(MINUTE * 2);
            assert!(trouble.was_restored(MINUTE * 1000), "{fault}");
            trouble.fault_ends(MINUTE * 1001, &fault);
            let last = MINUTE * 1001 + hangs + CALM;
            assert!(trouble.was_restored(last - MINUTE) && !trouble.was_restored(last), "{fault}");
        }
        let refused = Fault::Refused {
            verb: Some(Verb::Create),
            kind: None,
            by: None,
            status: 500,
            retry_after: None,
            server: None,
        };
        for (fault, hangs) in [(refused, Duration::ZERO), (half_open(), SILENCE)] {
            let mut trouble = Trouble::new(SILENCE);
            trouble.fault_begins(Duration::ZERO, &fault);
            if hangs > Duration::ZERO {
                trouble.fault_ends(MINUTE, &fault);
            }
            trouble.restored(MINUTE);
            let last = MINUTE + hangs + CALM;
            assert!(
                trouble.was_restored(last - MINUTE) && !trouble.was_restored(last),
                "{fault} hides nothing"
            );
        }
    }

    /// Seed 10259 showed this.
    #[test]
    fn questions_are_counted_again_when_silent_connections_are_given_up() {
        for (fault, settled) in [
            (Fault::Unreachable { by: None, server: None }, SETTLING),
            (half_open(), SILENCE + SLOW_SETTLING),
        ] {
            let mut trouble = Trouble::new(SILENCE);
            trouble.fault_begins(MINUTE, &fault);
            assert!(!trouble.is_settled(MINUTE * 1000, Duration::ZERO), "{fault}");
            trouble.fault_ends(MINUTE * 1001, &fault);
            let first = MINUTE * 1001 + settled;
            assert!(!trouble.is_settled(first - Duration::from_secs(1), Duration::ZERO), "{fault}");
            assert!(trouble.is_settled(first, Duration::ZERO), "{fault}");
        }
    }
}
