//! Metrics of this controller, under upstream's names (`endpointslicemirroring/metrics`).
//!
//! A new controller takes its handles from the current recorder.

use std::sync::OnceLock;
use std::time::Duration;

use kube_endpoint_api_writer::Operation;
use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};
use parking_lot::Mutex;

use crate::PlanStats;

const ADDED: &str = "endpoint_slice_mirroring_controller_endpoints_added_per_sync";
const UPDATED: &str = "endpoint_slice_mirroring_controller_endpoints_updated_per_sync";
const REMOVED: &str = "endpoint_slice_mirroring_controller_endpoints_removed_per_sync";
const SKIPPED: &str = "endpoint_slice_mirroring_controller_addresses_skipped_per_sync";
const SYNC_DURATION: &str = "endpoint_slice_mirroring_controller_endpoints_sync_duration";
const DESIRED: &str = "endpoint_slice_mirroring_controller_endpoints_desired";
const SLICES: &str = "endpoint_slice_mirroring_controller_num_endpoint_slices";
const DESIRED_SLICES: &str = "endpoint_slice_mirroring_controller_desired_endpoint_slices";
const CHANGES: &str = "endpoint_slice_mirroring_controller_changes";

/// Returns the histograms of this crate for an exporter, with upstream's buckets.
pub fn buckets() -> Vec<(&'static str, Vec<f64>)> {
    let doubling = |first: f64| (0..15).map(|power| first * 2f64.powi(power)).collect::<Vec<_>>();
    vec![
        (ADDED, doubling(2.0)),
        (UPDATED, doubling(2.0)),
        (REMOVED, doubling(2.0)),
        (SKIPPED, doubling(2.0)),
        (SYNC_DURATION, doubling(0.001)),
    ]
}

/// The part of one Endpoints object in the gauges, or the sum over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Share {
    endpoints: usize,
    slices: usize,
    desired_slices: usize,
}

pub(crate) struct Metrics {
    added: Histogram,
    updated: Histogram,
    removed: Histogram,
    skipped: Histogram,
    sync_duration: Histogram,
    changes: [Counter; 3],
    /// The gauges of objects. A standby does not start the controller, and has none.
    gauges: OnceLock<Gauges>,
    sum: Mutex<Share>,
}

struct Gauges {
    desired: Gauge,
    slices: Gauge,
    desired_slices: Gauge,
}

impl Gauges {
    fn register() -> Self {
        describe_gauge!(DESIRED, Unit::Count, "[ALPHA] Number of endpoints desired");
        describe_gauge!(SLICES, Unit::Count, "[ALPHA] Number of EndpointSlices");
        describe_gauge!(
            DESIRED_SLICES,
            Unit::Count,
            "[ALPHA] Number of EndpointSlices that would exist with perfect endpoint allocation"
        );
        Self { desired: gauge!(DESIRED), slices: gauge!(SLICES), desired_slices: gauge!(DESIRED_SLICES) }
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        describe_histogram!(ADDED, Unit::Count, "[ALPHA] Number of endpoints added on each Endpoints sync");
        describe_histogram!(
            UPDATED,
            Unit::Count,
            "[ALPHA] Number of endpoints updated on each Endpoints sync"
        );
        describe_histogram!(
            REMOVED,
            Unit::Count,
            "[ALPHA] Number of endpoints removed on each Endpoints sync"
        );
        describe_histogram!(
            SKIPPED,
            Unit::Count,
            "[ALPHA] Number of addresses skipped on each Endpoints sync due to being invalid or exceeding MaxEndpointsPerSubset"
        );
        describe_histogram!(SYNC_DURATION, Unit::Seconds, "[ALPHA] Duration of syncEndpoints() in seconds");
        describe_counter!(CHANGES, Unit::Count, "[ALPHA] Number of EndpointSlice changes");
        Self {
            added: histogram!(ADDED),
            updated: histogram!(UPDATED),
            removed: histogram!(REMOVED),
            skipped: histogram!(SKIPPED),
            sync_duration: histogram!(SYNC_DURATION),
            changes: [Operation::Create, Operation::Update, Operation::Delete]
                .map(|operation| counter!(CHANGES, "operation" => operation.as_str())),
            gauges: OnceLock::new(),
            sum: Mutex::default(),
        }
    }

    /// Registers the gauges of objects, at zero.
    pub(crate) fn start(&self) {
        self.gauges.get_or_init(Gauges::register);
        self.set_gauges(&self.sum.lock());
    }

    fn set_gauges(&self, sum: &Share) {
        let Some(gauges) = self.gauges.get() else { return };
        gauges.desired.set(sum.endpoints as f64);
        gauges.slices.set(sum.slices as f64);
        gauges.desired_slices.set(sum.desired_slices as f64);
    }

    pub(crate) fn synced(&self, elapsed: Duration) {
        self.sync_duration.record(elapsed.as_secs_f64());
    }

    pub(crate) fn wrote(&self, operation: Operation) {
        self.changes[operation as usize].increment(1);
    }

    /// Counts the results of a plan, before its writes. Returns the new part of the Endpoints in
    /// the gauges.
    pub(crate) fn planned(&self, stats: &PlanStats) -> Share {
        self.added.record(stats.added as f64);
        self.updated.record(stats.updated as f64);
        self.removed.record(stats.removed as f64);
        self.skipped.record(stats.skipped as f64);
        Share {
            endpoints: stats.endpoints_desired,
            slices: stats.slices,
            desired_slices: stats.slices_desired,
        }
    }

    /// Replaces the part of one Endpoints object in the gauges. It is `None` before its first plan,
    /// and while it is not mirrored.
    pub(crate) fn replace(&self, old: Option<Share>, share: Option<Share>) {
        if old == share {
            return;
        }
        let (old, new) = (old.unwrap_or_default(), share.unwrap_or_default());
        let mut sum = self.sum.lock();
        sum.endpoints = sum.endpoints + new.endpoints - old.endpoints;
        sum.slices = sum.slices + new.slices - old.slices;
        sum.desired_slices = sum.desired_slices + new.desired_slices - old.desired_slices;
        self.set_gauges(&sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    #[test]
    fn gauges_are_sums_over_endpoints_and_follow_each_of_them() {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let gauges = || -> [f64; 3] {
            let all = snapshotter.snapshot().into_vec();
            [DESIRED, SLICES, DESIRED_SLICES].map(|name| {
                let found = all.iter().find(|(key, ..)| key.key().name() == name);
                let Some((.., DebugValue::Gauge(value))) = found else { panic!("{name} is no gauge") };
                value.0
            })
        };
        let stats = |endpoints_desired, slices, slices_desired| PlanStats {
            endpoints_desired,
            slices,
            slices_desired,
            ..PlanStats::default()
        };
        metrics::with_local_recorder(&recorder, || {
            let metrics = Metrics::new();
            let is_gauge = |value: &DebugValue| matches!(value, DebugValue::Gauge(_));
            assert!(!snapshotter.snapshot().into_vec().iter().any(|(.., value)| is_gauge(value)));
            metrics.start();
            let sync = |before: &mut Option<Share>, stats: &PlanStats| {
                let share = metrics.planned(stats);
                metrics.replace(before.replace(share), Some(share));
            };
            let (mut one, mut two) = (None, None);
            sync(&mut one, &stats(150, 3, 2));
            sync(&mut two, &stats(5, 1, 1));
            assert_eq!(gauges(), [155.0, 4.0, 3.0]);
            sync(&mut one, &stats(50, 1, 1));
            metrics.replace(two, None);
            metrics.replace(None, None);
            assert_eq!(gauges(), [50.0, 1.0, 1.0]);
            metrics.replace(one, None);
            assert_eq!(gauges(), [0.0; 3]);
        });
    }

    #[test]
    fn buckets_are_upstreams() {
        let all = buckets();
        let ends: Vec<(f64, f64)> =
            all.iter().filter_map(|(_, bounds)| Some((*bounds.first()?, *bounds.last()?))).collect();
        assert_eq!(ends[..4], [(2.0, 32768.0); 4]);
        assert_eq!(ends[4], (0.001, 16.384));
    }
}
