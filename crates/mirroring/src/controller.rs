//! The controller around the plan: what starts a sync, what a sync does, and what becomes of its outcome.
//!
//! Upstream: `pkg/controller/endpointslicemirroring/endpointslicemirroring_controller.go`.

mod handler;
mod orphans;
mod sync;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use kube_endpoint_api_writer::{ApiWriter, EventRecorder, PutOff, TrackedWriter};
use kube_endpoint_core_model::{ObjectKey, PlannedEvent, ResourceVersion};
use kube_endpoint_informer::{Cluster, Kind};
use kube_endpoint_workqueue::{
    RetryPolicy, WorkQueue, endpoint_slice_mirroring_rate_limiter, run_workers_observed,
};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::PlanOptions;
use crate::metrics::Metrics;

/// Component of the events that this controller records.
pub const EVENT_COMPONENT: &str = "endpoint-slice-mirroring-controller";
/// Name of its queue in metrics.
pub const QUEUE_NAME: &str = "endpoint_slice_mirroring";

/// Options of the controller; those of the plan among them.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Options of the plan.
    pub plan: PlanOptions,
    /// How many Endpoints objects are synced at once (`--mirroring-concurrent-service-endpoint-syncs`).
    pub workers: usize,
    /// How long syncs that slices cause wait for more of the kind (`--mirroring-endpointslice-updates-batch-period`).
    pub batch_period: Duration,
    /// Gate `OrphanedSliceCleanup`: slices that were made of pods go once the Service has no selector any more and its
    /// Endpoints are mirrored. Upstream leaves both in place, and clients with endpoints that nobody maintains.
    pub orphaned_slice_cleanup: bool,
    /// Seed of the names of new slices.
    pub seed: u64,
}

impl Default for ControllerOptions {
    /// Upstream's defaults, and the gates as they are by default.
    fn default() -> Self {
        Self {
            plan: PlanOptions::default(),
            workers: 5,
            batch_period: Duration::ZERO,
            orphaned_slice_cleanup: true,
            seed: 0,
        }
    }
}

/// The EndpointSlice mirroring controller. Cloning shares it.
#[derive(Clone)]
pub struct MirroringController {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: Cluster,
    /// Keys are those of Endpoints objects, which are also those of their Services.
    queue: WorkQueue<ObjectKey>,
    put_off: PutOff,
    writer: TrackedWriter,
    events: EventRecorder,
    options: ControllerOptions,
    metrics: Metrics,
    /// What was last found to say of each Endpoints object that is mirrored.
    reported: Mutex<HashMap<ObjectKey, Vec<PlannedEvent>>>,
    /// Up to where Endpoints were read when the work began.
    started_at: OnceLock<ResourceVersion>,
    stopped: Notify,
}

impl MirroringController {
    /// A controller over a cluster's stores, which it begins to listen to. It works once [`Self::run`] runs.
    pub fn new(
        cluster: Cluster,
        writer: ApiWriter,
        events: EventRecorder,
        options: ControllerOptions,
    ) -> Self {
        let queue = WorkQueue::new(QUEUE_NAME, endpoint_slice_mirroring_rate_limiter());
        let shared = Arc::new(Shared {
            put_off: PutOff::new(queue.clone()),
            queue,
            writer: TrackedWriter::new(writer, options.seed),
            events,
            options,
            metrics: Metrics::new(),
            reported: Mutex::default(),
            started_at: OnceLock::new(),
            stopped: Notify::new(),
            cluster: cluster.clone(),
        });
        cluster.add_handler(Arc::clone(&shared) as _);
        Self { shared }
    }

    /// Works until [`Self::shut_down`]: waits for the stores to be filled, then syncs. Syncs that are under way when it is
    /// shut down are finished.
    pub async fn run(self) {
        let shared = self.shared;
        tokio::select! {
            biased;
            () = shared.stopped.notified() => return,
            () = shared.cluster.synced() => {}
        }
        shared.started_at.get_or_init(|| shared.cluster.position(Kind::Endpoints));
        let syncing = Arc::clone(&shared);
        let observing = Arc::clone(&shared);
        run_workers_observed(
            shared.queue.clone(),
            RetryPolicy::default(),
            shared.options.workers,
            move |key| {
                let shared = Arc::clone(&syncing);
                async move { shared.sync(&key).await }
            },
            move |attempt| observing.metrics.synced(attempt.elapsed),
        )
        .await;
    }

    /// Takes no more work and lets [`Self::run`] return when what is under way is done.
    pub fn shut_down(&self) {
        self.shared.queue.shut_down();
        self.shared.stopped.notify_one();
    }

    /// How many Endpoints objects wait to be synced, or are being synced.
    pub fn pending(&self) -> usize {
        self.shared.queue.outstanding()
    }
}
