//! Plays the named histories in `tests/histories` that no public bug has: failures of the past, and
//! what only one mutant gets wrong. `bugs` plays the others.

use kube_endpoint_simulation::{History, report, simulate};

use crate::bugs::histories;

#[test]
fn all_rules_hold_in_the_named_histories() {
    let of_bugs = histories();
    let (mut played, mut idle) = (0, Vec::new());
    for (name, history) in History::all_named().unwrap() {
        if of_bugs.contains(&*name) {
            continue;
        }
        let outcome = simulate(&history);
        if let Some(violation) = outcome.violation {
            panic!("{name}: {}", report(&history, &violation));
        }
        if !outcome.without_effect.is_empty() {
            idle.push(format!("{name}: {:#?}", outcome.without_effect));
        }
        played += 1;
    }
    assert!(played > 0);
    assert!(idle.is_empty(), "these steps have no effect: {}", idle.join("\n"));
}
