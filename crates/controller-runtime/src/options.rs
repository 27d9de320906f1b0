//! Options that all controllers share.

use std::time::Duration;

use kube_endpoint_core_model::LabelSelector;

use crate::Outages;

/// Options that all controllers share.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Gate `SlowRetries`: a key whose retries have all failed is retried slowly, until it
    /// succeeds. In an outage the controllers try one of the failed keys every 20 s, and sync the
    /// others when it succeeds. They record the event of a failure only if the error has changed.
    /// Upstream drops the key, and records an event for each failure.
    pub slow_retries: bool,
    /// Gate `ForeignWriteBackoff`: a change of an output by another client is corrected after a
    /// second at the earliest, and more slowly while the same change keeps coming back. Upstream
    /// corrects it each time after the same delay.
    pub foreign_write_backoff: bool,
    /// Gate `WriteSpacing`: changes of the pods of a Service with 1,000 pods or more are collected
    /// for up to 150 ms from the beginning of a write for it. Upstream writes as fast as it can.
    pub write_spacing: bool,
    /// The shortest time between two resyncs (`--min-resync-period`). Each resync waits up to twice
    /// as long. Zero turns them off.
    pub min_resync_period: Duration,
    /// Limits the Services that are synced (`--service-selector`), by their labels; none for all.
    /// It limits nothing that is listed.
    pub service_selector: Option<LabelSelector>,
    /// Shared knowledge of outages. Give all controllers of a process a clone: the success of one
    /// of them then shows the others that an outage has ended.
    pub outages: Outages,
}

impl Default for RuntimeOptions {
    /// All gates on, upstream's resync period of twelve hours, and all Services. It shares no
    /// outages.
    fn default() -> Self {
        Self {
            slow_retries: true,
            foreign_write_backoff: true,
            write_spacing: true,
            min_resync_period: Duration::from_secs(12 * 3600),
            service_selector: None,
            outages: Outages::default(),
        }
    }
}
