//! Metrics of this controller, under upstream's names (`endpointslice/metrics`), and one of our
//! own.
//!
//! A new controller takes its handles from the current recorder; it takes those of the gauges when
//! it starts to sync. A standby builds the controllers and does not start them, so it has no
//! gauges: sums over all replicas count each object once.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use kube_endpoint_api_writer::Operation;
use metrics::{
    Counter, Gauge, Histogram, Unit, counter, describe_counter, describe_gauge, describe_histogram, gauge,
    histogram,
};
use parking_lot::Mutex;

use kube_endpoint_slice_plan::{AddressTypeStats, Plan, PlanStats};

const ADDED: &str = "endpoint_slice_controller_endpoints_added_per_sync";
const REMOVED: &str = "endpoint_slice_controller_endpoints_removed_per_sync";
const DESIRED: &str = "endpoint_slice_controller_endpoints_desired";
const SLICES: &str = "endpoint_slice_controller_num_endpoint_slices";
const DESIRED_SLICES: &str = "endpoint_slice_controller_desired_endpoint_slices";
const CHANGES: &str = "endpoint_slice_controller_changes";
const CHANGED_PER_SYNC: &str = "endpoint_slice_controller_endpointslices_changed_per_sync";
const SYNCS: &str = "endpoint_slice_controller_syncs";
const TRAFFIC: &str = "endpoint_slice_controller_services_count_by_traffic_distribution";
const TRIGGER_TO_WRITE: &str = "endpoint_slice_controller_trigger_to_write_seconds";

const TOPOLOGY_LABELS: [&str; 2] = ["Disabled", "Auto"];
const TRAFFIC_LABELS: [&str; 4] = ["", "PreferClose", "PreferSameZone", "PreferSameNode"];

/// Returns the histograms of this crate for an exporter, with upstream's buckets.
pub fn buckets() -> Vec<(&'static str, Vec<f64>)> {
    let doubling =
        |first: f64, count: i32| (0..count).map(|power| first * 2f64.powi(power)).collect::<Vec<_>>();
    // Upstream sets no buckets for this one, so it has the defaults of the Prometheus client.
    let default = vec![0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
    vec![
        (ADDED, doubling(2.0, 15)),
        (REMOVED, doubling(2.0, 15)),
        (CHANGED_PER_SYNC, default),
        (TRIGGER_TO_WRITE, doubling(0.001, 20)),
    ]
}

/// The result of a sync, for the label `result`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SyncResult {
    Success,
    Stale,
    Error,
}

/// The part of one Service in the gauges.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Share {
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

pub(crate) struct Metrics {
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
    fn register() -> Self {
        describe_gauge!(DESIRED, Unit::Count, "[BETA] Number of endpoints desired");
        describe_gauge!(SLICES, Unit::Count, "[BETA] Number of EndpointSlices");
        describe_gauge!(
            DESIRED_SLICES,
            Unit::Count,
            "[BETA] Number of EndpointSlices that would exist with perfect endpoint allocation"
        );
        describe_gauge!(
            TRAFFIC,
            Unit::Count,
            "[BETA] Number of Services using some specific trafficDistribution"
        );
        Self {
            desired: gauge!(DESIRED),
            slices: gauge!(SLICES),
            desired_slices: gauge!(DESIRED_SLICES),
            traffic: TRAFFIC_LABELS[1..]
                .iter()
                .map(|traffic| gauge!(TRAFFIC, "traffic_distribution" => *traffic))
                .collect(),
        }
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        describe_histogram!(ADDED, Unit::Count, "[BETA] Number of endpoints added on each Service sync");
        describe_histogram!(REMOVED, Unit::Count, "[BETA] Number of endpoints removed on each Service sync");
        describe_counter!(CHANGES, Unit::Count, "[ALPHA] Number of EndpointSlice changes");
        describe_histogram!(
            CHANGED_PER_SYNC,
            Unit::Count,
            "[ALPHA] Number of EndpointSlices changed on each Service sync"
        );
        describe_counter!(SYNCS, Unit::Count, "[ALPHA] Number of EndpointSlice syncs");
        describe_histogram!(
            TRIGGER_TO_WRITE,
            Unit::Seconds,
            "Time from the change of a pod or Service to the answered write of its EndpointSlices: this controller's share of the network programming latency"
        );
        Self {
            added: histogram!(ADDED),
            removed: histogram!(REMOVED),
            changes: [Operation::Create, Operation::Update, Operation::Delete]
                .map(|operation| counter!(CHANGES, "operation" => operation.as_str())),
            changed_per_sync: TOPOLOGY_LABELS
                .iter()
                .map(|topology| {
                    let labelled = |traffic: &&'static str| {
                        histogram!(CHANGED_PER_SYNC, "topology" => *topology, "traffic_distribution" => *traffic)
                    };
                    TRAFFIC_LABELS.iter().map(labelled).collect()
                })
                .collect(),
            syncs: ["success", "stale", "error"].map(|result| counter!(SYNCS, "result" => result)),
            trigger_to_write: histogram!(TRIGGER_TO_WRITE),
            gauges: OnceLock::new(),
            sums: Mutex::default(),
        }
    }

    /// Registers the gauges of objects, at zero.
    pub(crate) fn start(&self) {
        self.gauges.get_or_init(Gauges::register);
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

    pub(crate) fn synced(&self, result: SyncResult) {
        self.syncs[result as usize].increment(1);
    }

    pub(crate) fn wrote(&self, operation: Operation) {
        self.changes[operation as usize].increment(1);
    }

    pub(crate) fn trigger_to_write(&self, seconds: f64) {
        self.trigger_to_write.record(seconds);
    }

    /// Counts the results of a plan, before its writes. Returns the new part of the Service in the
    /// gauges.
    pub(crate) fn planned(&self, plan: &Plan, max_endpoints_per_slice: usize) -> Share {
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
    pub(crate) fn carried_out(&self, stats: &PlanStats, address_type: &AddressTypeStats) {
        let by_traffic = &self.changed_per_sync[usize::from(stats.topology_auto)];
        by_traffic[traffic_index(stats)].record(address_type.slices_changed as f64);
    }

    /// Replaces the part of one Service in the gauges. It is `None` before its first plan, and
    /// after its deletion.
    pub(crate) fn replace(&self, old: Option<Share>, share: Option<Share>) {
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
    use kube_endpoint_slice_plan::{AddressTypeStats, GroupStats, SubPlan};
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};

    fn plan(endpoints: usize, slices: usize, traffic: Option<&str>) -> Plan {
        let mut group = GroupStats::default();
        group.endpoints = endpoints;
        group.slices = slices;
        let mut stats = AddressTypeStats::default();
        stats.endpoints_added = endpoints;
        stats.groups.push(group);
        let mut sub_plan = SubPlan::default();
        sub_plan.stats = Some(stats);
        let mut plan = Plan::default();
        plan.sub_plans.push(sub_plan);
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
            let metrics = Metrics::new();
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
