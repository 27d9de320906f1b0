//! What others may know about a running manager: health checks, the status page, gauges.

use std::sync::Arc;

use kube_endpoint_informer::{Cluster, Handler};
use kube_endpoint_watch_channel as watch;
use parking_lot::{Mutex, RwLock};
use tokio::time::Instant;

use super::RunningControllers;
use crate::certificates::Certificates;

/// A view of a manager. It stays valid while [`Manager::run`](super::Manager::run) runs and after
/// it.
#[derive(Clone)]
pub struct ManagerHandle {
    certificates: Certificates,
    /// True if writes are recorded instead of sent.
    dry_run: bool,
    state: Arc<State>,
}

type MakeHandler = Box<dyn Fn(&Cluster) -> Arc<dyn Handler> + Send + Sync>;

/// What runs now.
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
        };
        Self { certificates, dry_run, state: Arc::new(state) }
    }

    /// The stores that the controllers share now. They are others after the manager has started
    /// again because the server's storage went back.
    pub fn cluster(&self) -> Cluster {
        self.state.running.read().cluster.clone()
    }

    /// The controllers that run now; see [`Self::cluster`].
    pub fn controllers(&self) -> RunningControllers {
        self.state.running.read().controllers.clone()
    }

    /// Adds a handler that is called for every change of the stores. `make` is called with them,
    /// and again whenever they are replaced.
    pub fn add_handler(&self, make: impl Fn(&Cluster) -> Arc<dyn Handler> + Send + Sync + 'static) {
        let mut handlers = self.state.handlers.lock();
        let cluster = self.cluster();
        cluster.add_handler(make(&cluster));
        handlers.push(Box::new(make));
    }

    /// Reports evidence that the server's storage went back, unless the stores have been replaced
    /// since the version was `read` that it contradicts.
    pub(super) fn report_storage_went_back(&self, evidence: String, read: Instant) {
        let running = self.state.running.read();
        if read >= running.since {
            running.cluster.report_storage_went_back(evidence);
        }
    }

    /// Replaces the stores and the controllers.
    pub(super) fn replace(&self, cluster: Cluster, controllers: RunningControllers) {
        let handlers = self.state.handlers.lock();
        handlers.iter().for_each(|make| cluster.add_handler(make(&cluster)));
        *self.state.running.write() = Running::now(cluster, controllers);
    }

    /// The certificates in use.
    pub(crate) fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Returns true if all kinds have been listed, so that the manager can work or take over.
    pub fn has_synced(&self) -> bool {
        self.cluster().has_synced()
    }

    /// Becomes true when the controllers may write: without leader election from the start,
    /// otherwise from the take-over until the shutdown or the loss of the lease.
    pub fn leading(&self) -> watch::Receiver<bool> {
        self.state.leading.subscribe()
    }

    /// The identity of the holder of the lease, as last seen by a standby. None without leader
    /// election, before the lease was read, and when nobody held it.
    pub fn leader(&self) -> Option<String> {
        self.state.leader.lock().clone()
    }

    /// Returns true if this is a dry run: writes are recorded and reported, and none is sent.
    pub fn is_dry_run(&self) -> bool {
        self.dry_run
    }

    /// Returns true if the shutdown has begun. The manager is not ready then.
    pub fn is_shutting_down(&self) -> bool {
        *self.state.shutting_down.borrow()
    }

    /// Becomes true when the shutdown begins.
    #[cfg(feature = "ui")]
    pub(crate) fn shutting_down(&self) -> watch::Receiver<bool> {
        self.state.shutting_down.subscribe()
    }

    /// The name of a task that ended or panicked, if one did. The process is about to end then, and
    /// is not alive.
    pub fn dead_task(&self) -> Option<String> {
        self.state.dead_task.lock().clone()
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
