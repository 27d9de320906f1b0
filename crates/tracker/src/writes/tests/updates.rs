//! Updates that changed nothing, and updates of unknown outcome.

use super::*;

fn unresolved(fixture: &Fixture) -> Vec<(ObjectKey, ResourceVersion)> {
    fixture.0.unresolved_updates(&owner())
}

/// An update of version 5 whose answer was lost.
fn with_a_lost_answer() -> Fixture {
    let fixture = Fixture::new();
    drop(fixture.begin("a", Verb::Update(at(5))));
    assert_eq!(unresolved(&fixture), [(slice("a"), ResourceVersion(5))]);
    assert!(!fixture.stale(5, &["a"]), "nothing is known that the cache would have to show");
    fixture
}

#[test]
fn an_update_that_changed_nothing_leaves_nothing() {
    let fixture = Fixture::new();
    assert!(!fixture.begin("a", Verb::Update(at(5))).answered(at(5), at(5)));
    assert!(fixture.0.is_empty());
    let write = fixture.begin("a", Verb::Update(at(5)));
    assert_eq!(fixture.sees("a", 6), InFlight);
    assert!(write.answered(at(5), at(6)), "another client changed the object");
    assert!(fixture.0.is_empty());
}

#[test]
fn an_unresolved_update_is_kept_until_the_cache_shows_another_version() {
    for (cached, kept) in [(Some(5), true), (Some(6), false), (Some(9), false), (None, false)] {
        let fixture = with_a_lost_answer();
        fixture.0.settle(&owner(), |object| {
            assert_eq!(*object, slice("a"));
            cached.map(ResourceVersion)
        });
        assert_eq!(unresolved(&fixture).len(), usize::from(kept), "{cached:?}");
        assert_eq!(fixture.0.is_empty(), !kept, "{cached:?}");
    }
}

#[test]
fn an_event_does_not_settle_an_unresolved_update() {
    // A plan that is being carried out may have been made before the event.
    let fixture = with_a_lost_answer();
    assert_eq!(fixture.sees("a", 6), Foreign);
    assert_eq!(unresolved(&fixture).len(), 1);
    fixture.0.update_resolved(&owner(), &slice("a"));
    assert!(fixture.0.is_empty());
}

#[test]
fn the_answer_to_another_write_settles_an_unresolved_update() {
    let fixture = with_a_lost_answer();
    fixture.write("a", 6);
    assert!(unresolved(&fixture).is_empty() && fixture.stale(5, &["a"]));
    let fixture = with_a_lost_answer();
    fixture.delete("a");
    assert!(unresolved(&fixture).is_empty());
    let fixture = with_a_lost_answer();
    fixture.0.forget(&owner());
    assert!(fixture.0.is_empty());
}
