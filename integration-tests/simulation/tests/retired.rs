//! Plays histories in which Services lose their Endpoints and get them back. `just simulate 1000
//! --profile retired` plays more.

use kube_endpoint_simulation::{History, Profile, report, run_seeds};

/// The number of seeds.
const SEEDS: u64 = 40;
/// The number of failures after which a run stops.
const MOST_FAILURES: usize = 3;

#[test]
fn all_rules_hold_in_40_histories_of_services_without_endpoints() {
    let run = run_seeds(0..SEEDS, Some(Profile::Retired), MOST_FAILURES, |_| ());
    let history = |seed| History::with_profile(Profile::Retired, seed);
    let reports: Vec<String> =
        run.failures.iter().map(|failure| report(&history(failure.seed), &failure.violation)).collect();
    assert!(reports.is_empty(), "{}", reports.join("\n\n"));
    println!("in {:.1?}, the slowest {:?}: {:#?}", run.took, run.slowest, run.statistics);
    assert_eq!(run.statistics.missing_retired(), [""; 0], "these had no effect: {:#?}", run.statistics);
    assert!(run.statistics.retired[0] > 20, "{:?}", run.statistics.retired);
}
