//! Plays histories in which Services send traffic to the pod that leads. `just simulate 1000
//! --profile leading` plays more.

use kube_endpoint_simulation::{History, Profile, report, run_seeds};

/// The number of seeds.
const SEEDS: u64 = 12;
/// The number of failures after which a run stops.
const MOST_FAILURES: usize = 3;

#[test]
fn all_rules_hold_in_12_histories_with_leaders() {
    let run = run_seeds(0..SEEDS, Some(Profile::Leading), MOST_FAILURES, |_| ());
    let history = |seed| History::with_profile(Profile::Leading, seed);
    let reports: Vec<String> =
        run.failures.iter().map(|failure| report(&history(failure.seed), &failure.violation)).collect();
    assert!(reports.is_empty(), "{}", reports.join("\n\n"));
    println!("in {:.1?}, the slowest {:?}: {:#?}", run.took, run.slowest, run.statistics);
    assert_eq!(run.statistics.missing_leading(), [""; 0], "these had no effect: {:#?}", run.statistics);
    assert!(run.statistics.leading.least() > 0, "{:#?}", run.statistics.leading);
}
