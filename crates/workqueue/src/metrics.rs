//! The metrics of a queue, under client-go's names and labels.
//!
//! A new queue registers its handles once, with the current recorder. Upstream:
//! `util/workqueue/metrics.go` in client-go and `metrics/prometheus/workqueue` in component-base.

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

/// The names of the metrics. Each has one label, `name`: the name of the queue.
pub mod names {
    /// Gauge: keys to be processed, including those that a caller added again while a worker
    /// processed them.
    pub const DEPTH: &str = "workqueue_depth";
    /// Counter: adds that were not merged with an earlier one.
    pub const ADDS: &str = "workqueue_adds_total";
    /// Histogram, seconds: from the add until a worker takes the key.
    pub const QUEUE_DURATION: &str = "workqueue_queue_duration_seconds";
    /// Histogram, seconds: from taking the key until `done`.
    pub const WORK_DURATION: &str = "workqueue_work_duration_seconds";
    /// Gauge, seconds: the sum of the times since workers took the keys that they are processing.
    pub const UNFINISHED_WORK: &str = "workqueue_unfinished_work_seconds";
    /// Gauge, seconds: the longest of these times.
    pub const LONGEST_RUNNING: &str = "workqueue_longest_running_processor_seconds";
    /// Counter: adds with a delay, rate-limited or not.
    pub const RETRIES: &str = "workqueue_retries_total";
    /// Counter: keys that the worker loop dropped after too many retries. client-go has no such
    /// metric.
    pub const DROPPED: &str = "workqueue_dropped_total";
}

/// The names of the histograms, for an exporter that sets their buckets.
pub const HISTOGRAM_NAMES: [&str; 2] = [names::QUEUE_DURATION, names::WORK_DURATION];

/// client-go's buckets for these histograms, in seconds: ten powers of ten, from ten nanoseconds.
pub const HISTOGRAM_BUCKETS: [f64; 10] = [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0];

/// The metrics of one queue.
pub(crate) struct QueueMetrics {
    pub(crate) depth: Gauge,
    pub(crate) adds: Counter,
    pub(crate) queue_duration: Histogram,
    pub(crate) work_duration: Histogram,
    pub(crate) unfinished_work: Gauge,
    pub(crate) longest_running: Gauge,
    pub(crate) retries: Counter,
    pub(crate) dropped: Counter,
}

impl QueueMetrics {
    /// Describes and registers the metrics of the queue `name` with the current recorder.
    pub(crate) fn register(name: &str) -> Self {
        describe();
        let name = name.to_owned();
        Self {
            depth: gauge!(names::DEPTH, "name" => name.clone()),
            adds: counter!(names::ADDS, "name" => name.clone()),
            queue_duration: histogram!(names::QUEUE_DURATION, "name" => name.clone()),
            work_duration: histogram!(names::WORK_DURATION, "name" => name.clone()),
            unfinished_work: gauge!(names::UNFINISHED_WORK, "name" => name.clone()),
            longest_running: gauge!(names::LONGEST_RUNNING, "name" => name.clone()),
            retries: counter!(names::RETRIES, "name" => name.clone()),
            dropped: counter!(names::DROPPED, "name" => name),
        }
    }
}

fn describe() {
    describe_gauge!(names::DEPTH, "[BETA] Current depth of workqueue");
    describe_counter!(names::ADDS, "[BETA] Total number of adds handled by workqueue");
    describe_histogram!(
        names::QUEUE_DURATION,
        Unit::Seconds,
        "[BETA] How long in seconds an item stays in workqueue before being requested."
    );
    describe_histogram!(
        names::WORK_DURATION,
        Unit::Seconds,
        "[BETA] How long in seconds processing an item from workqueue takes."
    );
    describe_gauge!(
        names::UNFINISHED_WORK,
        Unit::Seconds,
        "[BETA] How many seconds of work has done that is in progress and hasn't been observed by work_duration. \
         Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at \
         which this increases."
    );
    describe_gauge!(
        names::LONGEST_RUNNING,
        Unit::Seconds,
        "[BETA] How many seconds has the longest running processor for workqueue been running."
    );
    describe_counter!(names::RETRIES, "[BETA] Total number of retries handled by workqueue");
    describe_counter!(names::DROPPED, "Total number of keys given up because every retry failed");
}
