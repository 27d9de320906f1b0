//! Figures of a scenario, and their row in a table.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::ask::Request;

/// The requests of clients, and the waits of changes.
#[derive(Clone, Default)]
pub(crate) struct Figures {
    /// How often the scenario was played.
    pub(crate) rounds: usize,
    requests: usize,
    failures: BTreeMap<String, usize>,
    delays: Vec<Duration>,
    /// From the readiness of a pod to its first answer.
    answers: Vec<Duration>,
}

impl Figures {
    /// The figures of one observation.
    pub(crate) fn new(rounds: usize, requests: &[Request], delays: Vec<Duration>) -> Self {
        let mut failures = BTreeMap::new();
        for failure in requests.iter().filter_map(|it| it.answer.as_ref().err()) {
            *failures.entry(failure.clone()).or_default() += 1;
        }
        Self { rounds, requests: requests.len(), failures, delays, answers: Vec::new() }
    }

    /// Adds the waits for the first answers of pods that have become `ready`, at these seconds of
    /// the epoch.
    pub(crate) fn with_first_answers(mut self, requests: &[Request], ready: &BTreeMap<String, f64>) -> Self {
        let mut answers = BTreeMap::<_, Vec<f64>>::new();
        for request in requests {
            if let Ok((pod, _)) = &request.answer {
                answers.entry(pod).or_default().push(request.at + request.took / 1e3);
            }
        }
        // An earlier pod of a StatefulSet may have answered with the same name.
        let wait = |(pod, ready): (&String, &f64)| {
            answers.get(pod)?.iter().map(|at| at - ready).filter(|it| *it >= 0.0).min_by(f64::total_cmp)
        };
        self.answers = ready.iter().filter_map(wait).map(Duration::from_secs_f64).collect();
        self
    }

    /// Adds those of another observation.
    pub(crate) fn add(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.requests += other.requests;
        self.delays.extend(other.delays);
        self.answers.extend(other.answers);
        for (failure, count) in other.failures {
            *self.failures.entry(failure).or_default() += count;
        }
    }

    /// The heading of the table.
    pub(crate) const HEADING: &str = "\
| scenario | controllers | rounds | requests | failed | changes | p50 ms | p90 ms | max ms | first answer p50 ms | p99 ms |
|---|---|---|---|---|---|---|---|---|---|---|";

    /// A row of the table.
    pub(crate) fn row(&self, scenario: &str, controllers: &str) -> String {
        let parts = |of: &[Duration], percents: &[usize]| {
            let mut of = of.to_vec();
            of.sort_unstable();
            let part = |percent: &usize| of.get((of.len() * percent / 100).min(of.len().saturating_sub(1)));
            let ms = |it: &Duration| format!("{:.1}", it.as_secs_f64() * 1e3);
            let cells: Vec<String> = percents.iter().map(|it| part(it).map_or("-".to_owned(), ms)).collect();
            cells.join(" | ")
        };
        format!(
            "| {scenario} | {controllers} | {} | {} | {} | {} | {} | {} |",
            self.rounds,
            self.requests,
            self.failed(),
            self.delays.len(),
            parts(&self.delays, &[50, 90, 100]),
            parts(&self.answers, &[50, 99]),
        )
    }

    /// The number of failed requests, in total and by kind.
    pub(crate) fn failed(&self) -> String {
        let kinds: Vec<String> =
            self.failures.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let failed: usize = self.failures.values().sum();
        if failed == 0 { "0".to_owned() } else { format!("{failed}: {}", kinds.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(answer: Result<(), &str>) -> Request {
        let answer = answer.map(|()| ("a".to_owned(), "follows".to_owned())).map_err(str::to_owned);
        Request { at: 0.0, took: 1.0, answer }
    }

    #[test]
    fn a_row_has_failures_by_kind_and_parts_of_the_delays() {
        let delays = |range: std::ops::RangeInclusive<u64>| range.map(Duration::from_millis).collect();
        let mut figures = Figures::new(1, &[request(Ok(())), request(Err("refused"))], delays(1..=60));
        figures.add(Figures::new(2, &[request(Err("reset")), request(Err("refused"))], delays(61..=100)));
        insta::assert_snapshot!(
            figures.row("s", "c"),
            @"| s | c | 3 | 4 | 3: refused 2, reset 1 | 100 | 51.0 | 91.0 | 100.0 | - | - |"
        );
        insta::assert_snapshot!(Figures::default().row("s", "c"), @"| s | c | 0 | 0 | 0 | 0 | - | - | - | - | - |");
    }

    #[test]
    fn a_first_answer_is_measured_from_the_readiness_of_the_pod() {
        let requests = [2.0, 1.0, 0.5].map(|at| Request { at, ..request(Ok(())) });
        let ready = BTreeMap::from([("a".to_owned(), 0.9), ("b".to_owned(), 0.9)]);
        let figures = Figures::new(1, &requests, Vec::new()).with_first_answers(&requests, &ready);
        insta::assert_snapshot!(figures.row("s", "c"), @"| s | c | 1 | 3 | 0 | 0 | - | - | - | 101.0 | 101.0 |");
    }
}
