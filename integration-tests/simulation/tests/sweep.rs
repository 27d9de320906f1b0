//! Plays a sample of the fault sweep. `just sweep` plays all of it.

use kube_endpoint_simulation::history::RequestFault;
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
    let swept = play(&sweep, &sweep.sample(SAMPLE, SEED), MOST_FAILURES, |_| ());
    // The roadmap names what may be left after storages differed as an open fault.
    let is_open = |name: &str| name.starts_with("servers-with-two-");
    let reports: Vec<String> = swept
        .failures
        .iter()
        .filter(|it| !is_open(&it.name))
        .map(|it| format!("point {} in {}: {}", it.number, it.name, report(&it.history, &it.violation)))
        .collect();
    assert!(reports.is_empty(), "{}", reports.join("\n\n"));
    println!("{} points: {swept:#?}", sweep.points());
    let [points, injected] = swept.points();
    assert_eq!(points, SAMPLE);
    assert!(injected > SAMPLE * 9 / 10, "{swept:#?}");
    assert_eq!(swept.by_fault.len(), RequestFault::ALL.len());
    for (fault, [_, injected]) in &swept.by_fault {
        assert!(*injected >= 5, "{fault}: {injected}");
    }
}
