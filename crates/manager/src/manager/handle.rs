//! A handle through which health checks, the status page and gauges see a running manager.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use kube_endpoint_informer::{Cluster, Handler};
use kube_endpoint_leader_election::LowerVersion;
use kube_endpoint_watch_channel as watch;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use super::RunningControllers;
use crate::certificates::Certificates;

/// A handle of a manager. It stays valid during and after [`Manager::run`](super::Manager::run).
#[derive(Clone)]
pub struct ManagerHandle {
    certificates: Certificates,
    /// True if the writers record writes instead of sending them.
    dry_run: bool,
    state: Arc<State>,
}

type MakeHandler = Box<dyn Fn(&Cluster) -> Arc<dyn Handler> + Send + Sync>;

/// The stores and controllers that run now, and when they began.
struct Running {
    cluster: Cluster,
    controllers: RunningControllers,
    since: Instant,
}

impl Running {
    fn now(cluster: Cluster, controllers: RunningControllers) -> Self {
        Self { cluster, controllers, since: Instant::now() }
    }
}

struct State {
    running: RwLock<Running>,
    handlers: Mutex<Vec<MakeHandler>>,
    leading: watch::Sender<bool>,
    leader: Mutex<Option<String>>,
    shutting_down: watch::Sender<bool>,
    dead_task: Mutex<Option<String>>,
    /// True if the API server serves no slices.
    lacks_slices: AtomicBool,
}

impl ManagerHandle {
    pub(super) fn new(
        cluster: Cluster,
        controllers: RunningControllers,
        certificates: Certificates,
        dry_run: bool,
    ) -> Self {
        let state = State {
            running: RwLock::new(Running::now(cluster, controllers)),
            handlers: Mutex::default(),
            leading: watch::Sender::new(false),
            leader: Mutex::default(),
            shutting_down: watch::Sender::new(false),
            dead_task: Mutex::default(),
            lacks_slices: AtomicBool::default(),
        };
        Self { certificates, dry_run, state: Arc::new(state) }
    }

    /// Returns the stores that the controllers share now. The manager replaces them when it starts
    /// again because the server's storage went back.
    pub fn cluster(&self) -> Cluster {
        self.state.running.read().cluster.clone()
    }

    /// Returns the controllers that run now. A new start replaces them, too; see [`Self::cluster`].
    pub fn controllers(&self) -> RunningControllers {
        self.state.running.read().controllers.clone()
    }

    /// Adds a handler of every change of the stores. The manager calls `make` with the stores, and
    /// again with new ones whenever it replaces them.
    pub fn add_handler(&self, make: impl Fn(&Cluster) -> Arc<dyn Handler> + Send + Sync + 'static) {
        let mut handlers = self.state.handlers.lock();
        let cluster = self.cluster();
        cluster.add_handler(make(&cluster));
        handlers.push(Box::new(make));
    }

    /// Reports that the version of the Lease went back. If the manager has replaced the stores
    /// since this process read the higher version, that is out of date, and this ignores it.
    pub(super) fn lease_went_back(&self, lower: LowerVersion) {
        let running = self.state.running.read();
        if lower.read < running.since {
            return;
        }
        // Without a confirmation one server may have answered from an older state. If all lists
        // have been made again lately, nothing but a new start is left that looks after this.
        if lower.is_confirmed || !running.cluster.list_again_for_doubt() {
            running.cluster.report_storage_went_back(lower.evidence);
        }
    }

    /// Replaces the stores and the controllers.
    pub(super) fn replace(&self, cluster: Cluster, controllers: RunningControllers) {
        let handlers = self.state.handlers.lock();
        handlers.iter().for_each(|make| cluster.add_handler(make(&cluster)));
        *self.state.running.write() = Running::now(cluster, controllers);
    }

    /// Returns the certificates in use.
    pub(crate) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Returns true if the informers have listed all kinds, so that the manager can work or take
    /// over.
    pub fn has_synced(&self) -> bool {
        self.cluster().has_synced()
    }

    /// Returns a receiver that holds true while the controllers may write: without leader election
    /// from the start, otherwise from the take-over until the shutdown or the loss of the lease.
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.state.leading.subscribe()
    }

    /// Returns the identity of the holder of the lease that a standby saw last. It is `None`
    /// without leader election, before the first read of the lease, and if the lease had no holder.
    pub fn leader(&self) -> Option<String> {
        self.state.leader.lock().clone()
    }

    /// Returns true if this is a dry run: the writers record and report writes, and send none.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Returns true if the shutdown has begun. The manager is not ready then.
    pub fn is_shutting_down(&self) -> bool {
        *self.state.shutting_down.borrow()
    }

    /// Returns a receiver whose value becomes true when the shutdown begins.
    #[cfg(feature = "ui")]
    pub(crate) fn shutting_down(&self) -> watch::Receiver<bool> {
        self.state.shutting_down.subscribe()
    }

    /// Returns the name of the task that ended or panicked, if one did. The process then is about
    /// to end, and counts as not alive.
    pub fn dead_task(&self) -> Option<String> {
        self.state.dead_task.lock().clone()
    }

    /// Returns false if the API server serves no slices. Controllers that need them wait.
    pub(crate) fn serves_slices(&self) -> bool {
        !self.state.lacks_slices.load(Ordering::Relaxed)
    }

    pub(super) fn set_serves_slices(&self, serves_slices: bool) {
        self.state.lacks_slices.store(!serves_slices, Ordering::Relaxed);
    }

    pub(super) fn set_leading(&self, leading: bool) {
        self.state.leading.send_if_modified(|before| std::mem::replace(before, leading) != leading);
    }

    pub(super) fn set_leader(&self, leader: Option<String>) {
        *self.state.leader.lock() = leader;
    }

    pub(super) fn set_shutting_down(&self) {
        self.state.shutting_down.send_replace(true);
    }

    pub(super) fn set_dead_task(&self, name: &str) {
        *self.state.dead_task.lock() = Some(name.to_owned());
    }
}
