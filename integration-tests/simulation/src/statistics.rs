//! Counts of changes, faults, requests and checks.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{Change, Fault, Process};

/// Counts of some runs. A rule that was never put to the test has shown nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub runs: usize,
    /// For each word of a change, how many changed something.
    pub changes: BTreeMap<&'static str, usize>,
    /// For each word of a fault, the requests and watches that it concerned.
    pub faults: BTreeMap<&'static str, usize>,
    /// The same for those faults only that concern one API server.
    pub faults_of_one_server: BTreeMap<&'static str, usize>,
    /// For each status with which requests are refused, how many were.
    pub refusals: BTreeMap<u16, usize>,
    /// The longest time for which all requests of a manager were lost, of outages that concerned
    /// some.
    pub longest_outage: Duration,
    /// The most pods that there were at one time.
    pub most_pods: usize,
    /// For each word of what happens to processes and storage, how often it had an effect.
    pub processes: BTreeMap<&'static str, usize>,
    /// Writes of outputs by verb.
    pub writes: BTreeMap<&'static str, usize>,
    /// The refused ones among these.
    pub refused: usize,
    /// Writes of slices that were checked for pods that disappear.
    pub disappearances_checked: usize,
    /// Writes of Endpoints that were checked for pods that disappear.
    pub endpoints_checked: usize,
    /// Checks of slices for endpoints of pods that were deleted long ago.
    pub dead_checks: usize,
    /// Checks of slices for duplicates while a manager was idle.
    pub idle_checks: usize,
    /// Comparisons of the slices of a Service with its pods after a quiet time.
    pub services_checked: usize,
    /// Writes of slices that the rules about clients judged.
    pub writes_judged: usize,
    /// Services that these rules judged after a quiet time.
    pub services_judged: usize,
    /// The most keys that a controller kept something for, the most changes by other clients, and
    /// the most writes that its cache did not show yet.
    pub most_kept: [usize; 3],
    /// The most requests in an hour without changes and faults, and in any hour.
    pub most_requests: [usize; 2],
    /// The most lists of whole kinds that were answered in an hour.
    pub most_lists: usize,
    /// The most requests in the quiet time at the end.
    pub most_requests_when_quiet: usize,
    /// Questions of controllers about outputs that were counted, because nothing had gone wrong for
    /// some time.
    pub questions: usize,
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
            (&mut self.faults_of_one_server, &other.faults_of_one_server),
            (&mut self.processes, &other.processes),
            (&mut self.writes, &other.writes),
        ];
        for (sum, other) in maps {
            for (word, number) in other {
                *sum.entry(word).or_default() += number;
            }
        }
        for (status, number) in &other.refusals {
            *self.refusals.entry(*status).or_default() += number;
        }
        self.longest_outage = self.longest_outage.max(other.longest_outage);
        self.most_pods = self.most_pods.max(other.most_pods);
        self.questions += other.questions;
        self.most_requests_when_quiet = self.most_requests_when_quiet.max(other.most_requests_when_quiet);
        self.most_lists = self.most_lists.max(other.most_lists);
        self.refused += other.refused;
        self.disappearances_checked += other.disappearances_checked;
        self.endpoints_checked += other.endpoints_checked;
        self.dead_checks += other.dead_checks;
        self.idle_checks += other.idle_checks;
        self.services_checked += other.services_checked;
        self.writes_judged += other.writes_judged;
        self.services_judged += other.services_judged;
        for (most, other) in self.most_kept.iter_mut().zip(other.most_kept) {
            *most = (*most).max(other);
        }
        for (most, other) in self.most_requests.iter_mut().zip(other.most_requests) {
            *most = (*most).max(other);
        }
        self.compared += other.compared;
    }

    /// Counts a fault that ends.
    pub(crate) fn fault(&mut self, fault: &Fault, hits: usize, lasted: Duration) {
        *self.faults.entry(fault.word()).or_default() += hits;
        if fault.server().is_some() {
            *self.faults_of_one_server.entry(fault.word()).or_default() += hits;
        }
        match fault {
            Fault::Refused { status, .. } => *self.refusals.entry(*status).or_default() += hits,
            Fault::Unreachable { server: None, .. } | Fault::HalfOpen { server: None, .. } if hits > 0 => {
                self.longest_outage = self.longest_outage.max(lasted);
            }
            _ => {}
        }
    }

    /// Returns the words that never had an effect. Faults of one API server are counted apart.
    pub fn missing(&self) -> Vec<String> {
        let maps = [
            (Change::WORDS, &self.changes, ""),
            (Fault::WORDS, &self.faults, ""),
            (Fault::OF_ONE_SERVER, &self.faults_of_one_server, " of one server"),
            (Process::WORDS, &self.processes, ""),
        ];
        let without_effect = |(words, counts, of): (&[&'static str], &BTreeMap<&str, usize>, &str)| {
            let is_missing = |word: &&&str| counts.get(**word).copied().unwrap_or_default() == 0;
            words.iter().filter(is_missing).map(|word| format!("{word}{of}")).collect::<Vec<_>>()
        };
        maps.into_iter().flat_map(without_effect).collect()
    }
}
