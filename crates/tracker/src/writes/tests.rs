use std::time::Instant;

use super::*;
use Observation::{Foreign, InFlight, Overtaken, Own};

mod handles;
mod model;
mod updates;

fn at(version: u64) -> ResourceVersion {
    ResourceVersion(version)
}

/// Any time: only the order of times counts.
#[expect(clippy::disallowed_methods, reason = "tests of the ledger need no paused clock")]
fn now() -> Instant {
    Instant::now()
}

fn owner() -> ObjectKey {
    ObjectKey::new("n", "web")
}

fn slice(name: &str) -> ObjectKey {
    ObjectKey::new("n", name)
}

/// A tracker, with methods that fill in the owner and the uid.
struct Fixture(WriteTracker);

impl Fixture {
    fn new() -> Self {
        Self(WriteTracker::default())
    }

    /// Begins a write of an object when the cache has read up to `position`.
    fn begin_at(&self, name: &str, verb: Verb, position: u64) -> PendingWrite<'_> {
        let (owner, object) = (Box::leak(Box::new(owner())), Box::leak(Box::new(slice(name))));
        let mut write = self.0.write(owner, object, verb, at(position));
        write.begin(now(), None, ());
        write
    }

    fn begin(&self, name: &str, verb: Verb) -> PendingWrite<'_> {
        self.begin_at(name, verb, 0)
    }

    /// Updates an object.
    fn write(&self, name: &str, version: u64) -> bool {
        self.begin(name, Verb::Update(at(0))).answered(at(version), at(0))
    }

    fn delete(&self, name: &str) {
        self.begin(name, Verb::Delete).deleted(&format!("uid-{name}").into());
    }

    fn sees(&self, name: &str, version: u64) -> Observation {
        self.0.observe_applied(Some(&owner()), &slice(name), &format!("uid-{name}").into(), at(version))
    }

    fn sees_deleted(&self, name: &str, version: u64) -> Observation {
        self.0.observe_deleted(Some(&owner()), &slice(name), &format!("uid-{name}").into(), at(version))
    }

    fn stale(&self, position: u64, cached: &[&str]) -> bool {
        let uids: Vec<Text> = cached.iter().map(|name| format!("uid-{name}").into()).collect();
        self.0.is_stale(&owner(), at(position), &uids)
    }
}

#[test]
fn a_cache_is_stale_until_it_has_read_up_to_the_last_write() {
    let fixture = Fixture::new();
    assert!(!fixture.stale(0, &[]));
    fixture.write("a", 10);
    fixture.write("b", 12);
    assert!(fixture.stale(9, &[]));
    assert_eq!(fixture.sees("a", 10), Own);
    assert!(fixture.stale(11, &["a"]));
    assert_eq!(fixture.sees("b", 12), Own);
    assert!(!fixture.stale(12, &["a", "b"]));
    assert!(fixture.0.is_empty());
}

#[test]
fn a_bookmark_moves_the_cache_on() {
    let fixture = Fixture::new();
    fixture.write("a", 10);
    assert!(fixture.stale(9, &[]));
    assert!(!fixture.stale(10, &[]));
    // No event of the write itself came: it was made and deleted between two lists.
    assert!(!fixture.stale(20, &[]));
    assert_eq!(fixture.0.len(), (0, 1));
    fixture.0.take_missed();
    assert!(fixture.0.is_empty());
}

#[test]
fn an_own_echo_starts_no_sync_and_a_foreign_change_does() {
    let fixture = Fixture::new();
    fixture.write("a", 10);
    assert_eq!(fixture.sees("a", 8), Own, "an older state that comes late");
    assert_eq!(fixture.sees("a", 10), Own);
    assert_eq!(fixture.sees("a", 11), Foreign);
    assert_eq!(fixture.sees("b", 5), Foreign);
}

#[test]
fn a_foreign_change_that_hides_our_echo_names_the_owner() {
    let fixture = Fixture::new();
    fixture.write("a", 10);
    assert_eq!(fixture.sees("a", 15), Overtaken { owner: owner() });
    assert_eq!(fixture.sees("a", 16), Foreign);
}

#[test]
fn an_echo_before_the_answer_is_still_our_own() {
    let fixture = Fixture::new();
    let write = fixture.begin("a", Verb::Create);
    assert_eq!(fixture.sees("a", 10), InFlight);
    assert!(!write.answered(at(10), at(10)));
    assert!(!fixture.stale(10, &["a"]));
    assert_eq!(fixture.sees("a", 11), Foreign);
}

#[test]
fn a_foreign_change_before_the_answer_is_reported_with_the_answer() {
    let fixture = Fixture::new();
    let write = fixture.begin("a", Verb::Create);
    assert_eq!(fixture.sees("a", 10), InFlight);
    assert_eq!(fixture.sees("a", 11), InFlight);
    assert!(write.answered(at(10), at(11)));
    let write = fixture.begin("b", Verb::Update(at(5)));
    assert_eq!(fixture.sees_deleted("b", 13), InFlight);
    assert!(write.answered(at(12), at(13)));
    assert!(fixture.0.is_empty());
}

#[test]
fn the_deletion_of_an_earlier_object_of_the_name_does_not_end_the_wait_for_a_create() {
    let fixture = Fixture::new();
    fixture.begin("a", Verb::Create).answered(at(10), at(5));
    assert_eq!(fixture.sees_deleted("a", 7), Foreign);
    assert!(fixture.stale(7, &[]), "the cache does not show the new object");
    assert_eq!(fixture.sees("a", 10), Own);
    assert!(fixture.0.is_empty());

    let write = fixture.begin("a", Verb::Create);
    assert_eq!(fixture.sees_deleted("a", 17), InFlight);
    assert!(!write.answered(at(20), at(17)));
    assert!(fixture.stale(17, &[]), "the same, if the event comes before the answer");
    assert_eq!(fixture.sees_deleted("a", 21), Foreign);
    assert!(fixture.0.is_empty());
}

#[test]
fn a_cache_that_still_shows_a_deleted_object_is_stale() {
    let fixture = Fixture::new();
    fixture.delete("a");
    assert!(fixture.stale(50, &["a"]));
    assert_eq!(fixture.sees("a", 51), Own, "its deletion mark");
    assert_eq!(fixture.sees_deleted("a", 52), Own);
    assert!(!fixture.stale(52, &[]));
    assert!(fixture.0.is_empty());
}

#[test]
fn a_deletion_that_the_cache_never_shows_can_be_forgotten() {
    let fixture = Fixture::new();
    fixture.delete("a");
    fixture.write("b", 10);
    assert!(fixture.stale(50, &["a"]));
    fixture.0.forget_deleted(&owner());
    assert!(!fixture.stale(50, &["a"]));
    fixture.delete("a");
    fixture.0.forget_deleted(&owner());
    fixture.0.take_missed();
    assert!(fixture.0.is_empty());
    fixture.write("b", 60);
    fixture.0.forget_deleted(&owner());
    assert!(fixture.stale(50, &["b"]), "writes are still waited for");
}

#[test]
fn a_deletion_seen_before_the_answer_leaves_nothing() {
    let fixture = Fixture::new();
    let write = fixture.begin("a", Verb::Delete);
    assert_eq!(fixture.sees_deleted("a", 11), InFlight);
    assert!(!write.deleted(&"uid-a".into()));
    assert!(fixture.0.is_empty());
}

#[test]
fn another_object_under_the_name_that_was_seen_before_the_answer_is_reported() {
    let fixture = Fixture::new();
    for with_deletion in [true, false] {
        let write = fixture.begin("a", Verb::Delete);
        assert_eq!(fixture.sees("a", 10), InFlight, "a change of the object that is deleted");
        if with_deletion {
            assert_eq!(fixture.sees_deleted("a", 11), InFlight);
        }
        let new = fixture.0.observe_applied(Some(&owner()), &slice("a"), &"uid-new".into(), at(12));
        assert_eq!(new, InFlight);
        assert!(write.deleted(&"uid-a".into()), "with the event of the deletion: {with_deletion}");
        assert!(fixture.0.is_empty());
    }
}

#[test]
fn the_deletion_of_an_object_that_was_never_written_is_foreign() {
    let fixture = Fixture::new();
    assert_eq!(fixture.sees_deleted("a", 5), Foreign, "right after a restart or a take-over");
    fixture.write("b", 10);
    assert_eq!(fixture.sees("b", 10), Own);
    assert_eq!(fixture.sees_deleted("b", 12), Foreign);
}

#[test]
fn a_new_object_under_a_deleted_name_is_foreign() {
    let fixture = Fixture::new();
    fixture.delete("a");
    let seen = fixture.0.observe_applied(Some(&owner()), &slice("a"), &"other".into(), at(60));
    assert_eq!(seen, Foreign);
    assert!(!fixture.stale(60, &[]));
}

#[test]
fn the_deletion_of_an_object_that_was_gone_is_not_waited_for() {
    let fixture = Fixture::new();
    assert_eq!(fixture.sees_deleted("a", 5), Foreign);
    fixture.delete("a");
    assert!(!fixture.stale(10, &[]));
    assert!(fixture.0.is_empty());
}

#[test]
fn a_service_recreated_within_one_batch_leaves_nothing_behind() {
    let fixture = Fixture::new();
    fixture.write("old", 10);
    // The Service is recreated before any sync, and the garbage collector deletes the old slice.
    assert_eq!(fixture.sees("old", 10), Own);
    assert_eq!(fixture.sees_deleted("old", 12), Foreign);
    fixture.write("new", 20);
    assert_eq!(fixture.sees("new", 20), Own);
    assert!(!fixture.stale(20, &["new"]));
    assert!(fixture.0.is_empty());
}

#[test]
fn a_slice_handed_to_another_service_does_not_block_the_first() {
    let fixture = Fixture::new();
    fixture.write("a", 10);
    let other = ObjectKey::new("n", "other");
    let seen = fixture.0.observe_applied(Some(&other), &slice("a"), &"uid-a".into(), at(11));
    assert_eq!(seen, Overtaken { owner: owner() });
    assert!(!fixture.stale(11, &[]));
    assert!(fixture.0.is_empty());
}

#[test]
fn a_create_with_a_lost_answer_is_retried_under_its_name() {
    let fixture = Fixture::new();
    drop(fixture.begin("a", Verb::Create));
    assert_eq!(fixture.0.take_unresolved(&owner()).as_deref(), Some("a"));
    assert_eq!(fixture.0.take_unresolved(&owner()), None);
    assert!(fixture.0.is_empty());
    fixture.0.keep_unresolved(&owner(), &"a".into());
    assert_eq!(fixture.0.take_unresolved(&owner()).as_deref(), Some("a"));
}

#[test]
fn a_create_with_a_lost_answer_is_retried_until_a_plan_sees_the_object() {
    let fixture = Fixture::new();
    drop(fixture.begin("a", Verb::Create));
    // The plan whose create comes next may have been made before the event.
    assert_eq!(fixture.sees("a", 10), Foreign);
    assert_eq!(fixture.0.take_unresolved(&owner()).as_deref(), Some("a"));
    fixture.0.keep_unresolved(&owner(), &"a".into());
    fixture.0.settle(&owner(), |_| None);
    assert!(!fixture.0.is_empty());
    fixture.0.settle(&owner(), |object| (*object == slice("a")).then_some(at(10)));
    assert!(fixture.0.is_empty());
    let write = fixture.begin("b", Verb::Create);
    assert_eq!(fixture.sees("b", 11), InFlight);
    drop(write);
    assert_eq!(fixture.0.take_unresolved(&owner()), None);
    assert!(fixture.0.is_empty());
}

#[test]
fn a_forgotten_owner_leaves_nothing() {
    let fixture = Fixture::new();
    fixture.write("a", 10);
    fixture.delete("b");
    fixture.0.forget(&owner());
    assert!(fixture.0.is_empty());
}

#[test]
fn a_write_that_the_cache_has_shown_is_dropped_without_another_sync() {
    let fixture = Fixture::new();
    fixture.write("a", 10);
    fixture.write("b", 12);
    fixture.delete("c");
    assert_eq!(fixture.sees("a", 10), Own);
    assert_eq!(fixture.0.len(), (1, 2));
    assert_eq!(fixture.sees("b", 12), Own);
    assert!(fixture.stale(12, &["a", "b", "c"]), "the deletion has not come yet");
    assert_eq!(fixture.sees_deleted("c", 13), Own);
    assert!(fixture.0.is_empty());
}

#[test]
fn a_write_that_the_cache_shows_before_the_answer_leaves_nothing() {
    let fixture = Fixture::new();
    let write = fixture.begin("a", Verb::Update(at(5)));
    assert_eq!(fixture.sees("a", 10), InFlight);
    assert!(!write.answered(at(10), at(10)));
    assert!(fixture.0.is_empty());
}

#[test]
fn creates_that_a_list_does_not_show_are_reported() {
    let fixture = Fixture::new();
    let create = |name: &str, version: u64, position: u64| {
        fixture.begin(name, Verb::Create).answered(at(version), at(position))
    };
    assert!(!create("a", 10, 0));
    assert!(!create("b", 12, 0));
    fixture.write("c", 11);
    assert_eq!(fixture.0.unseen_creates(|_| true, at(9)), []);
    assert_eq!(fixture.0.unseen_creates(|_| true, at(10)), [owner()]);
    assert_eq!(fixture.sees("a", 10), Own);
    assert_eq!(
        fixture.0.unseen_creates(|_| true, at(11)),
        [],
        "one that is shown, and one that was there before"
    );
    assert!(!fixture.stale(20, &[]), "a sync sees that it is gone");
    assert_eq!(fixture.0.unseen_creates(|_| true, at(20)), []);
    assert!(create("d", 30, 31), "the list was there before the answer");
    let write = fixture.begin("e", Verb::Create);
    assert_eq!(fixture.sees("e", 40), InFlight);
    assert!(!write.answered(at(40), at(40)), "its echo was");
}

#[test]
fn a_write_that_is_not_shown_between_two_calls_is_overdue() {
    let fixture = Fixture::new();
    fixture.write("a", 10);
    fixture.delete("b");
    assert_eq!(fixture.0.overdue(), [], "it has just been answered");
    assert_eq!(fixture.0.overdue(), [owner()]);
    assert_eq!(fixture.sees("a", 10), Own);
    assert_eq!(fixture.0.overdue(), [owner()], "the delete is not shown");
    assert_eq!(fixture.sees_deleted("b", 13), Own);
    assert_eq!(fixture.0.overdue(), []);
    fixture.write("a", 12);
    fixture.0.overdue();
    fixture.write("a", 13);
    assert_eq!(fixture.0.overdue(), [], "it was written again");
    let _write = fixture.begin("c", Verb::Create);
    fixture.0.forget(&owner());
    fixture.0.overdue();
    assert_eq!(fixture.0.overdue(), [], "nothing has been answered");
}

#[test]
fn a_write_that_the_cache_has_read_past_is_missed() {
    let fixture = Fixture::new();
    fixture.write("seen", 10);
    fixture.sees("seen", 10);
    fixture.write("at-the-position", 20);
    fixture.write("missed", 15);
    fixture.delete("deleted");
    assert!(fixture.stale(20, &["deleted"]));
    assert_eq!(fixture.0.take_missed(), [slice("missed")].into());
    assert_eq!(fixture.0.take_missed(), [].into());
    assert!(fixture.stale(30, &["deleted"]));
    assert_eq!(fixture.0.take_missed(), [slice("at-the-position")].into());
}

#[test]
fn an_answer_with_a_version_that_the_cache_had_read_past_shows_that_the_storage_went_back() {
    let check = |before: u64, version: u64, want: bool| {
        let fixture = Fixture::new();
        fixture.begin_at("a", Verb::Update(at(5)), before).answered(at(version), at(before));
        assert_eq!(fixture.0.take_went_back(), want, "{before} {version}");
        assert!(!fixture.0.take_went_back());
    };
    check(10, 11, false);
    check(10, 10, true);
    check(10, 9, true);
    // The update changed nothing.
    check(10, 5, false);
}
