//! Decides which failed keys to try, and when. It reads no clock.
//!
//! A failure is common if it may concern all writes of a verb. A key *waits* for a verb from such a
//! failure until its sync succeeds. Meanwhile its own retries go on, and become rare. So the rules
//! begin a *pass* over the waiting keys
//!
//! - 20 s after the last pass began, or 20 s after the first key began to wait;
//! - if a write of the verb has succeeded since then: 10 s after the last pass began, or at once
//!   before the first pass.
//!
//! A pass takes the keys in the order of their last failures. It begins with one key, the probe. A
//! key whose sync succeeds, or whose write gets an answer that is no common failure, adds a hundred
//! keys to the pass. Each further failure halves the number of keys that the pass may still take.
//! So during the outage a pass ends with its probe. Afterwards it reaches all keys within ten
//! seconds, in steps of a tenth of a second.
//!
//! A key may fail for a reason of its own, such as a webhook for its namespace: it fails while
//! writes of others succeed, or it gets an answer that is no common failure. A pass takes such keys
//! last. After eleven such answers in a row it takes the key no more; the key's own retries go on.
//! A refusal (400, 401, 403, 422) also counts as such an answer if another write of the controller
//! has succeeded with the verb since the key first failed. No pass takes a key before the end of a
//! `Retry-After` that the server answered to a write of the verb.

use std::collections::BTreeMap;
use std::time::Duration;

use kube_endpoint_api_writer::{FailedWrite, Operation, WriteError};
use kube_endpoint_core_model::ObjectKey;
use tokio::time::Instant;

use crate::Cause;
use crate::holds::LONGEST_PAUSE;

/// The time between two passes while nothing shows that the verb works.
const PROBE_PERIOD: Duration = Duration::from_secs(20);
/// The time between two passes if a write of the verb has succeeded.
const SHORTEST_PERIOD: Duration = Duration::from_secs(10);
/// The time between two steps of a pass.
const STEP: Duration = Duration::from_millis(100);
/// The number of steps of a pass without failures: ten seconds.
const STEPS: usize = 100;
/// The number of keys that each step may wake, however few keys wait.
const LEAST_PER_STEP: usize = 10;
/// The number of keys that a key adds to the pass if it no longer fails for a common reason.
const GROWTH: usize = 100;
/// The most keys that a pass may still take before further keys add to this.
const MOST_CREDIT: usize = 100_000;

/// After more failures in a row for reasons of its own, a key waits no longer.
const MOST_OWN: u32 = 10;

/// A key of one of the controllers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    /// The number of the controller.
    pub(super) member: usize,
    pub(super) key: ObjectKey,
}

/// The failed keys, and the state of each verb.
#[derive(Default)]
pub(super) struct State {
    keys: BTreeMap<Id, Failed>,
    verbs: [Verb; 3],
    /// Counts failures. A key's place is the count at its last failure.
    failures: u64,
}

/// A key that has failed for a common reason since its last successful sync.
struct Failed {
    /// The time of the first failure.
    since: Instant,
    /// The time of the last failure.
    at: Instant,
    /// The verbs of the common failures.
    waits_for: [bool; 3],
    /// True if the key most likely fails for a reason of its own.
    is_own: bool,
    /// The failures for reasons of its own since the last common one.
    own_in_a_row: u32,
    /// The key's place among those that wait. `None` after it was woken, during a pause of its own,
    /// and after more than [`MOST_OWN`] failures of its own.
    place: Option<u64>,
}

impl Failed {
    fn new(at: Instant) -> Self {
        Self { since: at, at, waits_for: [false; 3], is_own: false, own_in_a_row: 0, place: None }
    }
}

#[derive(Default)]
struct Verb {
    /// The keys that wait, by place. The second map has those that fail for a reason of their own.
    waiting: [BTreeMap<u64, Id>; 2],
    /// The time of the last sign that the verb works: a write that succeeded, or a key that no
    /// longer fails for a common reason.
    last_success: Option<Instant>,
    /// The time of the last write of each controller that succeeded.
    succeeded: BTreeMap<usize, Instant>,
    /// True if there was such a sign since the last pass began.
    works: bool,
    began: Option<Instant>,
    /// The time of the last try: the beginning of the last pass, or the failure of the first key
    /// that waits.
    since: Option<Instant>,
    /// The end of the longest pause that the server has asked for.
    not_before: Option<Instant>,
    /// The end of the pass, which takes the places before this one.
    until: u64,
    /// How many keys the pass may still take.
    credit: usize,
    per_step: usize,
    next_step: Option<Instant>,
}

fn index(operation: Operation) -> usize {
    match operation {
        Operation::Create => 0,
        Operation::Update => 1,
        Operation::Delete => 2,
    }
}

impl State {
    /// Records that a sync failed with these writes.
    pub(super) fn failed(&mut self, id: Id, writes: &[FailedWrite], now: Instant) {
        let known = self.remove(&id);
        let (since, before) = known.as_ref().map(|known| (known.since, known.at)).unzip();
        let (mut is_common, mut is_answered, mut is_refused) = ([false; 3], [false; 3], false);
        let mut is_paused = false;
        for FailedWrite { operation, error, .. } in writes {
            let at = index(*operation);
            let others_succeed =
                since.is_some_and(|since| self.verbs[at].succeeded.get(&id.member) > Some(&since));
            if matches!(error, WriteError::Refused { .. }) && error.is_common() && others_succeed {
                is_refused = true;
            } else {
                is_common[at] |= error.is_common();
            }
            is_answered[at] |= !error.is_common() && error.code().is_some();
            if let WriteError::Busy { retry_after: Some(asked), .. } = error {
                is_paused = true;
                let end = now + (*asked).min(LONGEST_PAUSE);
                self.verbs[at].not_before = self.verbs[at].not_before.max(Some(end));
            }
        }
        let Failed { mut waits_for, mut is_own, mut own_in_a_row, .. } =
            known.unwrap_or_else(|| Failed::new(now));
        let is_first_answer = own_in_a_row == 0;
        let mut works = [false; 3];
        if is_common != [false; 3] {
            own_in_a_row = 0;
        } else if is_refused || is_answered != [false; 3] {
            own_in_a_row = own_in_a_row.saturating_add(1);
            is_own = true;
        }
        for (at, verb) in self.verbs.iter_mut().enumerate() {
            if is_common[at] {
                verb.credit /= 2;
                is_own |= waits_for[at] && verb.last_success > before;
                waits_for[at] = true;
            } else if is_answered[at] && waits_for[at] {
                works[at] = is_first_answer;
                if !is_first_answer {
                    verb.credit /= 2;
                }
            }
        }
        let is_tried = own_in_a_row <= MOST_OWN;
        // A refused key stays in the map until it succeeds. Otherwise its next refusal would count
        // as common.
        if waits_for != [false; 3] && (is_tried || is_refused) {
            // The runtime syncs a paused key at the end of its pause.
            let place = (is_tried && !is_paused).then_some(self.failures);
            self.failures += 1;
            if let Some(place) = place {
                for verb in of_verbs(&mut self.verbs, waits_for) {
                    verb.insert(place, is_own, id.clone(), now);
                }
            }
            let since = since.unwrap_or(now);
            self.keys.insert(id, Failed { since, at: now, waits_for, is_own, own_in_a_row, place });
        }
        // This comes after the insert, which resets a verb for which no key waited.
        of_verbs(&mut self.verbs, works).for_each(|verb| verb.answered(now));
    }

    /// Records that a sync succeeded. Returns true if the key had failed for a common reason.
    pub(super) fn succeeded(&mut self, id: &Id, now: Instant) -> bool {
        let Some(Failed { waits_for, .. }) = self.remove(id) else { return false };
        of_verbs(&mut self.verbs, waits_for).for_each(|verb| verb.answered(now));
        true
    }

    /// Records that a write of a controller succeeded. Returns true if keys wait for the verb.
    pub(super) fn wrote(&mut self, member: usize, operation: Operation, now: Instant) -> bool {
        let verb = &mut self.verbs[index(operation)];
        verb.succeeded.insert(member, now);
        verb.wrote(now)
    }

    /// Returns the keys to wake now, and the time of the next call; `None` if no key waits.
    pub(super) fn step(&mut self, now: Instant) -> (Vec<(Id, Cause)>, Option<Instant>) {
        let mut woken = Vec::new();
        for at in 0..self.verbs.len() {
            if self.verbs[at].next_start().is_some_and(|start| start <= now) {
                self.verbs[at].start(self.failures, now);
                self.wake(at, 1, Cause::Probe, &mut woken);
            }
            let verb = &mut self.verbs[at];
            if verb.may_go_on() && verb.next_step().is_some_and(|next| next <= now) {
                verb.next_step = Some(now + STEP);
                let count = verb.per_step.min(verb.credit);
                self.wake(at, count, Cause::OutageEnded, &mut woken);
            }
        }
        let next = |verb: &Verb| if verb.may_go_on() { verb.next_step() } else { verb.next_start() };
        (woken, self.verbs.iter().filter_map(next).min())
    }

    /// Wakes up to `count` keys that wait for a verb, and removes them from all verbs.
    fn wake(&mut self, at: usize, count: usize, cause: Cause, woken: &mut Vec<(Id, Cause)>) {
        for _ in 0..count {
            let Some(id) = self.verbs[at].first().cloned() else { return };
            self.verbs[at].credit = self.verbs[at].credit.saturating_sub(1);
            if let Some(failed) = self.keys.get_mut(&id)
                && let Some(place) = failed.place.take()
            {
                for verb in of_verbs(&mut self.verbs, failed.waits_for) {
                    verb.waiting[usize::from(failed.is_own)].remove(&place);
                }
            }
            woken.push((id, cause));
        }
    }

    fn remove(&mut self, id: &Id) -> Option<Failed> {
        let failed = self.keys.remove(id)?;
        if let Some(place) = failed.place {
            for verb in of_verbs(&mut self.verbs, failed.waits_for) {
                verb.waiting[usize::from(failed.is_own)].remove(&place);
            }
        }
        Some(failed)
    }
}

/// Returns the selected verbs.
fn of_verbs(verbs: &mut [Verb; 3], selected: [bool; 3]) -> impl Iterator<Item = &mut Verb> {
    verbs.iter_mut().zip(selected).filter_map(|(verb, selected)| selected.then_some(verb))
}

impl Verb {
    fn len(&self) -> usize {
        self.waiting.iter().map(BTreeMap::len).sum()
    }

    fn insert(&mut self, place: u64, is_own: bool, id: Id, now: Instant) {
        if self.len() == 0 {
            (self.since, self.works, self.credit) = (Some(now), false, 0);
        }
        self.waiting[usize::from(is_own)].insert(place, id);
    }

    /// Returns the next key of the pass.
    fn first(&self) -> Option<&Id> {
        self.waiting.iter().find_map(|keys| keys.range(..self.until).next()).map(|(_, id)| id)
    }

    fn may_go_on(&self) -> bool {
        self.credit > 0 && self.first().is_some()
    }

    fn next_step(&self) -> Option<Instant> {
        self.next_step.max(self.not_before)
    }

    /// Returns the time of the next pass; `None` while the last one goes on or no key waits.
    fn next_start(&self) -> Option<Instant> {
        if self.len() == 0 || self.may_go_on() {
            return None;
        }
        let start = match self.began {
            Some(began) if self.works => began + SHORTEST_PERIOD,
            None if self.works => self.since?,
            _ => self.since? + PROBE_PERIOD,
        };
        Some(start).max(self.not_before)
    }

    fn start(&mut self, until: u64, now: Instant) {
        (self.began, self.since, self.next_step) = (Some(now), Some(now), Some(now));
        self.works = false;
        self.until = until;
        self.per_step = (self.len() / STEPS).max(LEAST_PER_STEP);
    }

    fn wrote(&mut self, now: Instant) -> bool {
        self.last_success = Some(now);
        self.works = self.len() > 0;
        self.works
    }

    /// Records that a key that waited no longer fails for a common reason.
    fn answered(&mut self, now: Instant) {
        self.wrote(now);
        self.credit = (self.credit + GROWTH).min(MOST_CREDIT);
    }
}

#[cfg(test)]
mod tests;
