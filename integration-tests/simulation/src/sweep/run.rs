//! Plays points on all cores.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::Sweep;
use crate::history::{History, Process};
use crate::parallel::on_all_cores;
use crate::runner::simulate_or_panic;
use crate::watcher::Violation;

/// A point at which a rule did not hold.
#[derive(Clone, Debug)]
pub struct Failure {
    pub number: usize,
    /// The name of the history.
    pub name: String,
    /// The history with the fault.
    pub history: History,
    pub violation: Violation,
}

/// The points that have been played.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// The number of points by history: all, and those whose fault was injected and changed
    /// something.
    pub by_history: BTreeMap<String, [usize; 2]>,
    /// The same by the word of the fault.
    pub by_fault: BTreeMap<&'static str, [usize; 2]>,
    pub failures: Vec<Failure>,
}

impl Swept {
    /// Returns the number of points: all, and those whose fault was injected and changed something.
    pub fn points(&self) -> [usize; 2] {
        self.by_fault.values().fold([0; 2], |[all, injected], one| [all + one[0], injected + one[1]])
    }
}

/// Plays the points with these numbers until `most_failures` have failed. Calls `done` after each
/// point with its failure.
pub fn play(
    sweep: &Sweep,
    numbers: &[usize],
    most_failures: usize,
    done: impl Fn(Option<&Failure>) + Sync,
) -> Swept {
    let swept = Mutex::new(Swept::default());
    let is_enough = || swept.lock().failures.len() >= most_failures;
    on_all_cores(0..numbers.len() as u64, is_enough, |index| {
        let number = numbers[index as usize];
        let Some((target, point)) = sweep.point(number) else { return };
        let history = target.with(point);
        let outcome = simulate_or_panic(&history);
        let had_effect = outcome.statistics.processes.contains_key(Process::AT_REQUEST);
        let name = target.name.clone();
        let word = point.fault.word();
        let failure = outcome.violation.map(|violation| Failure { number, name, history, violation });
        done(failure.as_ref());
        let mut swept = swept.lock();
        count(swept.by_history.entry(target.name.clone()).or_default(), had_effect);
        count(swept.by_fault.entry(word).or_default(), had_effect);
        swept.failures.extend(failure);
    });
    let mut swept = swept.into_inner();
    swept.failures.sort_by_key(|failure| failure.number);
    swept
}

fn count([all, injected]: &mut [usize; 2], had_effect: bool) {
    *all += 1;
    *injected += usize::from(had_effect);
}
