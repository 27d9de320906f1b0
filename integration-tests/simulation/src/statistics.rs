//! Counts changes, faults, requests and checks.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::history::{Change, Fault, Process};
use crate::watcher::{Led, Tested};

/// Counts of some runs. They show if each rule was put to the test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    pub runs: usize,
    /// For each word of a change, how many had an effect.
    pub changes: BTreeMap<&'static str, usize>,
    /// For each word of a fault, the requests and watches that it concerned.
    pub faults: BTreeMap<&'static str, usize>,
    /// The same counts for the faults that concern only one API server.
    pub faults_of_one_server: BTreeMap<&'static str, usize>,
    /// The number of refused requests by status.
    pub refusals: BTreeMap<u16, usize>,
    /// The length of the longest outage that has lost requests of a manager.
    pub longest_outage: Duration,
    /// The maximum number of pods at one time.
    pub most_pods: usize,
    /// For each word of an action on processes and storage, how often it had an effect.
    pub processes: BTreeMap<&'static str, usize>,
    /// Writes of outputs by verb.
    pub writes: BTreeMap<&'static str, usize>,
    /// The refused ones among these.
    pub refused: usize,
    /// Writes of slices that the rules checked for disappearing pods.
    pub disappearances_checked: usize,
    /// Writes of Endpoints that the rules checked for disappearing pods.
    pub endpoints_checked: usize,
    /// Checks of slices for endpoints of pods that have been gone for long.
    pub dead_checks: usize,
    /// Checks of slices for duplicates while a manager was idle.
    pub idle_checks: usize,
    /// Comparisons of the slices of a Service with its pods after a quiet time.
    pub services_checked: usize,
    /// Writes of slices that the rules about clients judged.
    pub writes_judged: usize,
    /// Services that these rules judged after a quiet time.
    pub services_judged: usize,
    /// The maximum numbers of keys with state of a controller, of changes by other clients, and of
    /// writes that its cache did not show yet.
    pub most_kept: [usize; 3],
    /// The maximum numbers of requests in an hour without changes and faults, and in any hour.
    pub most_requests: [usize; 2],
    /// The maximum number of answered lists of whole kinds in an hour.
    pub most_lists: usize,
    /// The maximum number of requests in the quiet time at the end.
    pub most_requests_when_quiet: usize,
    /// Questions of controllers about outputs at times without trouble, which the rule about
    /// questions counted.
    pub questions: usize,
    /// Endpoints in the outputs that the final check compared with those of new controllers.
    pub compared: usize,
    /// The retired Services at the end whose Endpoints the final check missed, and those that it
    /// found, because a user wrote them.
    pub retired: [usize; 2],
    /// The rules for kube-controller-manager and an add-on beside it.
    pub beside: Tested,
    /// The rules for Services with one ready pod.
    pub leading: Led,
}

impl Statistics {
    /// Adds the counts of other runs.
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
        for (sum, other) in self.retired.iter_mut().zip(other.retired) {
            *sum += other;
        }
        self.beside.add(&other.beside);
        self.leading.add(&other.leading);
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

    /// Returns those of these changes that never had an effect.
    pub fn missing_of(&self, changes: &[&'static str]) -> Vec<&'static str> {
        changes.iter().filter(|word| !self.changes.contains_key(**word)).copied().collect()
    }

    /// Returns the words that never had an effect, in histories with one manager at a time. It
    /// counts faults of one API server apart.
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
        let mut missing: Vec<String> = maps.into_iter().flat_map(without_effect).collect();
        let named = &[Process::AT_REQUEST, Fault::FORBIDDEN];
        let elsewhere = [Change::BESIDE, Change::LEADING, Change::RETIRED, named].concat();
        missing.retain(|word| !elsewhere.contains(&&**word));
        missing
    }
}
