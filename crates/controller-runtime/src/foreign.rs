//! Delays the syncs that only a change of the outputs by another client has started.
//!
//! Two clients that correct one another would otherwise write as fast as they can. A controller
//! answers a change with a sync after a second, but a first deletion without this delay, as there
//! may be no output left. Each time that a corrected change comes back, the delay doubles, up to
//! five minutes. If another client writes something else each time, there are soon too many changes
//! to tell apart: the delay of the answers to all others then doubles too. A sync with any other
//! cause has no such delay.

use std::time::Duration;

use kube_endpoint_core_model::Backoff;
use tokio::time::Instant;

/// The delays of the answers to a change that comes back.
const ANSWERS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(300));
/// The delays before a controller repeats an update that the server undoes: up to nine hours.
const REPETITIONS: Backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(1 << 15));
/// A change that comes back after at least this time counts as new.
pub(crate) const CALM: Duration = Duration::from_secs(600);
/// The number of returns at which the controller reports a change.
const REPORTED_RETURN: u32 = 2;
/// The most changes to remember for a key. The last of them stands for all others, so that the
/// delay also grows against a client that writes something else each time.
const MOST_CHANGES: usize = 16;

/// The changes of a key's outputs that other clients made.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct ForeignChanges(Vec<ForeignChange>);

#[derive(Debug, PartialEq)]
struct ForeignChange {
    /// The hash of the change; `None` stands for all changes that are not told apart.
    content: Option<u64>,
    /// How often the change came back after a correction.
    returns: u32,
    seen_at: Instant,
    /// The time at which a sync began to correct the change, if this was after `seen_at`.
    answered_at: Option<Instant>,
}

/// Updates in a row that the server accepted without a change of the object: a webhook undoes them,
/// or the server does not know a field. An unknown field stays unknown, so the delay grows further
/// than against another client.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Undone {
    /// How many such updates in a row [`Self::again`] has counted, including the current sync.
    count: u8,
    /// How many it had counted before the current sync.
    before: u8,
    /// The time of the next repetition.
    due: Option<Instant>,
}

impl Undone {
    /// Begins a sync.
    pub(crate) fn begin(&mut self) {
        self.before = std::mem::take(&mut self.count);
    }

    /// Returns the time until the controller repeats an update that the server undid in this sync.
    pub(crate) fn delay(&self, now: Instant) -> Option<Duration> {
        self.due.filter(|_| self.count > 0).map(|due| due.saturating_duration_since(now))
    }

    /// Ends a sync.
    pub(crate) fn end(&mut self) {
        self.before = 0;
        if self.count == 0 {
            self.due = None;
        }
    }

    /// Records that the server undid an update, and returns the delay of the next sync. A sync with
    /// another cause before the repetition was due, and a second update of the same sync, leave the
    /// delay as it is.
    pub(crate) fn again(&mut self, now: Instant) -> Duration {
        let is_counted = self.count > 0 || self.before > 0;
        if let Some(due) = self.due.filter(|due| is_counted && now < *due) {
            self.count = self.count.max(self.before);
            return due - now;
        }
        self.count = self.before.saturating_add(1);
        let delay = REPETITIONS.delay(self.before.into());
        self.due = Some(now + delay);
        delay
    }
}

/// The answer to a change by another client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) delay: Duration,
    /// True if the change has not come back yet.
    pub(crate) is_new: bool,
    /// True if the change came back after a correction.
    pub(crate) came_back: bool,
    /// True if the caller must report the change: once, at return [`REPORTED_RETURN`].
    pub(crate) report: bool,
}

impl ForeignChanges {
    /// Records a change and returns the answer to it.
    pub(crate) fn seen(&mut self, content: u64, now: Instant) -> Answer {
        self.0.retain(|change| change.is_recent(now));
        let known = |content| self.0.iter().position(|change| change.content == content);
        let is_told_apart = self.0.len() + 1 < MOST_CHANGES;
        let content = Some(content);
        let at = known(content).or_else(|| known(None).filter(|_| !is_told_apart)).unwrap_or_else(|| {
            let content = content.filter(|_| is_told_apart);
            self.0.push(ForeignChange { content, returns: 0, seen_at: now, answered_at: None });
            self.0.len() - 1
        });
        let change = &mut self.0[at];
        let came_back = change.answered_at.take().is_some();
        change.returns = change.returns.saturating_add(u32::from(came_back));
        change.seen_at = now;
        Answer {
            delay: change.delay(),
            is_new: change.returns == 0,
            came_back,
            report: came_back && change.returns == REPORTED_RETURN,
        }
    }

    /// Returns the longest delay of the answers to changes that came back; `None` without such
    /// changes.
    pub(crate) fn longest_delay(&self, now: Instant) -> Option<Duration> {
        let comes_back = self.0.iter().filter(|change| change.returns > 0 && change.is_recent(now));
        comes_back.map(ForeignChange::delay).max()
    }

    /// Records that a sync is about to write outputs, which corrects all changes.
    pub(crate) fn answered(&mut self, now: Instant) {
        self.0.retain(|change| change.is_recent(now));
        for change in &mut self.0 {
            change.answered_at = Some(now);
        }
    }

    /// Forgets the changes that the sync that began at `began` saw and did not correct.
    pub(crate) fn synced(&mut self, began: Instant) {
        self.0.retain(|change| change.answered_at.is_some() || change.seen_at >= began);
    }

    /// Returns the number of remembered changes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl ForeignChange {
    /// Returns the delay of the answer to the change.
    fn delay(&self) -> Duration {
        ANSWERS.delay(self.returns)
    }

    fn is_recent(&self, now: Instant) -> bool {
        let last = self.answered_at.map_or(self.seen_at, |answered_at| answered_at.max(self.seen_at));
        now.saturating_duration_since(last) < CALM
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_delay_doubles_up_to_five_minutes_while_the_change_comes_back() {
        let mut changes = ForeignChanges::default();
        let mut now = Instant::now();
        let mut delays = Vec::new();
        let mut reports = 0;
        for _ in 0..12 {
            let answer = changes.seen(7, now);
            assert_eq!(changes.longest_delay(now), answer.came_back.then_some(answer.delay));
            delays.push(answer.delay.as_secs());
            reports += usize::from(answer.report);
            now += answer.delay;
            changes.answered(now);
            changes.synced(now);
        }
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]);
        assert_eq!(reports, 1);
        assert_eq!(changes.longest_delay(now + secs(599)), Some(secs(300)));
        assert_eq!(changes.longest_delay(now + secs(600)), None, "it has stayed away");
        assert_eq!(changes.seen(8, now).delay, secs(1), "another change");
        assert_eq!(changes.seen(7, now + secs(600)).delay, secs(1), "after ten minutes without it");
    }

    #[test]
    fn only_repetitions_that_were_due_lengthen_the_delay() {
        let mut undone = Undone::default();
        let mut now = Instant::now();
        let mut sync = |seconds: u64, is_undone: bool| {
            now += secs(seconds);
            undone.begin();
            let delays =
                [undone_again(&mut undone, now, is_undone), undone_again(&mut undone, now, is_undone)];
            undone.end();
            assert_eq!(delays[0], delays[1], "a second update of the same sync");
            delays[0]
        };
        assert_eq!(sync(0, true), Some(1));
        assert_eq!(sync(1, true), Some(2));
        assert_eq!(sync(2, true), Some(4));
        assert_eq!(sync(1, true), Some(3), "something else has caused this sync");
        assert_eq!(sync(1, true), Some(2));
        assert_eq!(sync(2, true), Some(8));
        assert_eq!(sync(1, false), None);
        assert_eq!(sync(1, true), Some(1), "the update before it stayed");
    }

    fn undone_again(undone: &mut Undone, now: Instant, is_undone: bool) -> Option<u64> {
        is_undone.then(|| undone.again(now).as_secs())
    }

    #[test]
    fn a_change_that_is_seen_twice_before_an_answer_has_not_come_back() {
        let mut changes = ForeignChanges::default();
        let now = Instant::now();
        changes.seen(7, now);
        let again = changes.seen(7, now + secs(1));
        assert_eq!(again, Answer { delay: secs(1), is_new: true, came_back: false, report: false });
    }

    #[test]
    fn a_change_that_a_sync_agrees_with_is_forgotten() {
        let mut changes = ForeignChanges::default();
        let now = Instant::now();
        changes.seen(7, now);
        changes.synced(now + secs(1));
        assert_eq!(changes, ForeignChanges::default());
        changes.seen(7, now + secs(2));
        changes.synced(now + secs(1));
        assert_eq!(changes.len(), 1, "the sync had begun before it");
    }

    #[test]
    fn a_client_that_writes_something_else_each_time_takes_no_memory_and_is_answered_ever_more_slowly() {
        let mut changes = ForeignChanges::default();
        let mut now = Instant::now();
        let mut delays = Vec::new();
        let mut reports = 0;
        for content in 0..1000 {
            let answer = changes.seen(content, now);
            delays.push(answer.delay.as_secs());
            reports += usize::from(answer.report);
            now += answer.delay;
            changes.answered(now);
            changes.synced(now);
        }
        assert_eq!(changes.len(), MOST_CHANGES);
        assert_eq!(delays[..MOST_CHANGES], [1; MOST_CHANGES]);
        assert_eq!(delays[MOST_CHANGES..][..9], [2, 4, 8, 16, 32, 64, 128, 256, 300]);
        assert_eq!(reports, 1);
        assert_eq!(changes.seen(7, now).delay, secs(2), "one that is told apart");
    }

    #[test]
    fn many_changes_at_once_have_not_come_back() {
        let mut changes = ForeignChanges::default();
        let now = Instant::now();
        for content in 0..1000 {
            assert_eq!(changes.seen(content, now).delay, secs(1));
        }
        changes.answered(now);
        changes.synced(now);
        // A client changes a thousand slices once more.
        for content in 0..1000 {
            assert_eq!(changes.seen(1000 + content, now + secs(1)).delay, secs(2));
        }
        assert_eq!(changes.seen(2000, now + CALM + secs(1)).delay, secs(1), "they have stayed away");
    }
}
