//! Two days of changes and outages for each seed, with all controllers on the embedded server. Once the outages have ended,
//! everything becomes right again within the time of [`recovery`] without a change of any Service.
//!
//! The histories are random with the seeds 0 to 199. `OUTAGE_SEEDS` selects others: `OUTAGE_SEEDS=17` plays one history,
//! `OUTAGE_SEEDS=200..5000` plays many. A failure prints the seed and its history.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kube_endpoint_integration_tests::simulation::{
    HISTORY, Happening, History, Statistics, recovery, simulate,
};

const SEEDS: Range<u64> = 0..200;
/// A run stops after so many failures.
const MOST_FAILURES: usize = 3;

fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("OUTAGE_SEEDS") else { return SEEDS };
    let number = |text: &str| text.parse::<u64>().expect("OUTAGE_SEEDS is a number, or two as in 0..200");
    match text.split_once("..") {
        Some((first, end)) => number(first)..number(end),
        None => number(&text)..number(&text) + 1,
    }
}

/// Plays the histories on all cores. Returns the failures and how long it took.
fn play(seeds: Range<u64>) -> (Statistics, Vec<String>, Duration) {
    let began = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let (mut statistics, mut failures) = (Statistics::default(), Vec::new());
    std::thread::scope(|scope| {
        let work = || {
            let (mut statistics, mut failures) = (Statistics::default(), Vec::new());
            while failures.len() < MOST_FAILURES {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if !seeds.contains(&seed) {
                    break;
                }
                match simulate(seed) {
                    Ok(found) => statistics.add(&found),
                    Err(failure) => failures.push(failure),
                }
            }
            (statistics, failures)
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            let (found, failed) = worker.join().unwrap();
            statistics.add(&found);
            failures.extend(failed);
        }
    });
    (statistics, failures, began.elapsed())
}

#[test]
fn everything_is_right_again_after_two_days_of_outages() {
    let (statistics, failures, took) = play(seeds());
    println!("{:?} in {took:.1?}: {statistics:#?}", seeds());
    assert!(failures.is_empty(), "{}\nplay one again with OUTAGE_SEEDS=seed", failures.join("\n\n"));
    if seeds() == SEEDS {
        assert!(statistics.restores > 20, "{statistics:?}");
        assert!(
            statistics.hits.len() == 10 && statistics.hits.values().all(|hits| *hits > 0),
            "{statistics:?}"
        );
    }
}

#[test]
fn a_seed_makes_one_history() {
    assert_eq!(History::of(7).to_string(), History::of(7).to_string());
    assert_ne!(History::of(7).to_string(), History::of(8).to_string());
}

#[test]
fn outages_last_from_seconds_to_a_day() {
    let mut lengths = Vec::new();
    for seed in SEEDS {
        let events = History::of(seed).events;
        assert!(events.iter().all(|(at, _)| *at <= HISTORY));
        for (began, what) in &events {
            let Happening::Begin(number, _) = what else { continue };
            let end = events.iter().find(|(_, what)| matches!(what, Happening::End(it) if it == number));
            lengths.push(end.unwrap().0 - *began);
        }
    }
    let within = |range: Range<u64>| lengths.iter().filter(|it| range.contains(&it.as_secs())).count();
    let counts = [within(0..10), within(10..600), within(600..7200), within(7200..86_401)];
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
    assert_eq!([0, 1].map(|seed| recovery(seed).as_secs() / 60), [13, 40], "minutes");
}
