//! Metrics of the process: CPU time, memory, file descriptors and start time, under Prometheus' standard names.

use std::sync::OnceLock;

use metrics::{Unit, describe_gauge, gauge};
use metrics_process::Collector;

const START_TIME: &str = "process_start_time_seconds";

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

    /// Reads the metrics, into the current recorder.
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

/// The start of this process in seconds since the epoch, if the system tells it.
fn start_time() -> Option<f64> {
    static START: OnceLock<Option<f64>> = OnceLock::new();
    *START.get_or_init(|| {
        let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
        metrics::with_local_recorder(&recorder, || Collector::default().collect());
        let page = recorder.handle().render();
        let line = page.lines().find_map(|line| line.strip_prefix(START_TIME)?.strip_prefix(' '))?;
        line.parse().ok()
    })
}
