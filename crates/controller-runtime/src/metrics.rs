//! Metrics that all controllers share. Each has the label `name`: the name of the controller's
//! queue.

use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};

use crate::latency::EVENT_TO_WRITE;

const SLOW_RETRY_KEYS: &str = "slow_retry_keys";
const FAILING_KEYS: &str = "failing_keys";
const WOKEN_KEYS: &str = "woken_keys_total";
const RESYNCED_KEYS: &str = "resynced_keys_total";
const FOREIGN_WRITE_CONFLICTS: &str = "foreign_write_conflicts_total";

/// The metrics of one controller.
pub(crate) struct Metrics {
    pub(crate) failing_keys: Gauge,
    pub(crate) slow_retry_keys: Gauge,
    pub(crate) woken_keys: Counter,
    pub(crate) resynced_keys: Counter,
    pub(crate) foreign_write_conflicts: Counter,
    pub(crate) event_to_write: Histogram,
}

impl Metrics {
    /// Describes and registers the metrics with the current recorder.
    pub(crate) fn register(queue: &'static str) -> Self {
        describe_gauge!(
            FAILING_KEYS,
            Unit::Count,
            "Number of keys whose last sync failed, including those that are retried slowly"
        );
        describe_gauge!(
            SLOW_RETRY_KEYS,
            Unit::Count,
            "Number of keys whose retries have all failed and that are now retried slowly"
        );
        describe_counter!(
            WOKEN_KEYS,
            Unit::Count,
            "Number of failed keys that were synced early to find out whether an outage has ended, or because it has"
        );
        describe_counter!(
            RESYNCED_KEYS,
            Unit::Count,
            "Number of keys that were synced by the periodic resync"
        );
        describe_counter!(
            FOREIGN_WRITE_CONFLICTS,
            Unit::Count,
            "Number of times that another client repeated a change that the controller had corrected"
        );
        describe_histogram!(
            EVENT_TO_WRITE,
            Unit::Seconds,
            "Time from the arrival of the first event that a successful sync publishes to its last answered write"
        );
        let metrics = Self {
            failing_keys: gauge!(FAILING_KEYS, "name" => queue),
            slow_retry_keys: gauge!(SLOW_RETRY_KEYS, "name" => queue),
            woken_keys: counter!(WOKEN_KEYS, "name" => queue),
            resynced_keys: counter!(RESYNCED_KEYS, "name" => queue),
            foreign_write_conflicts: counter!(FOREIGN_WRITE_CONFLICTS, "name" => queue),
            event_to_write: histogram!(EVENT_TO_WRITE, "name" => queue),
        };
        // A controller that this one replaces in the same process may have left other values.
        metrics.failing_keys.set(0.0);
        metrics.slow_retry_keys.set(0.0);
        metrics
    }
}
