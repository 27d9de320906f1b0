//! The controller around the plan: it queues Endpoints, and syncs them.
//!
//! Upstream: `pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go`.

mod confirm;
mod content;
mod orphans;
mod sync;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube_endpoint_controller_runtime::{
    Cause, Config, Controller, ForeignWrite, Outcome, Reconciler, Runtime, SyncError,
};
use kube_endpoint_core_model::maker::Maker;
use kube_endpoint_core_model::well_known::MIRRORING_CONTROLLER;
use kube_endpoint_core_model::{EndpointSlice, Endpoints, ObjectKey, ResourceVersion, Service, Text};
use kube_endpoint_informer::{Change, Kind, Kinds};
use kube_endpoint_workqueue::{Attempt, endpoint_slice_mirroring_rate_limiter};

use crate::ControllerOptions;
use crate::metrics::{Metrics, Share};
use crate::plan::{KeptOrphans, mirrorable};

/// Component of the events that this controller records.
pub const EVENT_COMPONENT: &str = "endpoint-slice-mirroring-controller";
/// Name of its queue in metrics.
pub const QUEUE_NAME: &str = "endpoint_slice_mirroring";

/// The EndpointSlice mirroring controller. Its keys are those of Endpoints objects, and so of their
/// Services.
pub type MirroringController = Controller<MirroringReconciler>;

/// Syncs Endpoints for the mirroring controller; see [`Reconciler`].
pub struct MirroringReconciler {
    options: ControllerOptions,
    metrics: Metrics,
    /// The version up to which the cache had read Endpoints when the first sync began.
    started_at: OnceLock<ResourceVersion>,
}

/// The state that the controller keeps for a mirrored Endpoints object.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct EndpointsState {
    /// The part of this object in the gauges.
    share: Option<Share>,
    /// The Endpoints, if the cache holds only a summary of their addresses.
    content: Option<Arc<Endpoints>>,
    /// Who wrote the addresses of a version of the Endpoints.
    written_by: Option<(ResourceVersion, Maker)>,
    /// The makers of kept slices, by name and with the version: another client, or an unknown one.
    made_by: BTreeMap<Text, (ResourceVersion, Maker)>,
    /// The slices made from pods that the controller keeps, as the last events reported them.
    kept_orphans: KeptOrphans,
}

/// Returns true if there are no mirrored slices, and there need not be any, because the Service has
/// a selector. Then a change of the Endpoints does not matter. (Upstream syncs, and finds nothing
/// to do.) If the Service loses its selector in the meantime, that change starts a sync, as does a
/// mirrored slice that the cache shows later.
fn is_left_to_selector(runtime: &Runtime<MirroringReconciler>, key: &ObjectKey) -> bool {
    let cluster = runtime.cluster();
    cluster.service(key).is_some_and(|service| service.selector.is_some())
        && !cluster.slices_of(key).iter().any(|slice| slice.is_managed_by(MIRRORING_CONTROLLER))
}

impl Reconciler for MirroringReconciler {
    type Output = EndpointSlice;
    type State = EndpointsState;
    type Options = ControllerOptions;

    fn new(options: ControllerOptions) -> Self {
        Self { options, metrics: Metrics::new(), started_at: OnceLock::new() }
    }

    fn kinds() -> Kinds {
        [Kind::Services, Kind::EndpointSlices, Kind::Endpoints].into()
    }

    fn config(&self) -> Config {
        Config::new(
            QUEUE_NAME,
            endpoint_slice_mirroring_rate_limiter(),
            self.options.workers,
            self.options.runtime.clone(),
        )
        .with_writes_after_failed_create(self.options.writes_after_failed_create)
    }

    fn manages(&self, slice: &EndpointSlice) -> bool {
        slice.is_managed_by(MIRRORING_CONTROLLER)
    }

    fn start(&self, runtime: &Runtime<Self>) {
        self.metrics.start();
        self.started_at.get_or_init(|| runtime.cluster().position(Kind::Endpoints));
    }

    fn on_service(&self, runtime: &Runtime<Self>, change: &Change<Service>) {
        let (old, new) = (change.old.as_deref(), change.new.as_deref());
        let lacks_selector = |service: &Service| service.selector.is_none();
        // The labels of the mirrored slices depend on it.
        let changes_labels = |old: &Service, new: &Service| {
            self.options.plan.headless_label_repair
                && lacks_selector(new)
                && old.is_headless() != new.is_headless()
        };
        let changes_hands = |old: &Service, new: &Service| {
            self.options.plan.endpoint_selectors
                && old.endpoint_selector().is_some() != new.endpoint_selector().is_some()
        };
        let matters = match (old, new) {
            // A user may have deleted the Service and created it again while no watch was open.
            (Some(old), Some(new)) => {
                lacks_selector(old) != lacks_selector(new)
                    || old.uid != new.uid
                    || changes_labels(old, new)
                    || changes_hands(old, new)
            }
            _ => old.or(new).is_some_and(lacks_selector),
        };
        if matters && let Some(service) = change.latest() {
            runtime.add(service.key.clone(), Cause::Service.since(change.arrived));
        }
    }

    fn on_endpoints(&self, runtime: &Runtime<Self>, change: &Change<Endpoints>) {
        // Endpoints that the controller mirrors neither now nor before the change do not matter:
        // slices that are left of them start a sync.
        let matters = [&change.old, &change.new].into_iter().flatten().any(|it| mirrorable(it).is_ok());
        if matters && let Some(endpoints) = change.latest() {
            let key = endpoints.key();
            if !is_left_to_selector(runtime, &key) {
                runtime.add(key, Cause::Endpoints.since(change.arrived));
            }
        }
    }

    fn on_endpoint_slice(&self, runtime: &Runtime<Self>, change: &Change<EndpointSlice>) {
        let Some(slice) = change.new.as_deref() else { return };
        let Some(owner) = slice.service_key() else { return };
        if self.options.orphaned_slice_cleanup
            && orphans::is_made_of_pods(slice)
            && runtime.cluster().service(&owner).is_some_and(|service| service.selector.is_none())
        {
            let reason = Cause::EndpointSlice.since(change.arrived);
            runtime.add_after(owner, self.options.batch_period, reason);
        }
    }

    fn foreign_write_delay(&self, _: &Runtime<Self>, _: ForeignWrite) -> Option<Duration> {
        Some(self.options.batch_period)
    }

    async fn sync(&self, runtime: &Runtime<Self>, key: &ObjectKey) -> Result<Outcome, SyncError> {
        self.sync_key(runtime, key).await
    }

    fn release(&self, runtime: &Runtime<Self>, key: &ObjectKey) {
        self.metrics.replace(runtime.forget_state(key).share, None);
    }

    fn observe(&self, attempt: &Attempt<'_, ObjectKey, Outcome, SyncError>) {
        self.metrics.synced(attempt.elapsed);
    }
}
