//! A leader, until it is lost or stops.

use super::*;

#[test]
fn a_leader_reads_the_lease_when_a_renewal_fails() {
    for failure in [Conflict, Lost, NotFound] {
        check_leader(&[
            (At(2000), "update a 15 0, leads until 10000"),
            (failure.clone(), "get, leads until 10000"),
            (Reads("a 15 0"), "slow update a 15 0, leads until 10000"),
            (At(2100), "wait until 10000, leads until 10000"),
            (Done, "wait until 4000, leads until 12000"),
        ]);
        check_leader(&[
            (At(2000), "update a 15 0, leads until 10000"),
            (failure, "get, leads until 10000"),
            (Lost, "wait until 4000, leads until 10000"),
        ]);
    }
    // Each attempt reads twice at most.
    check_leader(&[
        (At(2000), "update a 15 0, leads until 10000"),
        (Conflict, "get, leads until 10000"),
        (Reads("a 15 0"), "slow update a 15 0, leads until 10000"),
        (Conflict, "get, leads until 10000"),
        (Reads("a 15 1"), "slow update a 15 1, leads until 10000"),
        (Conflict, "wait until 4000, leads until 10000"),
    ]);
}

#[test]
fn a_leader_that_cannot_renew_is_lost_at_the_deadline() {
    let lost = "error leader election lost: lease kube-system/l was not renewed within 10s: ";
    check_leader(&[
        (At(2000), "update a 15 0, leads until 10000"),
        (Lost, "get, leads until 10000"),
        (Lost, "wait until 4000, leads until 10000"),
        (At(9000), "update a 15 0, leads until 10000"),
        (Lost, "get, leads until 10000"),
        (Lost, "wait until 10000, leads until 10000"),
        (At(10_000), &format!("{lost}lost")),
    ]);
    check_leader(&[
        (At(9999), "update a 15 0, leads until 10000"),
        (At(10_000), &format!("{lost}no request was answered in time")),
        (Done, &format!("{lost}no request was answered in time")),
    ]);
    // The process was suspended, and the answer to the renewal waited for it.
    check_leader(&[
        (At(2000), "update a 15 0, leads until 10000"),
        (At(3000), "wait until 10000, leads until 10000"),
        (Done, "wait until 4000, leads until 12000"),
        (At(600_000), &format!("{lost}no request was answered in time")),
    ]);
}

#[test]
fn a_leader_whose_lease_has_another_holder_reads_it_until_the_renew_deadline() {
    let lost = "error leader election lost: lease kube-system/l is held by b";
    check_leader(&[
        (At(2000), "update a 15 0, leads until 10000"),
        (Conflict, "get, leads until 10000"),
        (Reads("b 15 1"), "wait until 2500, contested by b"),
        (At(2500), "get, contested by b"),
        (Reads("b 15 1"), "wait until 3000, contested by b"),
        (At(10_000), lost),
    ]);
    check_leader(&[
        (At(1000), "wait until 2000, leads until 10000"),
        (Shows("b 15 1"), "wait until 1500, contested by b"),
        (At(10_000), lost),
    ]);
    check_leader(&[
        (At(1000), "wait until 2000, leads until 10000"),
        (ShowsOlder("b 15 1"), "wait until 2000, leads until 10000"),
    ]);
}

#[test]
fn a_leader_whose_lease_has_it_again_leads_again_without_the_last_writes_of_others() {
    check_leader(&[
        (At(2000), "update a 15 0, leads until 10000"),
        (Shows("b 15 1"), "wait until 10000, contested by b"),
        (Conflict, "get, contested by b"),
        (Reads("b 15 1"), "wait until 2500, contested by b"),
        (At(2500), "get, contested by b"),
        (Reads("a 15 0"), "slow update a 15 0, contested by b"),
        (Done, "wait until 4500, leads until 12500 after ? at 2500"),
    ]);
}

#[test]
fn a_leader_puts_a_lease_right_that_somebody_else_deletes_or_edits() {
    check_leader(&[
        (At(1000), "wait until 2000, leads until 10000"),
        (ShowsDeleted, "get, leads until 10000"),
        (NotFound, "create a 15 0, leads until 10000"),
        (Done, "wait until 3000, leads until 11000"),
    ]);
    check_leader(&[
        (At(1000), "wait until 2000, leads until 10000"),
        (Shows("'' 15 3"), "get, leads until 10000"),
        (Reads("'' 15 3"), "update a 15 4, leads until 10000"),
        (Done, "wait until 3000, leads until 11000"),
    ]);
    check_leader(&[
        (At(1000), "wait until 2000, leads until 10000"),
        (Shows("a 1 0"), "update a 15 0, leads until 10000"),
        (Done, "wait until 3000, leads until 11000"),
        // At most every tenth of a second.
        (At(1010), "wait until 3000, leads until 11000"),
        (Shows("a - 0"), "wait until 1100, leads until 11000"),
    ]);
}

#[test]
fn a_leader_that_stops_releases_the_lease() {
    check_leader(&[
        (At(500), "wait until 2000, leads until 10000"),
        (Stop, "update '' 1 0"),
        (Done, "end Released"),
    ]);
    // A renewal was under way.
    check_leader(&[
        (At(2000), "update a 15 0, leads until 10000"),
        (Stop, "get"),
        (Reads("a 15 0"), "update '' 1 0"),
        (Conflict, "get"),
        (Reads("a 15 0"), "update '' 1 0"),
        (Lost, "wait until 2100"),
        (At(2100), "get"),
        (Reads("'' 1 0"), "end Released"),
    ]);
    check_leader(&[
        (Stop, "update '' 1 0"),
        (Conflict, "get"),
        (Reads("b 15 1"), r#"end NotReleased { why: "it is held by b" }"#),
    ]);
    check_leader(&[
        (Stop, "update '' 1 0"),
        (Lost, "get"),
        (Lost, "wait until 100"),
        (At(4999), "get"),
        (At(5000), r#"end NotReleased { why: "lost" }"#),
    ]);
}

#[test]
fn a_release_leaves_the_last_writes() {
    let mut script = Script::new(Duration::ZERO);
    for input in [At(0), NotFound, Done, Stop] {
        script.happen(input);
        script.does();
    }
    let released = script.sent.unwrap();
    assert_eq!(released.last_writes().unwrap().get("endpointslices"), Some(ResourceVersion(99)));
}

#[test]
fn requests_end_before_the_leadership_does() {
    let timeout = |at: u64| {
        let mut script = Script::new(Duration::ZERO);
        for input in [At(0), NotFound, Done] {
            script.happen(input);
            script.does();
        }
        let now = script.start + Duration::from_millis(at);
        match script.election.next(now, "2026-01-01T00:00:00Z".parse().unwrap()) {
            Action::Send { timeout, .. } => timeout.as_millis(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!([timeout(2000), timeout(5000), timeout(9000)], [5000, 5000, 1000]);
}
