//! Metrics of a controller of slices, as upstream has them (`endpointslice/metrics`), and one of
//! our own.
//!
//! A new controller takes its handles from the current recorder; it takes those of the gauges when
//! it starts to sync. A standby builds the controllers and does not start them, so it has no
//! gauges: sums over all replicas count each object once.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use kube_endpoint_api_writer::Operation;
use kube_endpoint_slice_plan::{AddressTypeStats, Plan, PlanStats};
use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};
use parking_lot::Mutex;

const TOPOLOGY_LABELS: [&str; 2] = ["Disabled", "Auto"];
const TRAFFIC_LABELS: [&str; 4] = ["", "PreferClose", "PreferSameZone", "PreferSameNode"];

/// The names of the metrics of a controller.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct MetricNames {
    pub added: &'static str,
    pub removed: &'static str,
    pub desired: &'static str,
    pub slices: &'static str,
    pub desired_slices: &'static str,
    pub changes: &'static str,
    pub changed_per_sync: &'static str,
    pub syncs: &'static str,
    pub traffic: &'static str,
    pub trigger_to_write: &'static str,
}

/// Returns the names of the metrics of a controller, which begin with its name.
#[macro_export]
macro_rules! metric_names {
    ($controller:literal) => {
        $crate::slices::MetricNames {
            added: concat!($controller, "_endpoints_added_per_sync"),
            removed: concat!($controller, "_endpoints_removed_per_sync"),
            desired: concat!($controller, "_endpoints_desired"),
            slices: concat!($controller, "_num_endpoint_slices"),
            desired_slices: concat!($controller, "_desired_endpoint_slices"),
            changes: concat!($controller, "_changes"),
            changed_per_sync: concat!($controller, "_endpointslices_changed_per_sync"),
            syncs: concat!($controller, "_syncs"),
            traffic: concat!($controller, "_services_count_by_traffic_distribution"),
            trigger_to_write: concat!($controller, "_trigger_to_write_seconds"),
        }
    };
}

impl MetricNames {
    /// Returns the histograms for an exporter, with upstream's buckets.
    pub fn buckets(&self) -> Vec<(&'static str, Vec<f64>)> {
        let doubling =
            |first: f64, count: i32| (0..count).map(|power| first * 2f64.powi(power)).collect::<Vec<_>>();
        // Upstream sets no buckets for this one, so it has the defaults of the Prometheus client.
        let default = vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
        vec![
            (self.added, doubling(2.0, 15)),
            (self.removed, doubling(2.0, 15)),
            (self.changed_per_sync, default),
            (self.trigger_to_write, doubling(0.001, 20)),
        ]
    }
}

/// The result of a sync, for the label `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SyncResult {
    Success,
    Stale,
    Error,
}

/// The part of one Service in the gauges.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Share {
    endpoints: usize,
    slices: usize,
    desired_slices: usize,
    traffic_distribution: Option<usize>,
}

#[derive(Debug, Default)]
struct Sums {
    endpoints: usize,
    slices: usize,
    desired_slices: usize,
    by_traffic: BTreeMap<usize, usize>,
}

pub(super) struct Metrics {
    names: MetricNames,
    added: Histogram,
    removed: Histogram,
    changes: [Counter; 3],
    changed_per_sync: Vec<Vec<Histogram>>,
    syncs: [Counter; 3],
    trigger_to_write: Histogram,
    gauges: OnceLock<Gauges>,
    sums: Mutex<Sums>,
}

/// The gauges of objects.
struct Gauges {
    desired: Gauge,
    slices: Gauge,
    desired_slices: Gauge,
    traffic: Vec<Gauge>,
}

impl Gauges {
    fn register(names: &MetricNames) -> Self {
        describe_gauge!(names.desired, Unit::Count, "[BETA] Number of endpoints desired");
        describe_gauge!(names.slices, Unit::Count, "[BETA] Number of EndpointSlices");
        describe_gauge!(
            names.desired_slices,
            Unit::Count,
            "[BETA] Number of EndpointSlices that would exist with perfect endpoint allocation"
        );
        describe_gauge!(
            names.traffic,
            Unit::Count,
            "[BETA] Number of Services using some specific trafficDistribution"
        );
        Self {
            desired: gauge!(names.desired),
            slices: gauge!(names.slices),
            desired_slices: gauge!(names.desired_slices),
            traffic: TRAFFIC_LABELS[1..]
                .iter()
                .map(|traffic| gauge!(names.traffic, "traffic_distribution" => *traffic))
                .collect(),
        }
    }
}

impl Metrics {
    pub(super) fn new(names: MetricNames) -> Self {
        describe_histogram!(
            names.added,
            Unit::Count,
            "[BETA] Number of endpoints added on each Service sync"
        );
        describe_histogram!(
            names.removed,
            Unit::Count,
            "[BETA] Number of endpoints removed on each Service sync"
        );
        describe_counter!(names.changes, Unit::Count, "[ALPHA] Number of EndpointSlice changes");
        describe_histogram!(
            names.changed_per_sync,
            Unit::Count,
            "[ALPHA] Number of EndpointSlices changed on each Service sync"
        );
        describe_counter!(names.syncs, Unit::Count, "[ALPHA] Number of EndpointSlice syncs");
        describe_histogram!(
            names.trigger_to_write,
            Unit::Seconds,
            "Time from the change of a pod or Service to the answered write of its EndpointSlices: this controller's share of the network programming latency"
        );
        Self {
            names,
            added: histogram!(names.added),
            removed: histogram!(names.removed),
            changes: [Operation::Create, Operation::Update, Operation::Delete]
                .map(|operation| counter!(names.changes, "operation" => operation.as_str())),
            changed_per_sync: TOPOLOGY_LABELS
                .iter()
                .map(|topology| {
                    let labelled = |traffic: &&'static str| {
                        histogram!(names.changed_per_sync, "topology" => *topology, "traffic_distribution" => *traffic)
                    };
                    TRAFFIC_LABELS.iter().map(labelled).collect()
                })
                .collect(),
            syncs: ["success", "stale", "error"].map(|result| counter!(names.syncs, "result" => result)),
            trigger_to_write: histogram!(names.trigger_to_write),
            gauges: OnceLock::new(),
            sums: Mutex::default(),
        }
    }

    /// Registers the gauges of objects, at zero.
    pub(super) fn start(&self) {
        self.gauges.get_or_init(|| Gauges::register(&self.names));
        self.set_gauges(&self.sums.lock());
    }

    fn set_gauges(&self, sums: &Sums) {
        let Some(gauges) = self.gauges.get() else { return };
        gauges.desired.set(sums.endpoints as f64);
        gauges.slices.set(sums.slices as f64);
        gauges.desired_slices.set(sums.desired_slices as f64);
        for (traffic, count) in &sums.by_traffic {
            gauges.traffic[traffic - 1].set(*count as f64);
        }
    }

    pub(super) fn synced(&self, result: SyncResult) {
        self.syncs[result as usize].increment(1);
    }

    pub(super) fn wrote(&self, operation: Operation) {
        self.changes[operation as usize].increment(1);
    }

    pub(super) fn trigger_to_write(&self, seconds: f64) {
        self.trigger_to_write.record(seconds);
    }

    /// Counts the results of a plan, before its writes. Returns the new part of the Service in the
    /// gauges.
    pub(super) fn planned(&self, plan: &Plan, max_endpoints_per_slice: usize) -> Share {
        for address_type in plan.address_type_stats() {
            self.added.record(address_type.endpoints_added as f64);
            self.removed.record(address_type.endpoints_removed as f64);
        }
        let traffic = traffic_index(&plan.stats);
        Share {
            endpoints: plan.endpoints(),
            slices: plan.slices(),
            desired_slices: plan.desired_slices(max_endpoints_per_slice),
            traffic_distribution: (traffic > 0).then_some(traffic),
        }
    }

    /// Counts the writes of a sub-plan after all of them have succeeded.
    pub(super) fn carried_out(&self, stats: &PlanStats, address_type: &AddressTypeStats) {
        let by_traffic = &self.changed_per_sync[usize::from(stats.topology_auto)];
        by_traffic[traffic_index(stats)].record(address_type.slices_changed as f64);
    }

    /// Replaces the part of one Service in the gauges. It is `None` before its first plan, and
    /// after its deletion.
    pub(super) fn replace(&self, old: Option<Share>, share: Option<Share>) {
        if old == share {
            return;
        }
        let mut sums = self.sums.lock();
        let (old, new) = (old.unwrap_or_default(), share.unwrap_or_default());
        sums.endpoints = sums.endpoints + new.endpoints - old.endpoints;
        sums.slices = sums.slices + new.slices - old.slices;
        sums.desired_slices = sums.desired_slices + new.desired_slices - old.desired_slices;
        if let Some(traffic) = old.traffic_distribution {
            *sums.by_traffic.entry(traffic).or_default() -= 1;
        }
        if let Some(traffic) = new.traffic_distribution {
            *sums.by_traffic.entry(traffic).or_default() += 1;
        }
        self.set_gauges(&sums);
    }
}

fn traffic_index(stats: &PlanStats) -> usize {
    let value = stats.traffic_distribution.as_deref().unwrap_or_default();
    TRAFFIC_LABELS.iter().position(|label| *label == value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube_endpoint_slice_plan::{GroupStats, SubPlan};
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    fn plan(endpoints: usize, slices: usize, traffic: Option<&str>) -> Plan {
        let mut group = GroupStats::default();
        (group.endpoints, group.slices) = (endpoints, slices);
        let mut stats = AddressTypeStats::default();
        (stats.endpoints_added, stats.groups) = (endpoints, vec![group]);
        let mut sub_plan = SubPlan::default();
        sub_plan.stats = Some(stats);
        let mut plan = Plan::default();
        plan.sub_plans = vec![sub_plan];
        plan.stats.traffic_distribution = traffic.map(Into::into);
        plan
    }

    fn is_gauge(value: &DebugValue) -> bool {
        matches!(value, DebugValue::Gauge(_))
    }

    #[test]
    fn gauges_are_sums_over_services_and_follow_each_of_them() {
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        let gauges = || -> Vec<(String, f64)> {
            let mut all: Vec<(String, f64)> = snapshotter
                .snapshot()
                .into_vec()
                .into_iter()
                .filter_map(|(key, _, _, value)| match value {
                    DebugValue::Gauge(value) if value.0 != 0.0 => {
                        let labels: String =
                            key.key().labels().map(|label| format!(" {}", label.value())).collect();
                        let name =
                            key.key().name().trim_start_matches("endpoint_slice_controller_").to_owned();
                        Some((name + &labels, value.0))
                    }
                    _ => None,
                })
                .collect();
            all.sort_by(|a, b| a.0.cmp(&b.0));
            all
        };
        metrics::with_local_recorder(&recorder, || {
            let metrics = Metrics::new(metric_names!("endpoint_slice_controller"));
            assert_eq!(
                snapshotter.snapshot().into_vec().iter().filter(|(_, _, _, it)| is_gauge(it)).count(),
                0
            );
            metrics.start();
            let sync = |before: &mut Option<Share>, plan: &Plan| {
                let share = metrics.planned(plan, 100);
                metrics.replace(before.replace(share.clone()), Some(share));
            };
            let (mut one, mut two) = (None, None);
            sync(&mut one, &plan(150, 3, Some("PreferClose")));
            sync(&mut two, &plan(0, 1, None));
            insta::assert_debug_snapshot!(gauges());
            sync(&mut one, &plan(50, 1, None));
            metrics.replace(two, None);
            insta::assert_debug_snapshot!(gauges());
            metrics.replace(one, None);
            assert_eq!(gauges(), []);
        });
    }
}
