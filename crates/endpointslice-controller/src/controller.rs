//! The controller around the plan: it queues Services, and syncs them.
//!
//! Upstream: `pkg/controller/endpointslice/endpointslice_controller.go`.

mod nodes;
mod sync;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use kube_endpoint_controller_runtime::{
    Cause, Config, Controller, ForeignWrite, KeptPlan, Outcome, Reconciler, Runtime, Spacing, SyncError,
};
use kube_endpoint_core_model::{EndpointSlice, Node, ObjectKey, Service};
use kube_endpoint_informer::{Change, Kind, Kinds, PodEvent};
use kube_endpoint_slice_plan::{HintedState, PlanState, TopologyState};
use kube_endpoint_workqueue::{Attempt, endpoint_slice_rate_limiter};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::ControllerOptions;
use crate::metrics::{Metrics, Share, SyncResult};

/// Component of the events that this controller records.
pub const EVENT_COMPONENT: &str = "endpoint-slice-controller";
/// Name of its queue in metrics.
pub const QUEUE_NAME: &str = "endpoint_slice";
/// A change of a slice waits at least this long for others before it starts a sync.
pub const SLICE_CHANGE_DELAY: Duration = Duration::from_secs(1);
/// A write is one slice, and changes of pods in the same slice share it. The more slices there are,
/// the fewer changes share one.
const SPACING: Spacing = Spacing::new(Duration::from_micros(50), Duration::from_millis(100));

/// The endpointslice controller.
pub type EndpointSliceController = Controller<EndpointSliceReconciler>;

/// Syncs Services for the endpointslice controller; see [`Reconciler`].
pub struct EndpointSliceReconciler {
    options: ControllerOptions,
    topology: RwLock<Arc<TopologyState>>,
    nodes_changed: Notify,
    /// True if nodes have changed since a sync computed `topology`. Locked during that computation.
    topology_outdated: Mutex<bool>,
    /// Counts the changes of nodes after which pods may have another zone, or a known or unknown
    /// node.
    zones_version: AtomicU64,
    metrics: Metrics,
}

/// The state that the controller keeps for a Service.
#[derive(Debug, Default, PartialEq)]
pub struct ServiceState {
    /// [`Plan::hinted`](kube_endpoint_slice_plan::Plan::hinted) of the last sync.
    hinted: HintedState,
    /// The part of this Service in the gauges.
    share: Option<Share>,
    /// The state that the plan of the last sync left, if all its writes succeeded.
    kept: Option<KeptPlan<KeptSlices>>,
}

/// The state that a plan leaves for the next one.
pub(crate) struct KeptSlices {
    plan: PlanState,
    /// [`EndpointSliceReconciler::zones_version`] before the plan.
    zones_version: u64,
}

impl Reconciler for EndpointSliceReconciler {
    type Output = EndpointSlice;
    type State = ServiceState;
    type Options = ControllerOptions;

    fn new(options: ControllerOptions) -> Self {
        Self {
            options,
            topology: RwLock::default(),
            nodes_changed: Notify::new(),
            topology_outdated: Mutex::new(true),
            zones_version: AtomicU64::new(0),
            metrics: Metrics::new(),
        }
    }

    fn kinds() -> Kinds {
        [Kind::Pods, Kind::Services, Kind::Nodes, Kind::EndpointSlices].into()
    }

    fn config(&self) -> Config {
        Config::new(
            QUEUE_NAME,
            endpoint_slice_rate_limiter(),
            self.options.workers,
            self.options.runtime.clone(),
        )
        .with_writes_after_failed_create(self.options.writes_after_failed_create)
        .with_spacing(SPACING)
    }

    fn manages(&self, slice: &EndpointSlice) -> bool {
        slice.is_managed_by(&self.options.plan.manager)
    }

    fn start(&self, runtime: &Runtime<Self>) {
        self.metrics.start();
        self.refresh_topology(runtime);
    }

    async fn background(&self, runtime: &Runtime<Self>) {
        loop {
            self.nodes_changed.notified().await;
            self.refresh_topology(runtime);
        }
    }

    fn on_service(&self, runtime: &Runtime<Self>, change: &Change<Service>) {
        if let Some(service) = change.latest() {
            runtime.add(service.key.clone(), Cause::Service.since(change.arrived));
        }
    }

    fn on_pod(&self, runtime: &Runtime<Self>, event: &PodEvent) {
        runtime.add_services_of(event, self.options.batch_period);
    }

    fn on_node(&self, runtime: &Runtime<Self>, change: &Change<Node>) {
        self.node_changed(runtime, change);
    }

    fn on_endpoint_slice(&self, runtime: &Runtime<Self>, change: &Change<EndpointSlice>) {
        let Some(slice) = &change.new else { return };
        let Some(service) = slice.service_key() else { return };
        // This compares without a lock. A sync that takes the state meanwhile finds none, and plans
        // from all pods.
        let Some(mut kept) = runtime.with_state(&service, |state| state.kept.take()) else { return };
        kept.state.plan.settle(slice);
        runtime.with_state(&service, |state| {
            state.kept.get_or_insert(kept);
        });
    }

    fn foreign_write_delay(&self, _: &Runtime<Self>, _: ForeignWrite) -> Option<Duration> {
        Some(self.options.batch_period.max(SLICE_CHANGE_DELAY))
    }

    async fn sync(&self, runtime: &Runtime<Self>, key: &ObjectKey) -> Result<Outcome, SyncError> {
        self.sync_key(runtime, key).await
    }

    fn release(&self, runtime: &Runtime<Self>, key: &ObjectKey) {
        self.metrics.replace(runtime.forget_state(key).share, None);
    }

    fn observe(&self, attempt: &Attempt<'_, ObjectKey, Outcome, SyncError>) {
        self.metrics.synced(match attempt.result {
            // The sync is not over yet.
            Ok(Outcome::Paused | Outcome::Fenced) => return,
            Ok(Outcome::Stale) => SyncResult::Stale,
            Ok(Outcome::Done) => SyncResult::Success,
            Err(_) => SyncResult::Error,
        });
    }
}
