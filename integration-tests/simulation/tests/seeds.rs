//! Plays the histories of 300 seeds. `just simulate 20000` plays more.

use std::time::Duration;

use kube_endpoint_simulation::{History, report, run_seeds};

/// The number of failures after which a run stops.
const MOST_FAILURES: usize = 3;

#[test]
fn all_rules_hold_in_the_histories_of_300_seeds() {
    let run = run_seeds(0..300, None, MOST_FAILURES, |_| ());
    let in_json = (0..300).filter(|seed| History::of(*seed).setup.json).count();
    assert_eq!(in_json, 60, "the others are in protobuf");
    let reports: Vec<String> =
        run.failures.iter().map(|failure| report(&History::of(failure.seed), &failure.violation)).collect();
    assert!(reports.is_empty(), "{}", reports.join("\n\n"));
    println!("in {:.1?}, the slowest {:?}: {:#?}", run.took, run.slowest, run.statistics);
    assert_eq!(run.statistics.missing(), [""; 0], "these had no effect: {:#?}", run.statistics);
    let refused: Vec<u16> = run
        .statistics
        .refusals
        .iter()
        .filter(|(_, number)| **number > 0)
        .map(|(status, _)| *status)
        .collect();
    assert_eq!(refused, [400, 401, 403, 404, 409, 422, 429, 500, 503], "{:#?}", run.statistics);
    assert!(run.statistics.longest_outage >= Duration::from_secs(24 * 3600), "{:#?}", run.statistics);
    assert!(run.statistics.most_pods >= 2500, "{:#?}", run.statistics);
    assert!(run.statistics.questions > 100, "{:#?}", run.statistics);
    assert!(run.statistics.disappearances_checked > 1000, "{:#?}", run.statistics);
    assert!(run.statistics.endpoints_checked > 1000, "{:#?}", run.statistics);
    assert!(run.statistics.dead_checks > 1000, "{:#?}", run.statistics);
    assert!(run.statistics.idle_checks > 1000, "{:#?}", run.statistics);
    assert!(run.statistics.services_checked > 1000, "{:#?}", run.statistics);
    assert!(run.statistics.writes_judged > 1000, "{:#?}", run.statistics);
    assert!(run.statistics.services_judged > 300, "{:#?}", run.statistics);
    assert!(run.statistics.compared > 1000, "{:#?}", run.statistics);
}
