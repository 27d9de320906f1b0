//! Plays histories in which Services change hands between kube-controller-manager and the endpoint
//! selector controller. `just simulate 1000 --profile beside` plays more.

use kube_endpoint_simulation::{History, Profile, report, run_seeds};

/// The number of seeds.
const SEEDS: u64 = 24;
/// The number of failures after which a run stops.
const MOST_FAILURES: usize = 3;

#[test]
fn all_rules_hold_in_24_histories_beside_kube_controller_manager() {
    let run = run_seeds(0..SEEDS, Some(Profile::Beside), MOST_FAILURES, |_| ());
    let history = |seed| History::with_profile(Profile::Beside, seed);
    let reports: Vec<String> =
        run.failures.iter().map(|failure| report(&history(failure.seed), &failure.violation)).collect();
    assert!(reports.is_empty(), "{}", reports.join("\n\n"));
    println!("in {:.1?}, the slowest {:?}: {:#?}", run.took, run.slowest, run.statistics);
    assert_eq!(run.statistics.missing_beside(), [""; 0], "these had no effect: {:#?}", run.statistics);
    assert!(run.statistics.beside.least() > 0, "{:#?}", run.statistics.beside);
}
