//! The controller around the plan: what starts a sync, and what a sync does.
//!
//! Upstream: `pkg/controller/endpointslice/endpointslice_controller.go`.

mod nodes;
mod sync;

use std::sync::Arc;
use std::time::Duration;

pub use kube_endpoint_controller_runtime::RuntimeOptions;
use kube_endpoint_controller_runtime::{
    Config, Controller, ForeignWrite, Outcome, Reconciler, Runtime, SyncError,
};
use kube_endpoint_core_model::{EndpointSlice, Node, ObjectKey, ResourceVersion, Service};
use kube_endpoint_informer::{Change, Kind, Kinds, PodEvent};
use kube_endpoint_workqueue::{Attempt, endpoint_slice_rate_limiter};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::metrics::{Metrics, Share, SyncResult};
use crate::{HintedState, PlanOptions, TopologyState};

/// Component of the events that this controller records.
pub const EVENT_COMPONENT: &str = "endpoint-slice-controller";
/// Name of its queue in metrics.
pub const QUEUE_NAME: &str = "endpoint_slice";
/// A change of a slice waits at least this long for others before it starts a sync.
pub const SLICE_CHANGE_DELAY: Duration = Duration::from_secs(1);

/// Options of the controller, including those of its plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerOptions {
    /// Options of the plan.
    pub plan: PlanOptions,
    /// How many Services are synced at once (`--concurrent-service-endpoint-syncs`).
    pub workers: usize,
    /// Delay of syncs that pods cause, to batch changes (`--endpointslice-updates-batch-period`).
    pub batch_period: Duration,
    /// Gate `NodeZoneResync`: Services with endpoints on a node are synced when its zone appears or changes, and Services
    /// whose topology hints were withdrawn when the zones allow hints again.
    pub node_zone_resync: bool,
    /// Gate `MissingNodeResync`: Services that left out pods because their node was not known are synced when it appears.
    pub missing_node_resync: bool,
    /// Gate `WritesAfterFailedCreate`: when a slice cannot be created, updates and deletes that only remove endpoints or make
    /// them unready are still carried out. Upstream ends the sync there.
    pub writes_after_failed_create: bool,
    /// Options that all controllers share.
    pub runtime: RuntimeOptions,
}

impl Default for ControllerOptions {
    /// Upstream's defaults, and the gates as they are by default.
    fn default() -> Self {
        Self {
            plan: PlanOptions::default(),
            workers: 5,
            batch_period: Duration::ZERO,
            node_zone_resync: true,
            missing_node_resync: true,
            writes_after_failed_create: true,
            runtime: RuntimeOptions::default(),
        }
    }
}

/// The endpointslice controller.
pub type EndpointSliceController = Controller<EndpointSliceReconciler>;

/// What the endpointslice controller does; see [`Reconciler`].
pub struct EndpointSliceReconciler {
    options: ControllerOptions,
    topology: RwLock<Arc<TopologyState>>,
    nodes_changed: Notify,
    /// Whether nodes have changed since `topology` was computed; locked while it is computed.
    topology_outdated: Mutex<bool>,
    metrics: Metrics,
}

/// The state that is kept for a Service.
#[derive(Debug, Default, PartialEq)]
pub struct ServiceState {
    /// [`Plan::hinted`](crate::Plan::hinted) of the last sync.
    hinted: HintedState,
    /// What it adds to the gauges.
    share: Option<Share>,
    /// The version of the Service about which a warning was logged.
    warned: Option<ResourceVersion>,
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
            metrics: Metrics::new(),
        }
    }

    fn kinds() -> Kinds {
        [Kind::Pods, Kind::Services, Kind::Nodes, Kind::EndpointSlices].into()
    }

    fn config(&self) -> Config {
        Config::new(QUEUE_NAME, endpoint_slice_rate_limiter(), self.options.workers, self.options.runtime)
            .with_writes_after_failed_create(self.options.writes_after_failed_create)
    }

    fn manages(&self, slice: &EndpointSlice) -> bool {
        slice.is_managed_by(&self.options.plan.manager)
    }

    fn start(&self, runtime: &Runtime<Self>) {
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
            runtime.queue().add(service.key.clone());
        }
    }

    fn on_pod(&self, runtime: &Runtime<Self>, event: &PodEvent) {
        runtime.add_services_of(event, self.options.batch_period);
    }

    fn on_node(&self, runtime: &Runtime<Self>, change: &Change<Node>) {
        self.node_changed(runtime, change.old.as_deref(), change.new.as_deref());
    }

    fn foreign_write_delay(&self, runtime: &Runtime<Self>, _: ForeignWrite) -> Option<Duration> {
        // The first list needs no syncs of its own: every Service is synced anyway.
        runtime.has_synced().then_some(self.options.batch_period.max(SLICE_CHANGE_DELAY))
    }

    async fn sync(&self, runtime: &Runtime<Self>, key: &ObjectKey) -> Result<Outcome, SyncError> {
        self.sync_key(runtime, key).await
    }

    fn observe(&self, attempt: &Attempt<'_, ObjectKey, Outcome, SyncError>) {
        self.metrics.synced(match attempt.result {
            // The sync is not over yet.
            Ok(Outcome::Paused) => return,
            Ok(Outcome::Stale) => SyncResult::Stale,
            Ok(Outcome::Done) => SyncResult::Success,
            Err(_) => SyncResult::Error,
        });
    }
}
