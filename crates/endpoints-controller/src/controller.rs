//! The controller around the plan: what starts a sync, what a sync does, and what becomes of its outcome.
//!
//! Upstream: `pkg/controller/endpoint/endpoints_controller.go`. It has no metrics beyond those of its queue.

mod handler;
mod sync;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_writer::{ApiWriter, EventRecorder, PutOff, TrackedWriter};
use kube_endpoint_core_model::well_known::ANNOTATION_LEADER;
use kube_endpoint_core_model::{ObjectKey, ResourceVersion};
use kube_endpoint_informer::Cluster;
use kube_endpoint_tracker::TriggerTimes;
use kube_endpoint_workqueue::{RetryPolicy, WorkQueue, default_controller_rate_limiter, run_workers};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::PlanOptions;

/// Component of the events that this controller records.
pub const EVENT_COMPONENT: &str = "endpoint-controller";
/// Name of its queue in metrics.
pub const QUEUE_NAME: &str = "endpoint";

/// Options of the controller; those of the plan among them.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Options of the plan.
    pub plan: PlanOptions,
    /// How many Services are synced at once (`--concurrent-endpoint-syncs`).
    pub workers: usize,
    /// How long syncs that pods cause wait for more of the kind (`--endpoint-updates-batch-period`).
    pub batch_period: Duration,
    /// Gate `EndpointsRepair`: Endpoints that somebody else changed are synced at once. Upstream leaves them as they are
    /// until a pod or the Service changes.
    pub repair: bool,
    /// Seed of all that is random.
    pub seed: u64,
}

impl Default for ControllerOptions {
    /// Upstream's defaults, and the gates as they are by default.
    fn default() -> Self {
        Self { plan: PlanOptions::default(), workers: 5, batch_period: Duration::ZERO, repair: true, seed: 0 }
    }
}

/// The endpoints controller. Cloning shares it.
#[derive(Clone)]
pub struct EndpointsController {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: Cluster,
    queue: WorkQueue<ObjectKey>,
    put_off: PutOff,
    writer: TrackedWriter,
    events: EventRecorder,
    options: ControllerOptions,
    triggers: TriggerTimes,
    /// Services that went, and whose Endpoints have to go with them. Endpoints that never had a Service are somebody's
    /// data: a key alone, queued for whatever reason, is no ground for deleting anything.
    gone: Mutex<BTreeSet<ObjectKey>>,
    /// The version of each Service about which a warning was logged.
    warned: Mutex<HashMap<ObjectKey, ResourceVersion>>,
    stopped: Notify,
}

impl EndpointsController {
    /// A controller over a cluster's stores, which it begins to listen to. It works once [`Self::run`] runs.
    pub fn new(
        cluster: Cluster,
        writer: ApiWriter,
        events: EventRecorder,
        options: ControllerOptions,
    ) -> Self {
        let queue = WorkQueue::new(QUEUE_NAME, default_controller_rate_limiter());
        let shared = Arc::new(Shared {
            put_off: PutOff::new(queue.clone()),
            queue,
            writer: TrackedWriter::new(writer, options.seed),
            events,
            options,
            triggers: TriggerTimes::default(),
            gone: Mutex::default(),
            warned: Mutex::default(),
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
        shared.queue_leftovers();
        let syncing = Arc::clone(&shared);
        run_workers(shared.queue.clone(), RetryPolicy::default(), shared.options.workers, move |key| {
            let shared = Arc::clone(&syncing);
            async move { shared.sync(&key).await }
        })
        .await;
    }

    /// Takes no more work and lets [`Self::run`] return when what is under way is done.
    pub fn shut_down(&self) {
        self.shared.queue.shut_down();
        self.shared.stopped.notify_one();
    }

    /// How many Services wait to be synced, or are being synced.
    pub fn pending(&self) -> usize {
        self.shared.queue.outstanding()
    }
}

impl Shared {
    /// Queues the Endpoints of Services that went while nobody watched (upstream `checkLeftoverEndpoints`), but no
    /// leader-election locks, which have no Service. Called once, when the stores are filled.
    fn queue_leftovers(&self) {
        for key in self.cluster.endpoints_keys() {
            let Some(endpoints) = self.cluster.endpoints(&key) else { continue };
            let metadata = &endpoints.metadata;
            if self.cluster.service(&key).is_none() && !metadata.annotations.contains_key(ANNOTATION_LEADER) {
                self.gone.lock().insert(key.clone());
                self.queue.add(key);
            }
        }
    }
}
