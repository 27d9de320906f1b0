//! What happened in some runs.

use std::collections::BTreeMap;

/// What happened in some runs: a rule that was never put to the test has shown nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Runs.
    pub runs: usize,
    /// For each word of a change, how many changed something.
    pub changes: BTreeMap<&'static str, usize>,
    /// For each word of a fault, the requests and watches that it concerned.
    pub faults: BTreeMap<&'static str, usize>,
    /// For each word of what happens to processes and storage, how often it had an effect.
    pub processes: BTreeMap<&'static str, usize>,
    /// Writes of outputs by verb.
    pub writes: BTreeMap<&'static str, usize>,
    /// Of these, how many were refused.
    pub refused: usize,
    /// Writes of slices that were checked for pods that disappear.
    pub disappearances_checked: usize,
    /// Writes of Endpoints that were checked for pods that disappear.
    pub endpoints_checked: usize,
    /// How often slices were checked for endpoints of pods that were deleted long ago.
    pub dead_checks: usize,
    /// How often a manager was idle and the slices were checked for duplicates.
    pub idle_checks: usize,
    /// How often the slices of a Service were compared with its pods after a quiet time.
    pub services_checked: usize,
    /// The most keys that a controller kept something for.
    pub most_kept: usize,
    /// The most requests in an hour without changes and faults, and in any hour.
    pub most_requests: [usize; 2],
    /// Endpoints in the outputs that were compared with those of new controllers.
    pub compared: usize,
}

impl Statistics {
    /// Adds those of other runs.
    pub fn add(&mut self, other: &Self) {
        self.runs += other.runs;
        let maps = [
            (&mut self.changes, &other.changes),
            (&mut self.faults, &other.faults),
            (&mut self.processes, &other.processes),
            (&mut self.writes, &other.writes),
        ];
        for (sum, other) in maps {
            for (word, number) in other {
                *sum.entry(word).or_default() += number;
            }
        }
        self.refused += other.refused;
        self.disappearances_checked += other.disappearances_checked;
        self.endpoints_checked += other.endpoints_checked;
        self.dead_checks += other.dead_checks;
        self.idle_checks += other.idle_checks;
        self.services_checked += other.services_checked;
        self.most_kept = self.most_kept.max(other.most_kept);
        for (most, other) in self.most_requests.iter_mut().zip(other.most_requests) {
            *most = (*most).max(other);
        }
        self.compared += other.compared;
    }

    /// The words that never had an effect.
    pub fn missing(&self) -> Vec<&'static str> {
        use crate::history::{Change, Fault, Process};
        let maps =
            [(Change::WORDS, &self.changes), (Fault::WORDS, &self.faults), (Process::WORDS, &self.processes)];
        let without_effect = |(words, counts): (&[&'static str], &BTreeMap<&str, usize>)| {
            let is_missing = |word: &&&str| counts.get(**word).copied().unwrap_or_default() == 0;
            words.iter().filter(is_missing).copied().collect::<Vec<_>>()
        };
        maps.into_iter().flat_map(without_effect).collect()
    }
}
