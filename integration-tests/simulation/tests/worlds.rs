//! Judges a sample of the small worlds. `just worlds` judges all of them.

use kube_endpoint_simulation::worlds::judge;

/// The size of the sample.
const SAMPLE: u64 = 100_000;

#[test]
fn one_plan_puts_100_000_small_worlds_right() {
    let verdict = judge(0..SAMPLE, 1, |_| ());
    assert_eq!(verdict.report(), None);
    let judged = verdict.judged;
    println!("{judged:#?}");
    assert_eq!(judged.worlds, SAMPLE);
    assert!(judged.with_writes > SAMPLE * 9 / 10, "{judged:?}");
    assert!(judged.states_between > SAMPLE && judged.kept > SAMPLE / 4, "{judged:?}");
}
