//! The controller around the plan: what starts a sync, what a sync does, and what becomes of its outcome.
//!
//! Upstream: `pkg/controller/endpointslice/endpointslice_controller.go`.

mod handler;
mod nodes;
mod sync;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, PutOff, TrackedWriter};
use kube_endpoint_core_model::{ObjectKey, PlannedEvent};
use kube_endpoint_informer::Cluster;
use kube_endpoint_tracker::TriggerTimes;
use kube_endpoint_workqueue::{RetryPolicy, WorkQueue, endpoint_slice_rate_limiter, run_workers_observed};
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;

use crate::metrics::{Metrics, SyncResult};
use crate::{HintedState, PlanOptions, TopologyState};

/// Component of the events that this controller records.
pub const EVENT_COMPONENT: &str = "endpoint-slice-controller";
/// Name of its queue in metrics.
pub const QUEUE_NAME: &str = "endpoint_slice";
/// A change of a slice waits at least this long for others before it starts a sync.
pub const SLICE_CHANGE_DELAY: Duration = Duration::from_secs(1);

/// Options of the controller; those of the plan among them.
#[derive(Clone, Debug)]
pub struct ControllerOptions {
    /// Options of the plan.
    pub plan: PlanOptions,
    /// How many Services are synced at once (`--concurrent-service-endpoint-syncs`).
    pub workers: usize,
    /// How long syncs that pods cause wait for more of the kind (`--endpointslice-updates-batch-period`).
    pub batch_period: Duration,
    /// Gate `NodeZoneResync`: Services with endpoints on a node are synced when its zone appears or changes, and Services
    /// whose topology hints were withdrawn when the zones allow hints again.
    pub node_zone_resync: bool,
    /// Gate `MissingNodeResync`: Services that left out pods because their node was not known are synced when it appears.
    pub missing_node_resync: bool,
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
            node_zone_resync: true,
            missing_node_resync: true,
            seed: 0,
        }
    }
}

/// The endpointslice controller. Cloning shares it.
#[derive(Clone)]
pub struct EndpointSliceController {
    shared: Arc<Shared>,
}

struct Shared {
    cluster: Cluster,
    queue: WorkQueue<ObjectKey>,
    writer: TrackedWriter,
    events: EventRecorder,
    clock: Clock,
    options: ControllerOptions,
    triggers: TriggerTimes,
    topology: RwLock<Arc<TopologyState>>,
    nodes_changed: Notify,
    /// Whether nodes have changed since `topology` was made; locked while it is made anew.
    topology_outdated: Mutex<bool>,
    stopped: Notify,
    /// What the last sync left of hints, for Services that have some. Ordered, since Services are queued in its order.
    hinted: Mutex<BTreeMap<ObjectKey, HintedState>>,
    /// What the last sync had to say of hints, for every Service that has been synced.
    reported: Mutex<HashMap<ObjectKey, Vec<PlannedEvent>>>,
    put_off: PutOff,
    metrics: Metrics,
}

impl EndpointSliceController {
    /// A controller over a cluster's stores, which it begins to listen to. It works once [`Self::run`] runs.
    pub fn new(
        cluster: Cluster,
        writer: ApiWriter,
        events: EventRecorder,
        clock: Clock,
        options: ControllerOptions,
    ) -> Self {
        let queue = WorkQueue::new(QUEUE_NAME, endpoint_slice_rate_limiter());
        let shared = Arc::new(Shared {
            writer: TrackedWriter::new(writer, options.seed),
            events,
            clock,
            triggers: TriggerTimes::default(),
            topology: RwLock::default(),
            nodes_changed: Notify::new(),
            topology_outdated: Mutex::new(true),
            stopped: Notify::new(),
            hinted: Mutex::default(),
            reported: Mutex::default(),
            put_off: PutOff::new(queue.clone()),
            queue,
            metrics: Metrics::new(),
            options,
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
        shared.refresh_topology();
        let syncing = Arc::clone(&shared);
        let observing = Arc::clone(&shared);
        let workers = run_workers_observed(
            shared.queue.clone(),
            RetryPolicy::default(),
            shared.options.workers,
            move |key| {
                let shared = Arc::clone(&syncing);
                async move { shared.sync(&key).await }
            },
            move |attempt| {
                let result = match attempt.result {
                    // The sync is not over yet.
                    Ok(sync::Synced::Paused) => return,
                    Ok(sync::Synced::Stale) => SyncResult::Stale,
                    Ok(sync::Synced::Done) => SyncResult::Success,
                    Err(_) => SyncResult::Error,
                };
                observing.metrics.synced(result);
            },
        );
        tokio::select! {
            biased;
            () = workers => {}
            () = shared.follow_nodes() => {}
        }
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

    /// How much is remembered of Services: nothing, when there are none.
    pub fn remembered(&self) -> Remembered {
        let shared = &self.shared;
        let (owners, objects) = shared.writer.tracker().len();
        Remembered {
            trigger_times: shared.triggers.len(),
            outstanding_writes: owners + objects,
            hinted: shared.hinted.lock().len(),
            reported: shared.reported.lock().len(),
            put_off: shared.put_off.len(),
            measured: shared.metrics.services(),
        }
    }
}

/// How many entries each of the controller's memories of Services has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// Services whose trigger times are followed.
    pub trigger_times: usize,
    /// Services and slices of which the cache does not show our own writes yet.
    pub outstanding_writes: usize,
    /// Services that have topology hints.
    pub hinted: usize,
    /// Services of whose hints has been reported.
    pub reported: usize,
    /// Services whose sync was put off.
    pub put_off: usize,
    /// Services that the gauges count.
    pub measured: usize,
}
