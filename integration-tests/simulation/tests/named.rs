//! Plays the named histories in `tests/histories`: public bugs (`docs/bugs-replayed.md`), failures
//! of the past, and what only one mutant gets wrong.

use kube_endpoint_simulation::{History, on_all_cores, report, simulate};
use parking_lot::Mutex;

#[test]
fn all_rules_hold_in_the_named_histories() {
    let histories: Vec<(String, History)> = History::all_named().unwrap().into_iter().collect();
    assert!(histories.len() > 100);
    let wrong = Mutex::new(Vec::new());
    on_all_cores(
        0..histories.len() as u64,
        || wrong.lock().len() > 2,
        |number| {
            let (name, history) = &histories[number as usize];
            let outcome = simulate(history);
            if let Some(violation) = &outcome.violation {
                wrong.lock().push(format!("{name}: {}", report(history, violation)));
            } else if !outcome.without_effect.is_empty() {
                let idle = outcome.without_effect;
                wrong.lock().push(format!("{name}: these steps have no effect: {idle:#?}"));
            }
        },
    );
    let wrong = wrong.into_inner();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
