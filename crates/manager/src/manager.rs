//! Wires the selected controllers to one informer layer, runs them, and shuts them down.

mod build;
mod controllers;
mod election;
mod error;
mod handle;
mod informers;
mod running;
mod take_over;
mod tasks;

use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use kube_endpoint_api_client::{ApiClient, CertificateUse};
use kube_endpoint_api_writer::Clock;
use kube_endpoint_informer::{Cluster, Handler};
use kube_endpoint_leader_election::LeaseHealth;

use crate::certificates::Certificates;
use crate::settings::Settings;
use build::{Blueprint, Parts};
pub use controllers::RunningControllers;
use election::Candidate;
pub use error::ManagerError;
pub use handle::ManagerHandle;
use running::Running;

/// Controllers over one informer layer, ready to run.
pub struct Manager {
    blueprint: Blueprint,
    parts: Parts,
    election: Option<Candidate>,
    handle: ManagerHandle,
    other_tasks: Vec<(String, BoxFuture<'static, ()>)>,
    #[cfg(feature = "ui")]
    pub(crate) ui: Option<crate::ui::Ui>,
    cycle: CycleBreaker,
}

/// Drops the handlers of the stores when the manager ends, also if it never runs or its future is
/// dropped. The stores hold the controllers as handlers, and the controllers hold the stores:
/// without this, all objects would stay in memory.
struct CycleBreaker(ManagerHandle);

impl Drop for CycleBreaker {
    fn drop(&mut self) {
        self.0.cluster().remove_handlers();
    }
}

impl Manager {
    /// Builds the selected controllers. It sends nothing to the API server; [`Manager::run`] does.
    ///
    /// The client sends and asks for objects in `settings.content_type`.
    ///
    /// `clock` tells the wall-clock time: pass `Clock::reading(Timestamp::now)` in production.
    /// Tests pass the time of the start; the clock then advances with tokio's. `seed` determines
    /// the names of new slices and all jitter: pass a random number in production and a constant in
    /// tests. The manager registers its metrics with the current
    /// [`metrics`](https://docs.rs/metrics) recorder. Call this within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`ManagerError::Rate`] if `settings.qps` or `settings.burst` is invalid,
    /// [`ManagerError::LeaderElection`] if `settings.leader_election` is.
    pub fn new(
        client: ApiClient,
        settings: &Settings,
        clock: impl Into<Clock>,
        seed: u64,
    ) -> Result<Self, ManagerError> {
        Self::with_lease_client(client, None, settings, clock, seed)
    }

    /// As [`Manager::new`], with a client of its own for leader election, so that no renewal of the
    /// lease waits for requests of the controllers. [`connect_for_lease`](crate::connect_for_lease)
    /// makes one.
    ///
    /// # Errors
    ///
    /// As [`Manager::new`].
    pub fn with_lease_client(
        client: ApiClient,
        lease_client: Option<ApiClient>,
        settings: &Settings,
        clock: impl Into<Clock>,
        seed: u64,
    ) -> Result<Self, ManagerError> {
        Self::build(client, lease_client, settings, clock.into(), seed)
    }

    fn build(
        client: ApiClient,
        lease_client: Option<ApiClient>,
        settings: &Settings,
        clock: Clock,
        seed: u64,
    ) -> Result<Self, ManagerError> {
        let client = client.with_content_type(settings.content_type);
        let mut blueprint = Blueprint::new(client.clone(), settings.clone(), clock, seed);
        let parts = blueprint.build()?;
        let election_seeds = (blueprint.seeds.next(), blueprint.seeds.next());
        let candidate = |settings| {
            let client = lease_client.unwrap_or_else(|| client.clone());
            Candidate::new(client, settings, clock, election_seeds)
        };
        let election = settings.leader_election.as_ref().map(candidate).transpose()?;
        // The client of leader election uses the same certificates.
        let (certificates, of) = (Certificates::new(), client.clone());
        certificates
            .add(move || of.certificates([CertificateUse::ApiServerClient, CertificateUse::ApiServerCa]));
        let handle = ManagerHandle::new(
            parts.cluster.clone(),
            parts.controllers.clone(),
            certificates.clone(),
            settings.dry_run,
        );
        Ok(Self {
            blueprint,
            parts,
            election,
            cycle: CycleBreaker(handle.clone()),
            handle,
            other_tasks: vec![("certificates".to_owned(), Box::pin(certificates.warn(clock)))],
            #[cfg(feature = "ui")]
            ui: None,
        })
    }

    /// Returns the stores that the controllers share. When the manager starts again because the
    /// server's storage went back, it makes new ones; [`ManagerHandle::cluster`] returns the
    /// current ones.
    pub fn cluster(&self) -> &Cluster {
        &self.parts.cluster
    }

    /// Returns the controllers. [`ManagerHandle::controllers`] returns the current ones after a new
    /// start.
    pub fn controllers(&self) -> &RunningControllers {
        &self.parts.controllers
    }

    /// Returns a handle for health checks, the status page and gauges.
    pub fn handle(&self) -> ManagerHandle {
        self.handle.clone()
    }

    /// Returns the liveness check of leader election, or `None` if the manager elects no leader.
    pub(crate) fn lease_health(&self) -> Option<LeaseHealth> {
        self.election.as_ref().map(Candidate::health)
    }

    /// Returns the client of the controllers.
    #[cfg(all(feature = "ui", feature = "embedded"))]
    pub(crate) fn client(&self) -> &ApiClient {
        self.blueprint.client()
    }

    /// Adds a handler, as [`ManagerHandle::add_handler`] does.
    pub fn add_handler(&self, make: impl Fn(&Cluster) -> Arc<dyn Handler> + Send + Sync + 'static) {
        self.handle.add_handler(make);
    }

    /// Adds a task that [`Manager::run`] runs, and aborts at its end. If the task ends before, the
    /// manager fails with an error that names it, as with any of its own tasks.
    pub fn add_task(&mut self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        self.other_tasks.push((name.into(), Box::pin(task)));
    }

    /// Runs the controllers until `shutdown` completes. Without leader election, the manager then
    /// takes no more work, syncs the queued keys, sends the queued events and returns. It abandons
    /// work that takes longer than [`Settings::shutdown_timeout`], with a warning.
    ///
    /// If the server's storage goes back, as after a restore, the controllers start again from
    /// nothing, and write nothing before they have filled new stores. They do so once in ten
    /// minutes at most. Meanwhile the manager keeps the lease and serves its pages.
    ///
    /// With leader election, the controllers run while this process holds the lease. After
    /// `shutdown`, the manager waits up to a second for the answers to the writes that it has sent,
    /// and releases the lease. It abandons the queued keys, since the next leader syncs all keys.
    ///
    /// Dropping the future ends everything at once and keeps the lease, as the death of the process
    /// does.
    ///
    /// # Errors
    ///
    /// If a task panics or ends before the shutdown, or another process may hold the lease. The
    /// manager then returns at once, because it must not run without one of its parts.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ManagerError> {
        let handle = self.handle.clone();
        let mut running = Running::start(self);
        let result = running.run(shutdown).await;
        handle.set_leading(false);
        // The server answers until this function ends, so its pages name the dead task.
        if let Err(error) = &result
            && let Some(task) = error.task()
        {
            handle.set_dead_task(task);
        }
        result
    }
}
