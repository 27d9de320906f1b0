//! The parts that the controllers of slices share: they plan the slices of a Service from the
//! caches, and carry the plan out. A controller decides which Services it syncs, and when.
//!
//! Upstream: `pkg/controller/endpointslice/endpointslice_controller.go`.

mod metrics;
mod nodes;
mod sync;
mod sync_error;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use kube_endpoint_controller_runtime::{KeptPlan, Outcome, Reconciler, Runtime, SyncError};
use kube_endpoint_core_model::{EndpointSlice, ObjectKey};
use kube_endpoint_informer::Change;
use kube_endpoint_slice_plan::{HintedState, PlanOptions, PlanState, TopologyState};
use kube_endpoint_workqueue::Attempt;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

pub use metrics::MetricNames;
use metrics::{Metrics, Share, SyncResult};

/// Syncs the slices of Services for a controller.
///
/// The controller passes on the calls that it gets as a [`Reconciler`], and calls
/// [`sync`](Self::sync) in its own sync.
pub struct SliceSync {
    options: SliceSyncOptions,
    topology: RwLock<Arc<TopologyState>>,
    nodes_changed: Notify,
    /// True if nodes have changed since a sync computed `topology`. Locked during that computation.
    topology_outdated: Mutex<bool>,
    /// Counts the changes of nodes after which pods may have another zone, or a known or unknown
    /// node.
    zones_version: AtomicU64,
    metrics: Metrics,
}

/// Options of a [`SliceSync`].
#[derive(Clone, Debug)]
pub struct SliceSyncOptions {
    pub plan: PlanOptions,
    /// Delay of syncs that nodes cause, to batch changes.
    pub batch_period: Duration,
    /// Sync Services with endpoints on a node when its zone appears or changes, and Services that
    /// lost their topology hints when the zones allow hints again.
    pub node_zone_resync: bool,
    /// Sync Services with pods on a node when the node appears, and a minute after its deletion.
    pub missing_node_resync: bool,
    pub metrics: MetricNames,
}

/// The state that a [`SliceSync`] keeps for a Service.
#[derive(Debug, Default, PartialEq)]
pub struct SliceState {
    /// [`Plan::hinted`](kube_endpoint_slice_plan::Plan::hinted) of the last sync.
    hinted: HintedState,
    /// The part of this Service in the gauges.
    share: Option<Share>,
    /// The state that the plan of the last sync left, if all its writes succeeded.
    kept: Option<KeptPlan<KeptSlices>>,
}

/// The state that a plan leaves for the next one.
struct KeptSlices {
    plan: PlanState,
    /// [`SliceSync::zones_version`] before the plan.
    zones_version: u64,
}

/// A controller that has a [`SliceSync`].
pub trait SliceReconciler: Reconciler<Output = EndpointSlice> {
    /// Returns the part of a Service's state that belongs to the [`SliceSync`].
    fn slices(state: &Self::State) -> &SliceState;
    /// As [`Self::slices`], to change it.
    fn slices_mut(state: &mut Self::State) -> &mut SliceState;
}

impl SliceSync {
    /// Creates it. It takes its metrics from the current recorder.
    pub fn new(options: SliceSyncOptions) -> Self {
        Self {
            topology: RwLock::default(),
            nodes_changed: Notify::new(),
            topology_outdated: Mutex::new(true),
            zones_version: AtomicU64::new(0),
            metrics: Metrics::new(options.metrics),
            options,
        }
    }

    /// See [`Reconciler::start`].
    pub fn start<R: SliceReconciler>(&self, runtime: &Runtime<R>) {
        self.metrics.start();
        self.refresh_topology(runtime);
    }

    /// See [`Reconciler::background`].
    pub async fn background<R: SliceReconciler>(&self, runtime: &Runtime<R>) {
        loop {
            self.nodes_changed.notified().await;
            self.refresh_topology(runtime);
        }
    }

    /// See [`Reconciler::on_endpoint_slice`].
    pub fn on_endpoint_slice<R: SliceReconciler>(
        &self,
        runtime: &Runtime<R>,
        change: &Change<EndpointSlice>,
    ) {
        let Some(slice) = &change.new else { return };
        let Some(service) = slice.service_key() else { return };
        // This compares without a lock. A sync that takes the state meanwhile finds none, and plans
        // from all pods.
        let Some(mut kept) = runtime.with_state(&service, |state| R::slices_mut(state).kept.take()) else {
            return;
        };
        kept.state.plan.settle(slice);
        runtime.with_state(&service, |state| {
            R::slices_mut(state).kept.get_or_insert(kept);
        });
    }

    /// Forgets a Service that has no slices of this controller any more, or whose slices another
    /// process maintains. Call it with the state that the runtime has returned.
    pub fn forgotten(&self, state: SliceState) {
        self.metrics.replace(state.share, None);
    }

    /// Drops the state from which the next plan would begin.
    pub fn forget_plan<R: SliceReconciler>(&self, runtime: &Runtime<R>, service: &ObjectKey) {
        runtime.with_state(service, |state| R::slices_mut(state).kept = None);
    }

    /// See [`Reconciler::observe`].
    pub fn observe(&self, attempt: &Attempt<'_, ObjectKey, Outcome, SyncError>) {
        self.metrics.synced(match attempt.result {
            // The sync is not over yet.
            Ok(Outcome::Paused | Outcome::Spaced | Outcome::Fenced) => return,
            Ok(Outcome::Stale) => SyncResult::Stale,
            Ok(Outcome::Done) => SyncResult::Success,
            Err(_) => SyncResult::Error,
        });
    }
}
