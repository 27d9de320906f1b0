//! Plays points on all cores.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::{Point, Sweep};
use crate::history::{History, Process};
use crate::runner::simulate_or_panic;
use crate::watcher::Violation;

/// A point at which a rule did not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    pub number: usize,
    /// The name of the history.
    pub name: String,
    pub point: Point,
    /// The history with the fault.
    pub history: History,
    pub violation: Violation,
}

/// The points that have been played.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// The number of points by history: all, and those whose fault has struck and changed
    /// something.
    pub by_history: BTreeMap<String, [usize; 2]>,
    /// The same by the word of the fault.
    pub by_strike: BTreeMap<&'static str, [usize; 2]>,
    pub failures: Vec<Failure>,
}

impl Swept {
    /// Returns the number of points: all, and those whose fault has struck and changed something.
    pub fn points(&self) -> [usize; 2] {
        self.by_strike.values().fold([0; 2], |[all, struck], one| [all + one[0], struck + one[1]])
    }
}

/// Calls a function for each number below `count` on all cores. Returns the results in order.
pub(super) fn in_parallel<T: Send>(count: usize, call: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let result = call(number);
                    results.lock().insert(number, result);
                }
            });
        }
    });
    results.into_inner().into_values().collect()
}

/// Plays the points with these numbers until `most_failures` have failed. Calls `done` after each
/// point with its number and its failure.
pub fn play(
    sweep: &Sweep,
    numbers: &[usize],
    most_failures: usize,
    done: impl Fn(usize, Option<&Failure>) + Sync,
) -> Swept {
    let swept = Mutex::new(Swept::default());
    in_parallel(numbers.len(), |index| {
        let number = numbers[index];
        let Some((target, point)) = sweep.point(number) else { return };
        if swept.lock().failures.len() >= most_failures {
            return;
        }
        let history = target.with(&point);
        let outcome = simulate_or_panic(&history);
        let has_struck = outcome.statistics.processes.contains_key(Process::AT_REQUEST);
        let name = target.name.clone();
        let word = point.strike.word();
        let failure = outcome.violation.map(|violation| Failure { number, name, point, history, violation });
        done(number, failure.as_ref());
        let mut swept = swept.lock();
        count(swept.by_history.entry(target.name.clone()).or_default(), has_struck);
        count(swept.by_strike.entry(word).or_default(), has_struck);
        swept.failures.extend(failure);
    });
    let mut swept = swept.into_inner();
    swept.failures.sort_by_key(|failure| failure.number);
    swept
}

fn count([all, struck]: &mut [usize; 2], has_struck: bool) {
    *all += 1;
    *struck += usize::from(has_struck);
}
