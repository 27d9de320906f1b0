//! Plays the histories of many seeds on several threads.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::history::{History, Profile};
use crate::mutants::NOTHING_PANICS;
use crate::play::{Outcome, simulate};
use crate::statistics::Statistics;
use crate::watcher::Violation;

/// A seed whose run broke a rule.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seed: u64,
    pub violation: Violation,
}

/// The result of many runs.
#[derive(Clone, Debug, Default)]
pub struct Run {
    pub statistics: Statistics,
    /// The seeds that failed, in order.
    pub failures: Vec<Failure>,
    /// The slowest seed, and its time.
    pub slowest: (u64, Duration),
    pub took: Duration,
}

/// Plays the histories of the seeds on all cores, all in one profile if there is one. It stops
/// after `most_failures`. It calls `done` after each run, with the number of failures so far.
pub fn run_seeds(
    seeds: Range<u64>,
    profile: Option<Profile>,
    most_failures: usize,
    done: impl Fn(usize) + Sync,
) -> Run {
    let began = Instant::now();
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicUsize::new(0);
    let all = Mutex::new(Run::default());
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut part = Run::default();
                while failed.load(Ordering::Relaxed) < most_failures {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if !seeds.contains(&seed) {
                        break;
                    }
                    part.play(seed, profile);
                    let failures = failed.load(Ordering::Relaxed);
                    let now = part.failures.iter().filter(|failure| failure.seed == seed).count();
                    failed.fetch_add(now, Ordering::Relaxed);
                    done(failures + now);
                }
                all.lock().add(part);
            });
        }
    });
    let mut all = all.into_inner();
    all.failures.sort_by_key(|failure| failure.seed);
    all.took = began.elapsed();
    all
}

/// Plays a history. A panic counts as a rule that does not hold.
pub(crate) fn simulate_or_panic(history: &History) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| simulate(history))).unwrap_or_else(|_| {
        let violation = Violation {
            at: Duration::ZERO,
            rule: NOTHING_PANICS,
            object: String::new(),
            detail: "see the standard error output".to_owned(),
        };
        Outcome { violation: Some(violation), ..Outcome::default() }
    })
}

impl Run {
    fn play(&mut self, seed: u64, profile: Option<Profile>) {
        let began = Instant::now();
        let history = match profile {
            Some(profile) => History::with_profile(profile, seed),
            None => History::of(seed),
        };
        let outcome = simulate_or_panic(&history);
        self.statistics.add(&outcome.statistics);
        self.failures.extend(outcome.violation.map(|violation| Failure { seed, violation }));
        self.slowest = self.slowest.max_by_time((seed, began.elapsed()));
    }

    fn add(&mut self, other: Self) {
        self.statistics.add(&other.statistics);
        self.failures.extend(other.failures);
        self.slowest = self.slowest.max_by_time(other.slowest);
    }
}

trait MaxByTime {
    fn max_by_time(self, other: Self) -> Self;
}

impl MaxByTime for (u64, Duration) {
    fn max_by_time(self, other: Self) -> Self {
        if other.1 > self.1 { other } else { self }
    }
}
