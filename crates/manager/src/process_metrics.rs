//! Metrics of the process under Prometheus' standard names: CPU time, memory, file descriptors and
//! start time.
//!
//! A counter of the `metrics` facade is a whole number, so a recorder holds the CPU time in whole
//! seconds. [`with_cpu_time`] replaces the number on a page by the exact one.

use std::sync::OnceLock;

use metrics::{Unit, describe_gauge, gauge};
use metrics_process::Collector;
use metrics_process::collector::collect;

const START_TIME: &str = "process_start_time_seconds";
const CPU_TIME: &str = "process_cpu_seconds_total";

/// Reads the metrics of this process.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessMetrics(Collector);

impl ProcessMetrics {
    /// Describes the metrics to the current recorder.
    pub(crate) fn new() -> Self {
        let collector = Collector::default();
        collector.describe();
        Self(collector)
    }

    /// Reads the metrics into the current recorder.
    pub(crate) fn update(&self) {
        self.0.collect();
    }

    /// Describes and sets the start time alone.
    pub(crate) fn record_start_time() {
        describe_gauge!(START_TIME, Unit::Seconds, "Start time of the process since unix epoch in seconds.");
        if let Some(start) = start_time() {
            gauge!(START_TIME).set(start);
        }
    }
}

/// Returns the start of this process in seconds since the epoch, if the system tells it.
fn start_time() -> Option<f64> {
    static START: OnceLock<Option<f64>> = OnceLock::new();
    *START.get_or_init(|| Some(collect().start_time_seconds? as f64))
}

/// Shows the CPU time of this process with hundredths of seconds on a page that a Prometheus
/// recorder has rendered. This changes nothing else, and keeps labels that the recorder adds. It
/// returns the page unchanged if the page lacks the metric, or if the system does not tell the
/// time.
///
/// [`Manager::serve`](crate::Manager::serve) calls this. Call it yourself before you serve the page
/// of a recorder of your own:
///
/// ```
/// # use kube_endpoint_controllers::{metrics_recorder, with_cpu_time};
/// let recorder = metrics_recorder()?;
/// let page = with_cpu_time(recorder.handle().render());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn with_cpu_time(page: String) -> String {
    match collect().cpu_seconds_total {
        Some(seconds) => with_value(page, seconds),
        None => page,
    }
}

/// Replaces the value of the CPU time on a page.
fn with_value(mut page: String, seconds: f64) -> String {
    let mut from = 0;
    while let Some(at) = page[from..].find(CPU_TIME).map(|at| from + at) {
        from = at + CPU_TIME.len();
        // Comments on the page name the metric in the middle of a line.
        let begins = at == 0 || page.as_bytes()[at - 1] == b'\n';
        if !(begins && page[from..].starts_with([' ', '{'])) {
            continue;
        }
        let end = page[from..].find('\n').map_or(page.len(), |end| from + end);
        if let Some(space) = page[from..end].rfind(' ') {
            page.replace_range(from + space + 1..end, &format!("{seconds:.2}"));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use metrics::{counter, describe_counter, with_local_recorder};
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    #[test]
    fn only_the_value_of_the_cpu_time_is_replaced() {
        let page = "# HELP process_cpu_seconds_total Of process_cpu_seconds_total.\n\
                    # TYPE process_cpu_seconds_total counter\n\
                    process_cpu_seconds_total{cluster=\"a b\"} 12\n\
                    process_cpu_seconds_total_more 3\nother 4\nprocess_cpu_seconds_total 5";
        insta::assert_snapshot!(with_value(page.to_owned(), 12.345), @r#"
        # HELP process_cpu_seconds_total Of process_cpu_seconds_total.
        # TYPE process_cpu_seconds_total counter
        process_cpu_seconds_total{cluster="a b"} 12.35
        process_cpu_seconds_total_more 3
        other 4
        process_cpu_seconds_total 12.35
        "#);
        assert_eq!(with_value("other 1\n".to_owned(), 1.0), "other 1\n");
    }

    #[test]
    fn a_page_has_the_cpu_time_once_and_in_fractions() {
        let recorder = PrometheusBuilder::new().add_global_label("cluster", "blue").build_recorder();
        with_local_recorder(&recorder, || {
            let process = ProcessMetrics::new();
            process.update();
            process.update();
            describe_counter!("other_total", "Another one.");
            counter!("other_total").increment(3);
        });
        // The rendering itself takes CPU time, so at some point it is no whole number of seconds.
        let is_fraction = |value: &str| value.split_once('.').is_some_and(|(_, part)| part != "00");
        let page = (0..)
            .map(|_| with_cpu_time(recorder.handle().render()))
            .find(|page| page.lines().any(|it| it.starts_with(CPU_TIME) && is_fraction(it)));
        let page = page.unwrap();
        let lines: Vec<&str> = page.lines().filter(|line| line.contains(CPU_TIME)).collect();
        assert_eq!(lines.len(), 3, "{lines:#?}");
        assert!(lines[0].starts_with("# HELP process_cpu_seconds_total Total user and system CPU time"));
        assert_eq!(lines[1], "# TYPE process_cpu_seconds_total counter");
        assert!(lines[2].starts_with("process_cpu_seconds_total{cluster=\"blue\"} "), "{}", lines[2]);
        assert!(page.contains("other_total{cluster=\"blue\"} 3\n"));
    }
}
