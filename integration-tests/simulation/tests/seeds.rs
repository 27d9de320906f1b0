//! Plays the histories of seeds, and asserts that each kind of step had an effect. `just simulate
//! 20000` plays more, and `just simulate 1000 --profile beside` more of one profile.

use std::time::Duration;

use kube_endpoint_simulation::history::Change;
use kube_endpoint_simulation::{History, Profile, Statistics, report, run_seeds};

/// The number of failures after which a run stops.
const MOST_FAILURES: usize = 3;

/// Plays the first seeds, all in one profile if there is one.
#[track_caller]
#[expect(clippy::print_stdout, reason = "as in tests")]
fn play(seeds: u64, profile: Option<Profile>) -> Statistics {
    let run = run_seeds(0..seeds, profile, MOST_FAILURES, |_| ());
    let history =
        |seed| profile.map_or_else(|| History::of(seed), |profile| History::with_profile(profile, seed));
    let reports: Vec<String> =
        run.failures.iter().map(|failure| report(&history(failure.seed), &failure.violation)).collect();
    assert!(reports.is_empty(), "{}", reports.join("\n\n"));
    println!("in {:.1?}, the slowest {:?}: {:#?}", run.took, run.slowest, run.statistics);
    run.statistics
}

#[test]
fn all_rules_hold_in_the_histories_of_300_seeds() {
    let statistics = play(300, None);
    let in_json = (0..300).filter(|seed| History::of(*seed).setup.json).count();
    assert_eq!(in_json, 60, "the others are in protobuf");
    assert_eq!(statistics.missing(), [""; 0], "these had no effect: {statistics:#?}");
    let refused: Vec<u16> =
        statistics.refusals.iter().filter(|(_, number)| **number > 0).map(|(status, _)| *status).collect();
    assert_eq!(refused, [400, 401, 403, 404, 409, 422, 429, 500, 503], "{statistics:#?}");
    assert!(statistics.longest_outage >= Duration::from_secs(24 * 3600), "{statistics:#?}");
    assert!(statistics.most_pods >= 2500, "{statistics:#?}");
    assert!(statistics.questions > 100, "{statistics:#?}");
    assert!(statistics.disappearances_checked > 1000, "{statistics:#?}");
    assert!(statistics.endpoints_checked > 1000, "{statistics:#?}");
    assert!(statistics.dead_checks > 1000, "{statistics:#?}");
    assert!(statistics.idle_checks > 1000, "{statistics:#?}");
    assert!(statistics.services_checked > 1000, "{statistics:#?}");
    assert!(statistics.writes_judged > 1000, "{statistics:#?}");
    assert!(statistics.services_judged > 300, "{statistics:#?}");
    assert!(statistics.compared > 1000, "{statistics:#?}");
}

/// Services change hands between kube-controller-manager and the endpoint selector controller.
#[test]
fn all_rules_hold_in_24_histories_beside_kube_controller_manager() {
    let statistics = play(24, Some(Profile::Beside));
    assert_eq!(statistics.missing_of(Change::BESIDE), [""; 0], "these had no effect: {statistics:#?}");
    assert!(statistics.beside.least() > 0, "{:#?}", statistics.beside);
}

/// Services send traffic to the pod that leads.
#[test]
fn all_rules_hold_in_12_histories_with_leaders() {
    let statistics = play(12, Some(Profile::Leading));
    let words = [Change::LEADING, &["terminate"]].concat();
    assert_eq!(statistics.missing_of(&words), [""; 0], "these had no effect: {statistics:#?}");
    assert!(statistics.leading.least() > 0, "{:#?}", statistics.leading);
}

/// Services lose their Endpoints and get them back.
#[test]
fn all_rules_hold_in_40_histories_of_services_without_endpoints() {
    let statistics = play(40, Some(Profile::Retired));
    assert_eq!(statistics.missing_of(Change::RETIRED), [""; 0], "these had no effect: {statistics:#?}");
    assert!(statistics.retired[0] > 20, "{:?}", statistics.retired);
}
