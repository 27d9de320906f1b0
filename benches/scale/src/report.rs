//! The figures of a run: their names and units, the JSON and the table.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::statistics::{median, ratio};
use crate::workload::{Workload, thousands};

/// The figures of one round, by the keys of [`METRICS`].
pub(crate) type Figures = BTreeMap<String, f64>;

/// The result of a run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Report {
    pub(crate) workload: Workload,
    /// The work after the cold start.
    pub(crate) work: String,
    pub(crate) server: String,
    pub(crate) cpus: usize,
    /// The load average of the last minute before the first round.
    pub(crate) load_average: Option<f64>,
    /// The measured controllers.
    pub(crate) subjects: Vec<Subject>,
    /// The median of the first controller divided by that of the second.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) ratios: Figures,
}

/// A measured controller.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Subject {
    /// The name of the program.
    pub(crate) name: String,
    pub(crate) command: String,
    pub(crate) rounds: Vec<Figures>,
}

/// The format of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Seconds,
    Milliseconds,
    Megabytes,
    Bytes,
    Count,
    PerSecond,
}

struct Metric {
    key: &'static str,
    label: &'static str,
    unit: Unit,
}

const fn metric(key: &'static str, label: &'static str, unit: Unit) -> Metric {
    Metric { key, label, unit }
}

/// All figures, in the order of the table.
const METRICS: &[Metric] = &[
    metric("cold_s", "cold start: wall time", Unit::Seconds),
    metric("cold_cpu_s", "cold start: CPU", Unit::Seconds),
    metric("cold_server_cpu_s", "cold start: CPU of the API server", Unit::Seconds),
    metric("cold_slice_writes", "cold start: writes of slices", Unit::Count),
    metric("cold_endpoints_writes", "cold start: writes of Endpoints", Unit::Count),
    metric("cold_peak_mb", "cold start: peak memory", Unit::Megabytes),
    metric("cold_rss_mb", "cold start: resident memory afterwards", Unit::Megabytes),
    metric("slices", "EndpointSlices", Unit::Count),
    metric("flips", "churn: changes of readiness", Unit::Count),
    metric("flip_rate", "churn: changes a second", Unit::PerSecond),
    metric("churn_cpu_s", "churn: CPU", Unit::Seconds),
    metric("churn_cpu_ms_per_flip", "churn: CPU a change", Unit::Milliseconds),
    metric("churn_server_cpu_s", "churn: CPU of the API server", Unit::Seconds),
    metric("lat_p50_ms", "from flip to slice: p50", Unit::Milliseconds),
    metric("lat_p90_ms", "from flip to slice: p90", Unit::Milliseconds),
    metric("lat_p99_ms", "from flip to slice: p99", Unit::Milliseconds),
    metric("lat_n", "from flip to slice: seen", Unit::Count),
    metric("unanswered", "from flip to slice: not seen in time", Unit::Count),
    metric("slice_writes", "writes of slices", Unit::Count),
    metric("endpoints_writes", "writes of Endpoints", Unit::Count),
    metric("watch_events", "events for a watcher of slices", Unit::Count),
    metric("watch_bytes", "bytes for a watcher of slices", Unit::Bytes),
    metric("peak_mb", "peak memory", Unit::Megabytes),
    metric("rss_end_mb", "resident memory at the end", Unit::Megabytes),
];

/// Figures that are the same for all controllers, so that a ratio has no meaning.
const WITHOUT_RATIO: [&str; 5] = ["slices", "flips", "flip_rate", "lat_n", "unanswered"];

impl Subject {
    /// Returns the median of a figure over all rounds.
    pub(crate) fn median(&self, key: &str) -> Option<f64> {
        let values: Vec<f64> = self.rounds.iter().filter_map(|round| round.get(key).copied()).collect();
        median(&values)
    }
}

/// Returns the medians of the first controller divided by those of the second.
pub(crate) fn ratios(subjects: &[Subject]) -> Figures {
    let [first, second] = subjects else { return Figures::new() };
    let keys = METRICS.iter().map(|metric| metric.key).filter(|key| !WITHOUT_RATIO.contains(key));
    let ratio = |key: &str| Some(first.median(key)? / second.median(key)?);
    keys.filter_map(|key| Some((key.to_owned(), ratio(key).filter(|ratio| ratio.is_finite())?))).collect()
}

impl Report {
    /// Returns the table for people.
    pub(crate) fn table(&self) -> String {
        let mut rows = vec![self.head()];
        for metric in METRICS {
            let medians: Vec<Option<f64>> =
                self.subjects.iter().map(|subject| subject.median(metric.key)).collect();
            if medians.iter().all(Option::is_none) {
                continue;
            }
            let mut row = vec![metric.label.to_owned()];
            row.extend(
                medians.iter().map(|median| median.map_or_else(String::new, |it| metric.unit.text(it))),
            );
            if let [Some(first), Some(second)] = medians[..] {
                let says_something = !WITHOUT_RATIO.contains(&metric.key);
                row.push(if says_something { ratio(first, second) } else { String::new() });
            }
            rows.push(row);
        }
        let rounds = self.subjects.first().map_or(0, |subject| subject.rounds.len());
        let medians = if rounds > 1 { format!("; medians of {rounds} rounds") } else { String::new() };
        let load =
            self.load_average.map_or_else(String::new, |load| format!(", load average {load:.1} before"));
        format!(
            "{}\n{}{medians}\n{}; {} CPUs{load}\n\n{}",
            self.workload.describe(),
            self.work,
            self.server,
            self.cpus,
            aligned(&rows)
        )
    }

    fn head(&self) -> Vec<String> {
        let mut head = vec![String::new()];
        head.extend(self.subjects.iter().map(|subject| subject.name.clone()));
        if self.subjects.len() == 2 {
            head.push("ratio".to_owned());
        }
        head
    }
}

impl Unit {
    fn text(self, value: f64) -> String {
        let digits = match value.abs() {
            size if size < 10.0 => 2,
            size if size < 100.0 => 1,
            _ => 0,
        };
        match self {
            Self::Seconds => format!("{value:.digits$} s"),
            Self::Milliseconds => format!("{value:.digits$} ms"),
            Self::Megabytes => {
                let digits = digits.min(1);
                format!("{value:.digits$} MB")
            }
            Self::Bytes if value < 10_000.0 => format!("{value:.0} B"),
            Self::Bytes if value < 10_000_000.0 => format!("{:.1} kB", value / 1e3),
            Self::Bytes => format!("{:.1} MB", value / 1e6),
            Self::Count => thousands(value.round() as usize),
            Self::PerSecond => format!("{value:.1}"),
        }
    }
}

/// Formats rows of cells as columns: aligns the first to the left, the others to the right.
fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            line += &if column == 0 { format!("{cell:<width$}") } else { format!("  {cell:>width$}") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::workload;

    fn subject(name: &str, rounds: &[&[(&str, f64)]]) -> Subject {
        let figures =
            |round: &&[(&str, f64)]| round.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        Subject {
            name: name.into(),
            command: format!("{name} --flag"),
            rounds: rounds.iter().map(figures).collect(),
        }
    }

    fn report(subjects: Vec<Subject>) -> Report {
        Report {
            workload: workload(),
            work: "200 changes of readiness, 40 a second".into(),
            server: "embedded API server".into(),
            cpus: 2,
            load_average: Some(1.25),
            ratios: ratios(&subjects),
            subjects,
        }
    }

    #[test]
    fn one_controller_has_a_column() {
        let figures: Vec<(&str, f64)> = METRICS.iter().map(|metric| (metric.key, 1234.5678)).collect();
        insta::assert_snapshot!(report(vec![subject("kube-endpoint-manager", &[&figures])]).table());
    }

    #[test]
    fn two_controllers_have_ratios_of_medians() {
        let ours = subject(
            "kube-endpoint-manager",
            &[
                &[("cold_cpu_s", 0.5), ("peak_mb", 42.0), ("lat_n", 200.0)],
                &[("cold_cpu_s", 0.7)],
                &[("cold_cpu_s", 9.0)],
            ],
        );
        let theirs = subject(
            "kube-controller-manager",
            &[&[("cold_cpu_s", 5.4), ("peak_mb", 231.0), ("lat_n", 100.0), ("watch_bytes", 123_456.0)]],
        );
        let report = report(vec![ours, theirs]);
        insta::assert_snapshot!(report.table());
        insta::assert_json_snapshot!(report.ratios);
    }

    #[test]
    fn figures_have_three_digits() {
        let check = |unit: Unit, value, want: &str| assert_eq!(unit.text(value), want);
        check(Unit::Seconds, 0.654, "0.65 s");
        check(Unit::Seconds, 81.92, "81.9 s");
        check(Unit::Milliseconds, 2_541.3, "2541 ms");
        check(Unit::Megabytes, 39.04, "39.0 MB");
        check(Unit::Bytes, 999.0, "999 B");
        check(Unit::Bytes, 123_456.0, "123.5 kB");
        check(Unit::Bytes, 12_345_678.0, "12.3 MB");
        check(Unit::Count, 1_412.0, "1,412");
    }
}
