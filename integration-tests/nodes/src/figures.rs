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
}

impl Figures {
    /// The figures of one observation.
    pub(crate) fn new(rounds: usize, requests: &[Request], delays: Vec<Duration>) -> Self {
        let mut failures = BTreeMap::new();
        for failure in requests.iter().filter_map(|it| it.answer.as_ref().err()) {
            *failures.entry(failure.clone()).or_default() += 1;
        }
        Self { rounds, requests: requests.len(), failures, delays }
    }

    /// Adds those of another observation.
    pub(crate) fn add(&mut self, other: Self) {
        self.rounds += other.rounds;
        self.requests += other.requests;
        self.delays.extend(other.delays);
        for (failure, count) in other.failures {
            *self.failures.entry(failure).or_default() += count;
        }
    }

    /// The heading of the table.
    pub(crate) const HEADING: &str = "\
| scenario | controllers | rounds | requests | failed | changes | p50 ms | p90 ms | max ms |
|---|---|---|---|---|---|---|---|---|";

    /// A row of the table.
    pub(crate) fn row(&self, scenario: &str, controllers: &str) -> String {
        let mut delays = self.delays.clone();
        delays.sort_unstable();
        let ms =
            |it: Option<&Duration>| it.map_or("-".to_owned(), |it| format!("{:.1}", it.as_secs_f64() * 1e3));
        let part = |percent: usize| {
            ms(delays.get((delays.len() * percent / 100).min(delays.len().saturating_sub(1))))
        };
        format!(
            "| {scenario} | {controllers} | {} | {} | {} | {} | {} | {} | {} |",
            self.rounds,
            self.requests,
            self.failed(),
            delays.len(),
            part(50),
            part(90),
            ms(delays.last()),
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
            @"| s | c | 3 | 4 | 3: refused 2, reset 1 | 100 | 51.0 | 91.0 | 100.0 |"
        );
        insta::assert_snapshot!(Figures::default().row("s", "c"), @"| s | c | 0 | 0 | 0 | 0 | - | - | - |");
    }
}
