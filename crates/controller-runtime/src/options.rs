//! Options that all controllers share.

use std::time::Duration;

use kube_endpoint_core_model::LabelSelector;

use crate::Outages;

/// Options that all controllers share.
#[derive(Clone, Debug)]
pub struct RuntimeOptions {
    /// Gate `SlowRetries`: a controller keeps retrying a key whose retries have all failed, every
    /// five minutes, until it succeeds. In an outage the controllers try one of the failed keys
    /// every 20 s, and sync the others when it succeeds. They record the event of a failure only if
    /// the error has changed. Upstream drops the key, and records an event for each failure.
    pub slow_retries: bool,
    /// Gate `ForeignWriteBackoff`: a controller corrects a change of an output by another client
    /// after at least a second, but a first deletion without this delay. It waits longer while the
    /// same change keeps coming back. Upstream corrects it each time after the same delay.
    pub foreign_write_backoff: bool,
    /// Gate `WriteSpacing`: for a Service with 1,000 pods or more, a controller collects new
    /// endpoints for up to 150 ms from the beginning of a write; see
    /// [`Config::spacing`](crate::Config::spacing). It writes a change that takes an endpoint away
    /// at once, and the first ready endpoint. Upstream writes as fast as it can.
    pub write_spacing: bool,
    /// The shortest time between two resyncs (`--min-resync-period`); the longest is twice that.
    /// Zero turns resyncs off.
    pub min_resync_period: Duration,
    /// Selects the Services to sync by their labels (`--service-selector`); `None` selects all. The
    /// caches still list all Services.
    pub service_selector: Option<LabelSelector>,
    /// The outages that the controllers of a process know. Give each a clone: the success of one
    /// controller then shows the others that an outage has ended.
    pub outages: Outages,
}

impl Default for RuntimeOptions {
    /// Turns all gates on, resyncs after upstream's period of twelve hours, and selects all
    /// Services. Shares no outages.
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
