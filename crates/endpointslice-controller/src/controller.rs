//! The controller: it queues Services that have a selector, and syncs their slices.
//!
//! Upstream: `pkg/controller/endpointslice/endpointslice_controller.go`.

use std::time::Duration;

use kube_endpoint_controller_runtime::{
    Cause, Config, Controller, ForeignWrite, Outcome, Reconciler, Runtime, Spacing, SyncError,
};
use kube_endpoint_core_model::{EndpointSlice, Node, ObjectKey, Service};
use kube_endpoint_informer::{Change, Kind, Kinds, PodEvent};
use kube_endpoint_workqueue::{Attempt, endpoint_slice_rate_limiter};

use crate::ControllerOptions;
use crate::slices::{MetricNames, SliceReconciler, SliceState, SliceSync, SliceSyncOptions};

/// Component of the events that this controller records.
pub const EVENT_COMPONENT: &str = "endpoint-slice-controller";
/// Name of its queue in metrics.
pub const QUEUE_NAME: &str = "endpoint_slice";
/// A change of a slice waits at least this long for others before it starts a sync.
pub const SLICE_CHANGE_DELAY: Duration = Duration::from_secs(1);
/// A write is one slice, and changes of pods in the same slice share it. The more slices there are,
/// the fewer changes share one.
const SPACING: Spacing = Spacing::new(Duration::from_micros(50), Duration::from_millis(100));
/// Upstream's names (`endpointslice/metrics`), and one of our own.
const METRICS: MetricNames = crate::metric_names!("endpoint_slice_controller");

/// The endpointslice controller.
pub type EndpointSliceController = Controller<EndpointSliceReconciler>;

/// Syncs Services for the endpointslice controller; see [`Reconciler`].
pub struct EndpointSliceReconciler {
    options: ControllerOptions,
    slices: SliceSync,
}

/// Returns the histograms of this crate for an exporter, with upstream's buckets.
pub fn buckets() -> Vec<(&'static str, Vec<f64>)> {
    METRICS.buckets()
}

impl Reconciler for EndpointSliceReconciler {
    type Output = EndpointSlice;
    type State = SliceState;
    type Options = ControllerOptions;

    fn new(options: ControllerOptions) -> Self {
        let slices = SliceSync::new(SliceSyncOptions {
            plan: options.plan.clone(),
            batch_period: options.batch_period,
            node_zone_resync: options.node_zone_resync,
            missing_node_resync: options.missing_node_resync,
            metrics: METRICS,
        });
        Self { options, slices }
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
        self.slices.start(runtime);
    }

    async fn background(&self, runtime: &Runtime<Self>) {
        self.slices.background(runtime).await;
    }

    fn on_service(&self, runtime: &Runtime<Self>, change: &Change<Service>) {
        if let Some(service) = change.latest() {
            runtime.add(service.key.clone(), Cause::Service.since(change.arrived));
        }
    }

    fn on_pod(&self, runtime: &Runtime<Self>, event: &PodEvent) {
        runtime.add_services_of(event, self.options.batch_period, |_| true);
    }

    fn on_node(&self, runtime: &Runtime<Self>, change: &Change<Node>) {
        self.slices.on_node(runtime, change);
    }

    fn on_endpoint_slice(&self, runtime: &Runtime<Self>, change: &Change<EndpointSlice>) {
        self.slices.on_endpoint_slice(runtime, change);
    }

    fn foreign_write_delay(&self, _: &Runtime<Self>, _: ForeignWrite) -> Option<Duration> {
        Some(self.options.batch_period.max(SLICE_CHANGE_DELAY))
    }

    async fn sync(&self, runtime: &Runtime<Self>, key: &ObjectKey) -> Result<Outcome, SyncError> {
        let Some(service) = runtime.cluster().service(key) else {
            self.slices.forgotten(runtime.forget(key));
            return Ok(Outcome::Done);
        };
        // An ExternalName gets no endpoints, and without a selector another client makes them.
        if !service.selects_pods() {
            self.slices.forget_plan(runtime, key);
            // The sync writes nothing. But an earlier sync, when the Service still had a selector,
            // may have waited for the cache to show a write: that wait has to end.
            return Ok(runtime.read_outputs(key).err().unwrap_or(Outcome::Done));
        }
        self.slices.sync(runtime, &service, None).await
    }

    fn release(&self, runtime: &Runtime<Self>, key: &ObjectKey) {
        self.slices.forgotten(runtime.forget_state(key));
    }

    fn observe(&self, attempt: &Attempt<'_, ObjectKey, Outcome, SyncError>) {
        self.slices.observe(attempt);
    }
}

impl SliceReconciler for EndpointSliceReconciler {
    fn slices(state: &SliceState) -> &SliceState {
        state
    }

    fn slices_mut(state: &mut SliceState) -> &mut SliceState {
        state
    }
}
