//! Metrics of the process under Prometheus' standard names: CPU time, memory, file descriptors and
//! start time.
//!
//! A counter of the `metrics` facade is a whole number, so a recorder holds the CPU time in whole
//! seconds. [`with_cpu_time`] replaces the number on a page by the exact one.

use metrics::{Unit, counter, describe_counter, describe_gauge, gauge};
use rustix::process::Resource;

use crate::own_process;

const CPU_TIME: &str = "process_cpu_seconds_total";

/// A gauge: its name, its unit, its help text, and the way to its value, which a system may lack.
type Gauge = (&'static str, Unit, &'static str, fn() -> Option<u64>);

const START_TIME: Gauge = (
    "process_start_time_seconds",
    Unit::Seconds,
    "Start time of the process since unix epoch in seconds.",
    own_process::start_time,
);
const GAUGES: [Gauge; 7] = [
    ("process_open_fds", Unit::Count, "Number of open file descriptors.", own_process::open_files),
    ("process_max_fds", Unit::Count, "Maximum number of open file descriptors.", || {
        own_process::limit(Resource::Nofile)
    }),
    ("process_virtual_memory_bytes", Unit::Bytes, "Virtual memory size in bytes.", || {
        own_process::status("VmSize")
    }),
    (
        "process_virtual_memory_max_bytes",
        Unit::Bytes,
        "Maximum amount of virtual memory available in bytes.",
        || own_process::limit(Resource::As),
    ),
    ("process_resident_memory_bytes", Unit::Bytes, "Resident memory size in bytes.", || {
        own_process::status("VmRSS")
    }),
    ("process_threads", Unit::Count, "Number of OS threads in the process.", || {
        own_process::status("Threads")
    }),
    START_TIME,
];

/// Describes the metrics to the current recorder.
pub(crate) fn describe() {
    describe_counter!(CPU_TIME, Unit::Seconds, "Total user and system CPU time spent in seconds.");
    for (name, unit, help, _) in GAUGES {
        describe_gauge!(name, unit, help);
    }
}

/// Reads the metrics into the current recorder.
pub(crate) fn update() {
    counter!(CPU_TIME).absolute(own_process::cpu_time() as u64);
    for (name, _, _, value) in GAUGES {
        if let Some(value) = value() {
            gauge!(name).set(value as f64);
        }
    }
}

/// Describes and sets the start time alone.
pub(crate) fn record_start_time() {
    let (name, unit, help, value) = START_TIME;
    describe_gauge!(name, unit, help);
    if let Some(value) = value() {
        gauge!(name).set(value as f64);
    }
}

/// Shows the CPU time of this process with hundredths of seconds on a page that a Prometheus
/// recorder has rendered. This changes nothing else, and keeps labels that the recorder adds. It
/// returns the page unchanged if the page lacks the metric.
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
    with_value(page, own_process::cpu_time())
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
            describe();
            update();
            update();
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
