//! Tests of the content of writes, and of the version of the last one.

use std::time::{Duration, Instant};

use super::*;
use crate::Observation::{self, Foreign, InFlight, Overtaken, Own};
use crate::{PendingWrite, Verb};

fn key(name: &str) -> &'static ObjectKey {
    Box::leak(Box::new(ObjectKey::new("n", name)))
}

fn version(number: u64) -> ResourceVersion {
    ResourceVersion(number)
}

fn content(text: &'static str) -> Content {
    Content { fields: text.into(), ..Content::default() }
}

#[expect(clippy::disallowed_methods, reason = "tests of the ledger need no paused clock")]
fn now() -> Instant {
    Instant::now()
}

/// A ledger with the tracker of one controller.
struct Fixture {
    ledger: Arc<WriteLedger>,
    tracker: WriteTracker,
}

impl Fixture {
    fn new() -> Self {
        let ledger = Arc::<WriteLedger>::default();
        Self { tracker: ledger.tracker(), ledger }
    }

    /// Sends the content `x` as an update of version 1.
    fn send(&self, name: &str) -> PendingWrite<'_> {
        let mut write = self.tracker.write(key("web"), key(name), Verb::Update(version(1)), version(1));
        write.begin(now(), Some((content("x"), Arc::new(7u8))), ());
        write
    }

    fn begin_at(&self, verb: Verb, now: Instant) -> PendingWrite<'_> {
        let mut write = self.tracker.write(key("web"), key("a"), verb, version(1));
        write.begin(now, None, ());
        write
    }

    fn begin(&self) -> PendingWrite<'_> {
        self.begin_at(Verb::Create, now())
    }

    /// Returns `unknown`, `same` or `different`.
    fn echo(&self, number: u64, text: &str) -> &'static str {
        match self.ledger.echo(key("a"), version(number), &StringMap::default(), text.as_bytes()) {
            Echo::Unknown => "unknown",
            Echo::Same(view) => {
                assert_eq!(*view.unwrap().downcast::<u8>().unwrap(), 7);
                "same"
            }
            Echo::Different => "different",
        }
    }

    fn observe(&self, number: u64) -> Observation {
        self.tracker.observe_applied(Some(key("web")), key("a"), &"uid".into(), version(number))
    }

    fn last_version(&self) -> Option<u64> {
        self.ledger.last_version().map(|version| version.0)
    }
}

#[test]
fn an_echo_with_the_content_that_was_sent_gets_the_object_that_was_sent() {
    let fixture = Fixture::new();
    let write = fixture.send("a");
    let expects = |name, number| fixture.ledger.expects(key(name), version(number));
    assert!(expects("a", 5) && !expects("b", 5));
    assert!(!write.answered(version(5), version(1)));
    assert!(expects("a", 5) && !expects("a", 6));
    // The event of an earlier write, with any content.
    assert_eq!(fixture.echo(4, "x"), "unknown");
    assert_eq!(fixture.echo(4, "y"), "unknown");
    assert_eq!(fixture.echo(5, "x"), "same");
    assert_eq!(fixture.observe(5), Own);
    assert!(fixture.ledger.is_empty());
}

#[test]
fn another_content_under_the_version_of_the_write_is_foreign() {
    let fixture = Fixture::new();
    assert!(!fixture.send("a").answered(version(5), version(1)));
    assert_eq!(fixture.echo(5, "y"), "different");
    assert_eq!(fixture.observe(4), Own);
    assert_eq!(fixture.observe(5), Foreign);
    assert!(fixture.ledger.is_empty());
}

#[test]
fn an_echo_may_come_before_the_answer() {
    let check = |text: &str, seen: u64, changed: bool, is_over: bool| {
        let fixture = Fixture::new();
        let write = fixture.send("a");
        assert_eq!(fixture.echo(seen, text), if text == "x" { "same" } else { "different" });
        assert_eq!(fixture.observe(seen), InFlight);
        let got = write.answered(version(5), version(seen));
        assert_eq!((got, fixture.ledger.is_empty()), (changed, is_over), "{text} {seen}");
    };
    check("x", 5, false, true);
    check("y", 5, true, true);
    // A foreign write before ours; the echo is still to come.
    check("y", 4, false, false);
    // A foreign write after ours.
    check("x", 6, true, true);
    check("y", 6, true, true);
}

#[test]
fn an_echo_that_is_compared_before_the_answer_may_be_observed_after_it() {
    for (text, observed) in [("x", Own), ("y", Foreign)] {
        let fixture = Fixture::new();
        let write = fixture.send("a");
        fixture.echo(5, text);
        assert!(!write.answered(version(5), version(1)));
        assert_eq!(fixture.observe(5), observed);
    }
}

#[test]
fn the_content_of_a_write_that_is_over_is_not_expected() {
    let fixture = Fixture::new();
    fixture.send("a").refused();
    assert_eq!(fixture.echo(5, "x"), "unknown");
    drop(fixture.send("a"));
    assert_eq!(fixture.echo(5, "x"), "unknown");
    assert!(!fixture.send("a").answered(version(5), version(1)));
    assert_eq!(fixture.echo(6, "x"), "unknown");
    assert_eq!(fixture.observe(6), Overtaken { owner: ObjectKey::new("n", "web") });
    assert!(fixture.ledger.is_empty());
}

#[test]
fn of_many_outstanding_objects_some_are_held_and_the_others_leave_a_digest() {
    let fixture = Fixture::new();
    let send = |number: usize| fixture.send(&number.to_string()).answered(version(5), version(1));
    for number in 0..MOST_OBJECTS + 10 {
        send(number);
    }
    let echo = |number: usize, labels: &[(&str, &str)], text: &str| {
        let labels = labels.iter().copied().collect();
        match fixture.ledger.echo(key(&number.to_string()), version(5), &labels, text.as_bytes()) {
            Echo::Same(Some(_)) => "held",
            Echo::Same(None) => "same",
            Echo::Different => "different",
            Echo::Unknown => "unknown",
        }
    };
    assert_eq!(echo(MOST_OBJECTS, &[], "x"), "same");
    assert_eq!(echo(MOST_OBJECTS + 1, &[], "y"), "different");
    assert_eq!(echo(MOST_OBJECTS + 2, &[("a", "b")], "x"), "different");
    assert_eq!(echo(MOST_OBJECTS - 1, &[], "x"), "held");
    assert_eq!(echo(0, &[], "x"), "held");
    send(MOST_OBJECTS + 20);
    assert_eq!(echo(MOST_OBJECTS + 20, &[], "x"), "held", "in place of one that has been seen");
}

#[test]
fn the_newest_version_of_concurrent_writes_counts() {
    let fixture = Fixture::new();
    assert_eq!(fixture.last_version(), None, "nothing was written");
    let (first, second) = (fixture.begin(), fixture.begin());
    second.answered(version(12), version(1));
    assert_eq!(fixture.last_version(), None, "one is in flight");
    first.answered(version(11), version(1));
    assert_eq!(fixture.last_version(), Some(12));
    fixture.begin().refused();
    assert_eq!(fixture.last_version(), Some(12), "a refused write changes nothing");
}

#[test]
fn a_delete_hides_the_version_until_a_later_write_is_answered() {
    let fixture = Fixture::new();
    fixture.begin().answered(version(3), version(1));
    let before = fixture.begin();
    fixture.begin_at(Verb::Delete, now()).deleted(&"uid".into());
    before.answered(version(9), version(1));
    assert_eq!(fixture.last_version(), None, "that write may be older than the delete");
    fixture.begin().answered(version(10), version(1));
    assert_eq!(fixture.last_version(), Some(10));
}

#[test]
fn an_update_that_changed_nothing_is_no_later_write() {
    let fixture = Fixture::new();
    fixture.begin().answered(version(90), version(1));
    fixture.begin_at(Verb::Delete, now()).deleted(&"uid".into());
    fixture.begin_at(Verb::Update(version(50)), now()).answered(version(50), version(95));
    assert_eq!(fixture.last_version(), None, "the delete is the last change");
}

#[test]
fn a_lost_write_hides_the_version_until_it_cannot_happen_any_more() {
    let fixture = Fixture::new();
    let start = now();
    let at = |seconds| start + Duration::from_secs(seconds);
    drop(fixture.begin_at(Verb::Create, at(0)));
    fixture.begin_at(Verb::Delete, at(1)).deleted(&"uid".into());
    let early = fixture.begin_at(Verb::Create, at(209));
    fixture.begin_at(Verb::Create, at(2)).answered(version(3), version(1));
    early.answered(version(4), version(1));
    assert_eq!(fixture.last_version(), None, "no write has begun since");
    fixture.begin_at(Verb::Create, at(210)).answered(version(5), version(1));
    assert_eq!(fixture.last_version(), Some(5));
    drop(fixture.begin_at(Verb::Delete, at(211)));
    assert_eq!(fixture.last_version(), None, "nobody knows if the object was deleted");
}

#[test]
fn writes_that_another_ledger_abandoned_hide_the_version_like_lost_ones() {
    let fixture = Fixture::new();
    let start = now();
    let at = |seconds| start + Duration::from_secs(seconds);
    assert!(!fixture.ledger.may_still_happen(at(0)));
    fixture.ledger.writes_abandoned(at(0));
    assert!(fixture.ledger.may_still_happen(at(209)) && !fixture.ledger.may_still_happen(at(210)));
    fixture.begin_at(Verb::Create, at(1)).answered(version(3), version(1));
    assert_eq!(fixture.last_version(), None);
    fixture.begin_at(Verb::Create, at(210)).answered(version(4), version(1));
    assert_eq!(fixture.last_version(), Some(4));
}

#[test]
fn what_another_process_wrote_is_handed_on() {
    let fixture = Fixture::new();
    fixture.ledger.continue_from(Some(version(8)));
    assert_eq!(fixture.last_version(), Some(8));
    fixture.ledger.continue_from(None);
    assert_eq!(fixture.last_version(), None);
    fixture.begin().answered(version(5), version(1));
    assert_eq!(fixture.last_version(), Some(5), "the server does not have version 8");
    let before = fixture.begin();
    fixture.ledger.continue_from(None);
    before.answered(version(9), version(1));
    assert_eq!(fixture.last_version(), None, "the other process may have written later");
}
