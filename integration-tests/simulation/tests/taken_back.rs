//! Plays the histories in which a process takes the Lease of its former process back, and checks
//! that they are about that. `named` checks the rules too.

use kube_endpoint_simulation::{History, report, simulate};

/// Plays a history. Checks how often a Lease is taken back, and that at least as many writes of
/// processes that had ended are carried out later.
#[track_caller]
fn check(name: &str, taken_back: usize, late_writes: usize) {
    let history = History::named(name).unwrap();
    let outcome = simulate(&history);
    if let Some(violation) = &outcome.violation {
        panic!("{name}: {}", report(&history, violation));
    }
    let count = |word: &str| outcome.statistics.processes.get(word).copied().unwrap_or_default();
    assert_eq!(count("took-back"), taken_back, "{name}: {:#?}", outcome.statistics);
    assert!(count("late-writes") >= late_writes, "{name}: {:#?}", outcome.statistics);
}

#[test]
fn late_writes_of_a_killed_process_are_put_right() {
    check("taken-back-before-late-writes", 1, 2);
}

#[test]
fn a_late_renewal_of_a_killed_process_changes_nothing() {
    check("taken-back-before-late-renewal", 1, 0);
}

#[test]
fn after_a_second_crash_the_lease_is_left_to_the_standby() {
    check("second-crash-leaves-lease", 1, 0);
}

#[test]
fn the_add_on_goes_on_with_a_hand_over_after_a_crash() {
    check("beside-taken-back", 2, 1);
}
