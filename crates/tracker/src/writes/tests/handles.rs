//! Handles, the trackers of one ledger, and answers to questions.

use super::*;

#[test]
fn a_refused_write_leaves_nothing() {
    let fixture = Fixture::new();
    fixture.begin("a", Verb::Create).refused();
    assert!(fixture.0.is_empty());
    let write = fixture.begin("a", Verb::Delete);
    assert_eq!(fixture.sees("a", 10), InFlight);
    write.refused();
    assert!(fixture.0.is_empty());
    assert_eq!(fixture.sees("a", 11), Foreign);
}

#[test]
fn a_write_that_was_not_begun_leaves_nothing() {
    let fixture = Fixture::new();
    let (owner, object) = (owner(), slice("a"));
    for verb in [Verb::Create, Verb::Update(at(5)), Verb::Delete] {
        drop(fixture.0.write(&owner, &object, verb, at(0)));
        fixture.0.write(&owner, &object, verb, at(0)).refused();
    }
    assert!(fixture.0.is_empty());
}

#[test]
fn an_object_that_the_server_was_asked_about_is_waited_for() {
    let fixture = Fixture::new();
    fixture.0.found(&owner(), &slice("a"), at(10), at(9));
    assert!(fixture.stale(9, &[]));
    assert_eq!(fixture.sees("a", 10), Own);
    assert!(fixture.0.is_empty());
    assert!(!fixture.0.take_went_back());
}

#[test]
fn a_permit_is_dropped_after_the_outcome_is_recorded() {
    struct Permit(Arc<WriteLedger>);

    impl Drop for Permit {
        fn drop(&mut self) {
            assert!(self.0.last_version().is_some(), "the write is in flight");
        }
    }

    let ledger = Arc::<WriteLedger>::default();
    let tracker = ledger.tracker();
    let (owner, object) = (owner(), slice("a"));
    let mut write = tracker.write(&owner, &object, Verb::Create, at(0));
    write.begin(now(), None, Permit(Arc::clone(&ledger)));
    write.answered(at(10), at(0));
    assert_eq!(Arc::strong_count(&ledger), 2, "it is dropped");
}

#[test]
fn controllers_that_write_one_kind_do_not_disturb_one_another() {
    let ledger = Arc::<WriteLedger>::default();
    let (one, other) = (Fixture(ledger.tracker()), Fixture(ledger.tracker()));
    one.write("a", 10);
    other.delete("b");
    other.0.forget(&owner());
    assert!(one.stale(9, &[]) && !other.stale(9, &["b"]));
    assert_eq!(other.sees("a", 10), Foreign);
    assert_eq!(one.sees("a", 10), Own);
    assert!(ledger.is_empty());
}
