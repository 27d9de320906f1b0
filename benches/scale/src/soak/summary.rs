//! A table of what a soak found, and the problems among it.

use std::collections::BTreeMap;

use super::lives::{Life, QUANTITIES};
use super::record::{End, Exit, Happened, Line, Sample, Start};
use crate::report::aligned;
use crate::statistics::{median, percentile};
use crate::workload::{counted, thousands};

/// The lines of a file, by kind.
pub(crate) struct Summary {
    start: Option<Start>,
    samples: Vec<Sample>,
    faults: Vec<Happened>,
    exits: Vec<Exit>,
    end: Option<End>,
}

impl Summary {
    pub(crate) fn of(lines: &[Line]) -> Self {
        let mut summary =
            Self { start: None, samples: Vec::new(), faults: Vec::new(), exits: Vec::new(), end: None };
        for line in lines.iter().cloned() {
            match line {
                Line::Start(start) => summary.start = Some(start),
                Line::Sample(sample) => summary.samples.push(sample),
                Line::Fault(fault) => summary.faults.push(fault),
                Line::Exit(exit) => summary.exits.push(exit),
                Line::End(end) => summary.end = Some(end),
            }
        }
        summary
    }

    /// Returns what must not be, in words.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        for (life, quantity) in
            Life::all(&self.samples).iter().flat_map(|life| QUANTITIES.iter().map(move |it| (life, it)))
        {
            if let Some(growth) = life.growth(quantity)
                && growth.is_leak(quantity)
            {
                let (first, last) = (growth.first, growth.last);
                problems.push(format!(
                    "replica {} grew from {first:.1} to {last:.1} {}",
                    life.replica, quantity.name
                ));
            }
        }
        let unexpected = self.exits.iter().filter(|exit| exit.by_itself && !exit.lost_its_lease());
        problems.extend(unexpected.map(|exit| format!("replica {}: {}", exit.replica, exit.how)));
        let Some(end) = &self.end else {
            problems.push("the soak did not come to its end".into());
            return problems;
        };
        let own = ("a new process", Some(end.own_writes));
        for (who, writes) in [own, ("the command of --upstream", end.upstream_writes)] {
            if let Some(writes @ 1..) = writes {
                problems.push(format!("{who} wrote {} after the end", counted(writes, "object")));
            }
        }
        problems
    }

    /// Returns the summary for people.
    pub(crate) fn text(&self) -> String {
        let start = self.start.as_ref().map_or_else(String::new, |start| {
            format!("{}\n{}; {}; seed {}\n\n", start.command, start.server, start.work, start.seed)
        });
        let mut rows = vec![vec!["time".to_owned(), hours(self.samples.last().map_or(0.0, |it| it.at))]];
        rows.extend(self.work());
        rows.extend(self.growth());
        rows.extend(self.latencies());
        rows.extend(self.end());
        start + &aligned(&rows)
    }

    /// Returns rows of changes, writes, faults and processes.
    fn work(&self) -> Vec<Vec<String>> {
        let mut rows = Vec::new();
        if let Some(end) = &self.end {
            rows.push(row("changes", thousands(end.changes.values().sum())));
            rows.extend(end.changes.iter().map(|(kind, count)| row(&format!("  {kind}"), thousands(*count))));
        }
        let sum = |of: fn(&Sample) -> usize| thousands(self.samples.iter().map(of).sum());
        rows.push(row("writes of EndpointSlices", sum(|it| it.slice_writes)));
        rows.push(row("writes of Endpoints", sum(|it| it.endpoints_writes)));
        let mut kinds: BTreeMap<_, (usize, f64)> = BTreeMap::new();
        for fault in &self.faults {
            let (count, seconds) = kinds.entry(fault.kind).or_default();
            (*count, *seconds) = (*count + 1, *seconds + fault.until - fault.at);
        }
        rows.push(row("faults", thousands(self.faults.len())));
        rows.extend(
            kinds.iter().map(|(kind, (count, seconds))| {
                row(&format!("  {kind}"), format!("{count} ({seconds:.0} s)"))
            }),
        );
        let by_itself = self.exits.iter().filter(|exit| exit.by_itself).count();
        let lost = self.exits.iter().filter(|exit| exit.lost_its_lease()).count();
        rows.push(row("processes ended by a signal", thousands(self.exits.len() - by_itself)));
        rows.push(row("processes that lost the Lease and ended", thousands(lost)));
        rows.push(row("processes that ended otherwise", thousands(by_itself - lost)));
        rows
    }

    /// Returns rows of CPU, and of quantities that must not grow.
    fn growth(&self) -> Vec<Vec<String>> {
        let lives = Life::all(&self.samples);
        let cpu: f64 = lives.iter().map(Life::cpu).sum();
        let mut rows = vec![row("CPU of both replicas", format!("{cpu:.0} s"))];
        let quarter = self.samples.len().div_ceil(4);
        let quarters = [
            ("first quarter", &self.samples[..quarter]),
            ("last quarter", &self.samples[self.samples.len() - quarter..]),
        ];
        for quantity in &QUANTITIES {
            for (when, samples) in quarters {
                let values: Vec<f64> = samples.iter().flat_map(|it| &it.replicas).map(quantity.of).collect();
                let Some(middle) = median(&values) else { continue };
                let part = |part| percentile(&values, part).unwrap_or_default();
                let name = format!("{}, {when}: min, median, max", quantity.name);
                rows.push(row(&name, format!("{:.1}  {middle:.1}  {:.1}", part(0.0), part(1.0))));
            }
        }
        for replica in 0..super::REPLICAS {
            let own = lives.iter().filter(|life| life.replica == replica);
            let Some(longest) = own.max_by(|one, other| one.age().total_cmp(&other.age())) else { continue };
            for quantity in &QUANTITIES {
                if let Some(growth) = longest.growth(quantity) {
                    let name = format!(
                        "{}, longest process of replica {replica} ({})",
                        quantity.name,
                        hours(longest.age())
                    );
                    rows.push(row(
                        &name,
                        format!("{:.1} to {:.1}, {:+.2} an hour", growth.first, growth.last, growth.an_hour),
                    ));
                }
            }
        }
        rows
    }

    fn latencies(&self) -> Vec<Vec<String>> {
        let of = |when: &str, of: fn(&Sample) -> &Vec<f64>| {
            let values: Vec<f64> = self.samples.iter().flat_map(of).copied().collect();
            let middle = median(&values)?;
            let part = |part| percentile(&values, part).unwrap_or_default();
            let name = format!("latency {when}, {}: p50, p99, max in ms", counted(values.len(), "change"));
            Some(row(&name, format!("{middle:.1}  {:.1}  {:.1}", part(0.99), part(1.0))))
        };
        let all = [of("without a fault", |it| &it.calm_ms), of("around faults", |it| &it.disturbed_ms)];
        all.into_iter().flatten().collect()
    }

    fn end(&self) -> Vec<Vec<String>> {
        let Some(end) = &self.end else { return Vec::new() };
        let mut rows = vec![
            row("quiet after the last change, with --settle", format!("{:.1} s", end.quiet_after)),
            row(
                &format!("writes of a new process in {} s and one change", end.checked_for),
                thousands(end.own_writes),
            ),
        ];
        rows.extend(end.upstream_writes.map(|writes| {
            let name = format!("writes of the command of --upstream in {} s and one change", end.checked_for);
            row(&name, thousands(writes))
        }));
        rows
    }
}

fn row(name: &str, value: String) -> Vec<String> {
    vec![name.to_owned(), value]
}

/// Returns a time in hours and minutes, or in seconds.
fn hours(seconds: f64) -> String {
    if seconds < 120.0 {
        return format!("{seconds:.0} s");
    }
    let minutes = (seconds / 60.0).round() as u64;
    if minutes < 60 { format!("{minutes} min") } else { format!("{} h {} min", minutes / 60, minutes % 60) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::tests::lines;

    #[test]
    fn the_summary_has_changes_faults_growth_latencies_and_writes() {
        let summary = Summary::of(&lines());
        insta::assert_snapshot!(summary.text());
        assert_eq!(summary.problems(), Vec::<String>::new());
    }

    #[test]
    fn growth_writes_and_crashes_are_problems() {
        let mut lines = lines();
        for line in &mut lines {
            match line {
                Line::Sample(sample) => {
                    sample.replicas[0].rss_mb += sample.at / 50.0;
                    sample.replicas[1].descriptors += sample.at as usize / 100;
                }
                Line::Exit(exit) => exit.how = exit.how.replace("status: 1", "status: 101"),
                Line::End(end) => (end.own_writes, end.upstream_writes) = (1, Some(2)),
                _ => {}
            }
        }
        insta::assert_snapshot!(Summary::of(&lines).problems().join("\n"));
        lines.pop();
        let problems = Summary::of(&lines).problems();
        assert_eq!(problems.last().unwrap(), "the soak did not come to its end");
    }

    #[test]
    fn an_end_without_the_reason_that_the_lease_is_lost_is_a_problem() {
        let check = |how: &str, lost: bool| {
            let mut lines = lines();
            for line in &mut lines {
                if let Line::Exit(exit) = line
                    && exit.by_itself
                {
                    exit.how = how.to_owned();
                }
            }
            let summary = Summary::of(&lines);
            assert_eq!(summary.problems().is_empty(), lost, "{how}");
            let rows = summary.work();
            let value = |name: &str| rows.iter().find(|row| row[0] == name).unwrap()[1].clone();
            assert_eq!(value("processes that lost the Lease and ended"), usize::from(lost).to_string());
            assert_eq!(value("processes that ended otherwise"), usize::from(!lost).to_string());
        };
        let error = "leader election lost: lease kube-system/a was not renewed within 10s: timeout";
        check(&format!("a ended by itself (exit status: 1). Its last output:\n    error: {error}"), true);
        check("b ended by itself (exit status: 1). Its last output:\n    E1 leaderelection lost", true);
        check("a ended by itself (exit status: 1). Its last output:\n    error: pods failed: panic", false);
        check("a ended by itself (exit status: 1), without output", false);
        check(&format!("a ended by itself (exit status: 101). Its last output:\n    {error}"), false);
        check("it did not end within 20 s after SIGTERM", false);
    }

    #[test]
    fn times_are_in_hours_from_an_hour_on() {
        let check = |seconds, want: &str| assert_eq!(hours(seconds), want);
        check(100.4, "100 s");
        check(600.0, "10 min");
        check(7_500.0, "2 h 5 min");
    }
}
