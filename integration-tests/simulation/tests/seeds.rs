//! The histories of 300 seeds. `just simulate 20000` plays more.

use kube_endpoint_simulation::{History, report, run_seeds};

/// A run stops after so many failures.
const MOST_FAILURES: usize = 3;

#[test]
fn all_rules_hold_in_the_histories_of_300_seeds() {
    let run = run_seeds(0..300, None, MOST_FAILURES, |_| ());
    let reports: Vec<String> =
        run.failures.iter().map(|failure| report(&History::of(failure.seed), &failure.violation)).collect();
    assert!(reports.is_empty(), "{}", reports.join("\n\n"));
    println!("in {:.1?}, the slowest {:?}: {:#?}", run.took, run.slowest, run.statistics);
    assert_eq!(run.statistics.missing(), [""; 0], "these had no effect: {:#?}", run.statistics);
    assert!(run.statistics.disappearances_checked > 1000, "{:#?}", run.statistics);
    assert!(run.statistics.endpoints_checked > 1000, "{:#?}", run.statistics);
    assert!(run.statistics.dead_checks > 1000, "{:#?}", run.statistics);
    assert!(run.statistics.idle_checks > 1000, "{:#?}", run.statistics);
    assert!(run.statistics.services_checked > 1000, "{:#?}", run.statistics);
    assert!(run.statistics.compared > 1000, "{:#?}", run.statistics);
}
