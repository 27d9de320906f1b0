//! Plays the histories of many seeds on several threads.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::history::{History, Profile};
use crate::parallel::on_all_cores;
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
    let all = Mutex::new(Run::default());
    let is_enough = || all.lock().failures.len() >= most_failures;
    on_all_cores(seeds, is_enough, |seed| {
        let one = Run::of(seed, profile);
        let mut all = all.lock();
        all.add(one);
        done(all.failures.len());
    });
    let mut all = all.into_inner();
    all.failures.sort_by_key(|failure| failure.seed);
    all.took = began.elapsed();
    all
}

/// Plays a history. A panic counts as a rule that does not hold.
pub(crate) fn simulate_or_panic(history: &History) -> Outcome {
    or_panic(|| simulate(history))
}

/// Returns the outcome of a play, which may panic.
pub(crate) fn or_panic(play: impl FnOnce() -> Outcome) -> Outcome {
    catch_unwind(AssertUnwindSafe(play)).unwrap_or_else(|_| {
        let violation = Violation {
            at: Duration::ZERO,
            rule: "nothing panics",
            object: String::new(),
            detail: "see the standard error output".to_owned(),
        };
        Outcome { violation: Some(violation), ..Outcome::default() }
    })
}

impl Run {
    /// Plays the history of a seed.
    fn of(seed: u64, profile: Option<Profile>) -> Self {
        let began = Instant::now();
        let history = match profile {
            Some(profile) => History::with_profile(profile, seed),
            None => History::of(seed),
        };
        let outcome = simulate_or_panic(&history);
        Self {
            statistics: outcome.statistics,
            failures: outcome.violation.map(|violation| Failure { seed, violation }).into_iter().collect(),
            slowest: (seed, began.elapsed()),
            ..Self::default()
        }
    }

    fn add(&mut self, other: Self) {
        self.statistics.add(&other.statistics);
        self.failures.extend(other.failures);
        if other.slowest.1 > self.slowest.1 {
            self.slowest = other.slowest;
        }
    }
}
