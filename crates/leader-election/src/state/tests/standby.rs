//! A standby, until it leads.

use super::*;

#[test]
fn a_lease_that_does_not_exist_is_created() {
    check(&[
        (At(0), "get"),
        (At(40), "wait"),
        (NotFound, "create a 15 0"),
        (At(90), "wait"),
        // The time counts from the request.
        (Done, "wait until 2040, leads until 10040"),
        (At(2040), "update a 15 0, leads until 10040"),
        (At(3000), "wait until 10040, leads until 10040"),
        (Done, "wait until 4040, leads until 12040"),
        // The answer is later than the next renewal would be.
        (At(4040), "update a 15 0, leads until 12040"),
        (At(7000), "wait until 12040, leads until 12040"),
        (Done, "update a 15 0, leads until 14040"),
    ]);
}

/// The first candidate of an installation leaves the Lease to whoever releases it, so that nobody
/// writes beside another controller.
#[test]
fn a_lease_that_never_existed_is_reserved() {
    let week = Duration::from_secs(7 * 24 * 3600);
    check_reserving(
        week,
        &[
            (At(0), "get"),
            (NotFound, "create reserved 604800 0"),
            (Done, "wait for the next poll"),
            (At(60_000), "get"),
            (Reads("reserved 604800 0"), "wait for the next poll"),
            (Shows("'' 1 0"), "wait for the next poll"),
            (At(60_100), "get"),
            (Reads("'' 1 0"), "update a 15 1"),
            (Done, "wait until 62100, leads until 70100 after ? at 60100"),
        ],
    );
    // Another candidate was faster.
    check_reserving(
        week,
        &[
            (At(0), "get"),
            (NotFound, "create reserved 604800 0"),
            (Conflict, "get"),
            (Reads("reserved 604800 0"), "wait for the next poll"),
        ],
    );
    // A Lease that this candidate has seen is no new one.
    check_reserving(
        week,
        &[
            (At(0), "get"),
            (Reads("b 15 4"), "wait for the next poll"),
            (At(1000), "wait for the next poll"),
            (ShowsDeleted, "wait for the next poll"),
            (At(15_000), "get"),
            (NotFound, "create a 15 0"),
        ],
    );
    check_reserving(
        week,
        &[
            (At(0), "get"),
            (Reads("'' 1 4"), "update a 15 5"),
            (Done, "wait until 2000, leads until 10000 after ? at 0"),
            (ShowsDeleted, "wait until 100, leads until 10000 after ? at 0"),
            (At(100), "get, leads until 10000 after ? at 0"),
            (NotFound, "create a 15 0, leads until 10000 after ? at 0"),
        ],
    );
}

#[test]
fn a_lease_of_another_holder_is_taken_when_its_record_has_not_changed_for_its_duration() {
    check(&[
        (At(0), "get"),
        (At(10), "wait"),
        (Reads("b 15 4"), "wait for the next poll"),
        (At(5000), "get"),
        (Reads("b 15 4"), "wait for the next poll"),
        (At(14_000), "get"),
        // Sooner than the next poll.
        (Reads("b 15 4"), "wait until 15010"),
        (At(15_010), "get"),
        (Reads("b 15 4"), "update a 15 5"),
        (Done, "wait until 17010, leads until 25010 after ? at 15010"),
    ]);
    // A renewal, read or shown, begins the time anew. Metadata is no renewal: the script changes
    // versions with records only.
    check(&[
        (At(0), "get"),
        (Reads("b 15 4"), "wait for the next poll"),
        (At(1000), "wait for the next poll"),
        (Shows("b 15 4"), "wait for the next poll"),
        (At(15_500), "get"),
        (Reads("b 15 4"), "wait until 16000"),
    ]);
}

#[test]
fn a_deleted_lease_had_a_leader_if_this_candidate_saw_it() {
    check(&[
        (At(0), "get"),
        (Reads("b 15 4"), "wait for the next poll"),
        (At(1000), "wait for the next poll"),
        (ShowsDeleted, "wait for the next poll"),
        (At(15_000), "get"),
        (NotFound, "create a 15 0"),
        (At(15_010), "wait"),
        (Done, "wait until 17000, leads until 25000 after ? at 15010"),
    ]);
}

#[test]
fn a_lease_of_the_former_process_is_taken_back_at_once() {
    check(&[
        (BHasEnded, "get"),
        (At(10), "wait"),
        (Reads("b 15 4"), "update a 15 5"),
        (Done, "wait until 2010, leads until 10010 after ? at 10, taken back"),
    ]);
    // A renewal that it had sent is no sign of life: the next read has another version.
    check(&[
        (BHasEnded, "get"),
        (Reads("b 15 4"), "update a 15 5"),
        (At(20), "wait"),
        (Shows("b 15 4"), "wait"),
        (Conflict, "get"),
        (Reads("b 15 4"), "update a 15 5"),
        (Done, "wait until 2020, leads until 10020 after ? at 20, taken back"),
    ]);
    // The answer is lost.
    check(&[
        (BHasEnded, "get"),
        (Reads("b 15 4"), "update a 15 5"),
        (Lost, "get"),
        (Reads("a 15 5"), "update a 15 5"),
        (Done, "wait until 2000, leads until 10000 after ? at 0, taken back"),
    ]);
    // It had acquired the Lease with its last request, which is carried out late.
    check(&[
        (BHasEnded, "get"),
        (Reads("c 15 4"), "wait for the next poll"),
        (At(5000), "get"),
        (Reads("b 15 5"), "update a 15 6"),
        (Done, "wait until 7000, leads until 15000 after ? at 5000, taken back"),
    ]);
}

#[test]
fn a_lease_of_another_holder_than_the_former_process_is_not_taken_back() {
    for holder in ["c 15 4", "b2 15 4", "B 15 4", "bb 15 4"] {
        check(&[(BHasEnded, "get"), (Reads(holder), "wait for the next poll"), (At(5000), "get")]);
    }
    // A standby was quicker.
    check(&[
        (BHasEnded, "get"),
        (Reads("b 15 4"), "update a 15 5"),
        (Conflict, "get"),
        (Reads("c 15 5"), "wait for the next poll"),
        (At(15_000), "get"),
        (Reads("c 15 5"), "update a 15 6"),
        (Done, "wait until 17000, leads until 25000 after ? at 15000"),
    ]);
    // The former process released it, and left its last writes.
    check(&[
        (BHasEnded, "get"),
        (Reads("'' 1 4 annotated"), "update a 15 5"),
        (Done, "wait until 2000, leads until 10000 after 77 at 0"),
    ]);
}

#[test]
fn a_released_lease_is_taken_at_once() {
    check(&[
        (At(0), "get"),
        (Reads("'' 1 4 annotated"), "update a 15 5"),
        (Done, "wait until 2000, leads until 10000 after 77 at 0"),
    ]);
    check(&[
        (At(0), "get"),
        (Reads("b 15 4"), "wait for the next poll"),
        (At(1000), "wait for the next poll"),
        (Shows("'' 1 4 annotated"), "get"),
        (Reads("'' 1 4 annotated"), "update a 15 5"),
        (Done, "wait until 3000, leads until 11000 after 77 at 1000"),
    ]);
    // Another candidate was quicker.
    check(&[
        (At(0), "get"),
        (Reads("'' 1 4"), "update a 15 5"),
        (Conflict, "get"),
        (Reads("b 15 5"), "wait for the next poll"),
    ]);
    // As other libraries release it.
    check(&[(At(0), "get"), (Reads("- - 4"), "update a 15 5")]);
}

#[test]
fn a_lease_that_is_deleted_or_emptied_by_hand_is_left_to_its_holder_for_its_duration() {
    for (vanishes, takes) in [(ShowsDeleted, "create a 15 0"), (Shows("'' 15 4"), "update a 15 5")] {
        let reads = || if takes == "create a 15 0" { NotFound } else { Reads("'' 15 4") };
        check(&[
            (At(0), "get"),
            (Reads("b 15 4"), "wait for the next poll"),
            (At(1000), "wait for the next poll"),
            (vanishes, "wait for the next poll"),
            (At(14_000), "get"),
            (reads(), "wait until 15000"),
            (At(15_000), "get"),
            (reads(), takes),
        ]);
    }
    // Longer than this candidate's duration.
    check(&[
        (At(0), "get"),
        (Reads("b 86400 4"), "wait for the next poll"),
        (At(1000), "wait for the next poll"),
        (ShowsDeleted, "wait for the next poll"),
        (At(14_000), "get"),
        (NotFound, "wait until 16000"),
        (At(16_000), "get"),
        (NotFound, "create a 15 0"),
    ]);
    // The holder restores it.
    check(&[
        (At(0), "get"),
        (Reads("b 15 4"), "wait for the next poll"),
        (ShowsDeleted, "wait for the next poll"),
        (At(14_000), "get"),
        (NotFound, "wait until 15000"),
        (Shows("b 15 0"), "wait for the next poll"),
    ]);
}

#[test]
fn an_answer_is_older_than_an_event_that_overtook_it_and_newer_than_any_before() {
    check(&[
        (At(0), "get"),
        (Shows("b 15 4"), "wait"),
        (ReadsOlder("'' 1 3"), "wait for the next poll"),
        // The server was restored from a backup.
        (At(5000), "get"),
        (ReadsOlder("'' 1 3"), "update a 15 4"),
    ]);
}

#[test]
fn odd_records_are_waited_for() {
    // An absent or negative duration counts as this candidate's.
    for odd in ["b - 4", "b -5 4", "b 0 -"] {
        check(&[
            (At(0), "get"),
            (Reads(odd), "wait for the next poll"),
            (At(14_000), "get"),
            (Reads(odd), "wait until 15000"),
            (At(15_000), "get"),
        ]);
    }
    // Nobody gave it this identity, so another process has it.
    check(&[
        (At(0), "get"),
        (Reads("a 15 4"), "wait for the next poll"),
        (At(15_000), "get"),
        (Reads("a 15 4"), "update a 15 5"),
    ]);
    check(&[(At(0), "get"), (Reads("- -1 -1"), "update a 15 1")]);
}

#[test]
fn a_lost_answer_to_an_acquisition_is_read_back() {
    check(&[
        (At(0), "get"),
        (Reads("'' 1 4 annotated"), "update a 15 5"),
        (At(5000), "wait"),
        (Lost, "get"),
        // It was carried out. It is renewed, so that the time counts from now.
        (Reads("a 15 5"), "update a 15 5"),
        (Done, "wait until 7000, leads until 15000 after 77 at 5000"),
    ]);
    check(&[
        (At(0), "get"),
        (NotFound, "create a 15 0"),
        (Lost, "get"),
        (NotFound, "create a 15 0"),
        (Conflict, "wait for the next poll"),
        (At(5000), "get"),
        (Reads("a 15 0"), "update a 15 0"),
    ]);
}

#[test]
fn a_candidate_that_is_suspended_while_it_acquires_the_lease_does_not_lead_on_an_old_answer() {
    let mut script = Script::new(Duration::ZERO);
    for (input, want) in [(At(0), "get"), (NotFound, "create a 15 0")] {
        script.happen(input);
        assert_eq!(script.does(), want);
    }
    script.happen(At(11_000));
    script.happen(Done);
    assert_eq!(script.does(), "get");
    script.happen(Reads("a 15 0"));
    assert_eq!(script.does(), "update a 15 0");
    script.happen(Done);
    assert_eq!(script.does(), "wait until 13000, leads until 21000");
}

#[test]
fn a_standby_that_stops_ends_at_once() {
    check(&[(At(0), "get"), (Stop, "end Standby")]);
    check(&[(At(0), "get"), (Reads("b 15 4"), "wait for the next poll"), (Stop, "end Standby")]);
    // It may have acquired the Lease just now.
    check(&[
        (At(0), "get"),
        (NotFound, "create a 15 0"),
        (Stop, "get"),
        (Reads("a 15 0"), "update '' 1 0"),
        (Done, "end Standby"),
    ]);
    check(&[(At(0), "get"), (NotFound, "create a 15 0"), (Stop, "get"), (NotFound, "end Standby")]);
}

#[test]
fn a_lease_is_held_while_its_record_is_valid_and_the_last_request_was_answered() {
    let check = |steps: &[(Input, bool)]| {
        let mut script = Script::new(Duration::ZERO);
        assert!(!script.election.is_held(script.now), "nothing is known");
        for (at, (input, want)) in steps.iter().enumerate() {
            script.happen(input.clone());
            script.does();
            assert_eq!(script.election.is_held(script.now), *want, "step {at}");
        }
    };
    // A reserved Lease, and one that nobody renews.
    check(&[(At(0), false), (Reads("b 604800 1"), true), (At(604_799_999), true)]);
    check(&[(At(0), false), (Reads("b 15 1"), true), (At(14_999), true), (At(15_000), false)]);
    // It cannot be read, and can again.
    check(&[
        (At(0), false),
        (Reads("b 604800 1"), true),
        (At(5000), true),
        (Lost, false),
        (At(10_000), false),
        (Reads("b 604800 1"), true),
    ]);
    // It does not exist, has no holder, or is deleted.
    check(&[(At(0), false), (NotFound, false)]);
    check(&[(At(0), false), (Reads("'' 15 1"), false)]);
    check(&[(At(0), false), (Reads("b 15 1"), true), (ShowsDeleted, false)]);
    // This candidate leads, and leads no more.
    check(&[(At(0), false), (NotFound, false), (Done, true), (At(9999), true), (At(10_000), false)]);
    check(&[(At(0), false), (NotFound, false), (Done, true), (Stop, false)]);
}
