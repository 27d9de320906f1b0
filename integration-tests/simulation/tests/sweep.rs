//! Plays a sample of the fault sweep. `just sweep` plays all of it.

use kube_endpoint_simulation::history::Strike;
use kube_endpoint_simulation::report;
use kube_endpoint_simulation::sweep::{Sweep, play};

/// Each fifth history: the first play of each finds its points.
const STEP: usize = 5;
/// The number of points. 2,000 would take twenty minutes of CPU time.
const SAMPLE: usize = 200;
/// The seed that chooses them.
const SEED: u64 = 1;
/// The number of failures after which the test stops.
const MOST_FAILURES: usize = 3;

#[test]
fn all_rules_hold_with_a_fault_at_each_of_200_requests() {
    let sweep = Sweep::of("", STEP, || ()).unwrap();
    let swept = play(&sweep, &sweep.sample(SAMPLE, SEED), MOST_FAILURES, |_, _| ());
    let reports: Vec<String> = swept
        .failures
        .iter()
        .map(|it| format!("point {} in {}: {}", it.number, it.name, report(&it.history, &it.violation)))
        .collect();
    assert!(reports.is_empty(), "{}", reports.join("\n\n"));
    println!("{} points: {swept:#?}", sweep.points());
    let [points, struck] = swept.points();
    assert_eq!(points, SAMPLE);
    assert!(struck > SAMPLE * 9 / 10, "{swept:#?}");
    assert_eq!(swept.by_strike.len(), Strike::ALL.len());
    for (strike, [_, struck]) in &swept.by_strike {
        assert!(*struck >= 5, "{strike}: {struck}");
    }
}
