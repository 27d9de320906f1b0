//! Caches whose versions start over, as after a restore of the server from a backup.

use super::*;

/// A position after the restore.
fn restored(version: u64) -> CachePosition {
    CachePosition { epoch: 1, version: ResourceVersion(version) }
}

fn sees_restored(fixture: &Fixture, name: &str, version: u64) -> Observation {
    let uid = format!("uid-{name}").into();
    fixture.0.observe_applied(Some(&owner()), &slice(name), &uid, restored(version))
}

#[test]
fn a_lower_version_of_a_new_epoch_is_foreign() {
    let fixture = Fixture::new();
    fixture.write("a", 1000);
    assert_eq!(sees_restored(&fixture, "a", 5), Foreign, "the server has an older state of it");
    assert!(fixture.0.is_empty());
}

#[test]
fn an_equal_version_of_a_new_epoch_is_foreign() {
    let fixture = Fixture::new();
    fixture.write("a", 1000);
    assert_eq!(sees_restored(&fixture, "a", 1000), Foreign);
    assert!(fixture.0.is_empty());
}

#[test]
fn writes_of_the_new_epoch_are_recognized_again() {
    let fixture = Fixture::new();
    fixture.write("a", 1000);
    assert!(!fixture.0.is_stale(&owner(), restored(5), []));
    fixture.0.begin(&slice("a"));
    assert!(!fixture.0.wrote(&owner(), &slice("a"), ResourceVersion(7), restored(5)));
    assert!(fixture.0.is_stale(&owner(), restored(6), []));
    assert_eq!(sees_restored(&fixture, "a", 6), Own, "an older state");
    assert_eq!(sees_restored(&fixture, "a", 7), Own);
    assert!(fixture.0.is_empty());
}

#[test]
fn a_deleted_object_that_a_restore_brings_back_is_not_waited_for() {
    let fixture = Fixture::new();
    fixture.delete("a");
    assert!(fixture.stale(50, &["a"]));
    // It has its old uid.
    assert_eq!(sees_restored(&fixture, "a", 5), Foreign);
    assert!(!fixture.0.is_stale(&owner(), restored(6), &["uid-a".into()]));
    assert!(fixture.0.is_empty());
}

#[test]
fn a_write_during_which_a_new_epoch_begins_is_followed_by_a_sync_and_not_waited_for() {
    // The answer may have been sent before the restore: its version would not be reached for days.
    for seen_before in [false, true] {
        let fixture = Fixture::new();
        fixture.0.begin(&slice("a"));
        if seen_before {
            assert_eq!(fixture.sees("a", 1000), InFlight);
        }
        assert_eq!(sees_restored(&fixture, "other", 4), Foreign);
        assert!(fixture.0.wrote(&owner(), &slice("a"), ResourceVersion(1000), restored(5)));
        assert!(!fixture.0.is_stale(&owner(), restored(6), []));
        assert!(fixture.0.is_empty());
    }
}

#[test]
fn a_deletion_during_which_a_new_epoch_begins_is_not_waited_for() {
    let fixture = Fixture::new();
    fixture.0.begin(&slice("a"));
    assert_eq!(sees_restored(&fixture, "a", 5), InFlight);
    fixture.0.deleted(&owner(), &slice("a"), &"uid-a".into());
    assert!(!fixture.0.is_stale(&owner(), restored(6), &["uid-a".into()]));
    assert!(fixture.0.is_empty());
}

#[test]
fn names_of_unresolved_creates_outlive_an_epoch() {
    let fixture = Fixture::new();
    fixture.0.begin(&slice("a"));
    fixture.0.create_unresolved(&owner(), &slice("a"));
    assert!(!fixture.0.is_stale(&owner(), restored(5), []));
    assert_eq!(fixture.0.unseen_creates(|_| true, restored(5)), []);
    assert_eq!(fixture.0.take_unresolved(&owner()).as_deref(), Some("a"));
    assert!(fixture.0.is_empty());
}

#[test]
fn a_create_that_a_restore_has_undone_is_reported() {
    let fixture = Fixture::new();
    fixture.0.begin(&slice("a"));
    assert!(!fixture.0.created(&owner(), &slice("a"), ResourceVersion(1000), at(0)));
    assert_eq!(fixture.0.unseen_creates(|_| true, at(999)), []);
    assert_eq!(fixture.0.unseen_creates(|_| true, restored(5)), [owner()]);
    assert!(!fixture.0.is_stale(&owner(), restored(5), []));
    assert!(fixture.0.is_empty());
}

#[test]
fn writes_of_an_earlier_epoch_are_not_missed() {
    let fixture = Fixture::new();
    fixture.write("a", 10);
    assert!(!fixture.0.is_stale(&owner(), restored(50), []));
    assert_eq!(fixture.0.take_missed(), []);
    assert!(fixture.0.is_empty());
}

#[test]
fn an_owner_with_writes_outstanding_when_an_epoch_begins_is_uncertain() {
    let check = |how: &str, begins_epoch: &dyn Fn(&Fixture), want: bool| {
        let fixture = Fixture::new();
        begins_epoch(&fixture);
        assert_eq!(fixture.0.is_uncertain(&owner()), want, "{how}");
        fixture.0.confirmed(&owner());
        assert!(!fixture.0.is_uncertain(&owner()), "{how}");
    };
    let a_sync = |it: &Fixture| {
        it.write("a", 10);
        it.0.is_stale(&owner(), restored(5), []);
    };
    check("a sync finds it", &a_sync, true);
    let an_event = |it: &Fixture| {
        it.write("a", 10);
        sees_restored(it, "b", 5);
    };
    check("an event shows it", &an_event, true);
    let in_flight = |it: &Fixture| {
        it.0.begin(&slice("a"));
        sees_restored(it, "b", 5);
        it.0.wrote(&owner(), &slice("a"), ResourceVersion(6), restored(5));
    };
    check("a write is in flight", &in_flight, true);
    let shown = |it: &Fixture| {
        it.write("a", 10);
        it.sees("a", 10);
        sees_restored(it, "a", 5);
    };
    check("the cache has shown the write", &shown, false);
    let deleted = |it: &Fixture| {
        an_event(it);
        it.0.forget(&owner());
    };
    check("the owner is deleted", &deleted, false);
}
