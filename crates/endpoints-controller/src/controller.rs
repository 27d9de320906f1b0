//! The controller around the plan: it queues Services, and syncs them.
//!
//! Upstream: `pkg/controller/endpoint/endpoints_controller.go`.

mod retire_all;
mod retired;
mod sync;

use std::time::Duration;

use kube_endpoint_controller_runtime::{
    Cause, Config, Controller, ForeignWrite, Outcome, Reconciler, Runtime, Spacing, SyncError,
};
use kube_endpoint_core_model::{Endpoints, ObjectKey, Service};
use kube_endpoint_informer::{Change, Kind, Kinds, PodEvent};
use kube_endpoint_workqueue::default_controller_rate_limiter;
use tokio::time::Instant;

use crate::ControllerOptions;
pub use retire_all::RetireAll;
use retired::{Retired, Retirement};

/// Component of the events that this controller records.
pub const EVENT_COMPONENT: &str = "endpoint-controller";
/// Name of its queue in metrics.
pub const QUEUE_NAME: &str = "endpoint";

/// An Endpoints object is written as a whole.
const SPACING: Spacing = Spacing::new(Duration::from_micros(100), Duration::from_millis(150));

/// The endpoints controller.
pub type EndpointsController = Controller<EndpointsReconciler>;

/// Syncs Services for the endpoints controller; see [`Reconciler`].
pub struct EndpointsReconciler {
    options: ControllerOptions,
    retirement: Retirement,
}

/// The state that the controller keeps for a Service.
#[derive(Debug, Default, PartialEq)]
pub struct ServiceState {
    /// Why Endpoints that have no Service may be left over.
    leftover: Leftover,
    /// Set if the Service is, or was to be, without Endpoints.
    retired: Option<Box<Retired>>,
}

/// Why the controller may delete Endpoints that have no Service. The strongest reason counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Leftover {
    /// There may never have been a Service, and a client may create it later. A sync deletes
    /// nothing.
    #[default]
    No,
    /// There was no Service when the controller began, or when the Endpoints appeared while writes
    /// of a former process may arrive. A sync deletes Endpoints that a controller made.
    AtStart,
    /// The controller saw the deletion of the Service. A sync deletes its Endpoints, unless another
    /// client has written addresses into them: the API server deletes Endpoints with their Service,
    /// so these are newer.
    ServiceDeleted,
}

/// Queues Endpoints that have no Service, except leader-election locks, and those that another
/// process cleans up.
fn add_leftover(runtime: &Runtime<EndpointsReconciler>, endpoints: &Endpoints) {
    let key = endpoints.key();
    let is_ours = || runtime.owns_leftover(&key, &endpoints.metadata.labels);
    if runtime.cluster().service(&key).is_none() && !endpoints.is_lock() && is_ours() {
        runtime.with_state(&key, |state| state.leftover = state.leftover.max(Leftover::AtStart));
        runtime.add(key, Cause::Leftover);
    }
}

impl EndpointsReconciler {
    /// Queues those of these Endpoints that have no Service (upstream `checkLeftoverEndpoints`).
    /// Somebody may have deleted the Service while no controller ran, or may create it later: the
    /// sync finds out who made the Endpoints.
    fn queue_leftovers(&self, runtime: &Runtime<Self>, is_one: impl Fn(&ObjectKey) -> bool) {
        let cluster = runtime.cluster();
        let keys = cluster.endpoints_keys().into_iter().filter(is_one);
        for endpoints in keys.filter_map(|key| cluster.endpoints(&key)) {
            add_leftover(runtime, &endpoints);
        }
    }
}

impl Reconciler for EndpointsReconciler {
    type Output = Endpoints;
    type State = ServiceState;
    type Options = ControllerOptions;

    fn new(options: ControllerOptions) -> Self {
        Self { options, retirement: Retirement::new() }
    }

    fn kinds() -> Kinds {
        [Kind::Pods, Kind::Services, Kind::Endpoints].into()
    }

    fn config(&self) -> Config {
        Config::new(
            QUEUE_NAME,
            default_controller_rate_limiter(),
            self.options.workers,
            self.options.runtime.clone(),
        )
        .with_spacing(SPACING)
    }

    fn manages(&self, _: &Endpoints) -> bool {
        true
    }

    fn start(&self, runtime: &Runtime<Self>) {
        self.retirement.start();
        self.queue_leftovers(runtime, |_| true);
    }

    fn start_in(&self, runtime: &Runtime<Self>, namespace: &str) {
        self.queue_leftovers(runtime, |key| *key.namespace == *namespace);
    }

    fn on_service(&self, runtime: &Runtime<Self>, change: &Change<Service>) {
        let Some(service) = change.latest() else { return };
        if change.new.is_none() {
            runtime.with_state(&service.key, |state| state.leftover = Leftover::ServiceDeleted);
        }
        runtime.add(service.key.clone(), Cause::Service.since(change.arrived));
    }

    fn on_pod(&self, runtime: &Runtime<Self>, event: &PodEvent) {
        runtime.add_services_of(event, self.options.batch_period, |_| true);
    }

    fn on_endpoints(&self, runtime: &Runtime<Self>, change: &Change<Endpoints>) {
        let Some(endpoints) = &change.new else { return };
        let key = endpoints.key();
        // A create that a former process had sent may be carried out after the deletion of the
        // Service.
        let ledger = runtime.cluster().ledger(Kind::Endpoints);
        if change.old.is_none() && ledger.may_still_happen(Instant::now().into_std()) {
            add_leftover(runtime, endpoints);
        }
        let is_retired = runtime
            .with_state(&key, |state| state.retired.as_ref().is_some_and(|retired| retired.is_retired()));
        if is_retired {
            // They may have come back, which matters also without a repair.
            runtime.add(key, Cause::ForeignWrite.since(change.arrived));
        }
    }

    fn foreign_write_delay(&self, _: &Runtime<Self>, write: ForeignWrite) -> Option<Duration> {
        // Upstream syncs after deletions only.
        let matters = self.options.repair || write != ForeignWrite::Applied;
        matters.then_some(Duration::ZERO)
    }

    fn release(&self, runtime: &Runtime<Self>, key: &ObjectKey) {
        runtime.forget_state(key);
        self.retirement.forgotten(key);
    }

    async fn sync(&self, runtime: &Runtime<Self>, key: &ObjectKey) -> Result<Outcome, SyncError> {
        self.sync_key(runtime, key).await
    }
}
