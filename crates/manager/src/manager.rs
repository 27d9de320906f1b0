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
use std::time::Duration;

use futures::future::BoxFuture;
use kube_endpoint_api_client::{ApiClient, CertificateUse};
use kube_endpoint_api_writer::{Clock, EventRecorder, WriteFence};
use kube_endpoint_informer::{Cluster, Handler, Kind, Kinds, ReflectorOptions};
use kube_endpoint_leader_election::LeaseHealth;

use crate::audit::AuditLog;
use crate::certificates::Certificates;
use crate::controller_name::ControllerName;
use crate::settings::Settings;
use build::{Build, Seeds};
pub use controllers::RunningControllers;
use election::Candidate;
pub use error::ManagerError;
pub use handle::ManagerHandle;
use running::Running;
use tasks::NamedTasks;

/// How long the last lines of the audit log have to be written.
const AUDIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Controllers over one informer layer, ready to run.
pub struct Manager {
    client: ApiClient,
    fence: WriteFence,
    election: Option<Candidate>,
    /// The kinds that the controllers write.
    outputs: Vec<Kind>,
    cluster: Cluster,
    kinds: Kinds,
    names: Vec<ControllerName>,
    reflectors: ReflectorOptions,
    seeds: Seeds,
    controllers: RunningControllers,
    recorders: Vec<EventRecorder>,
    event_tasks: NamedTasks,
    audit: Option<AuditLog>,
    shutdown_timeout: Duration,
    handle: ManagerHandle,
    other_tasks: Vec<(String, BoxFuture<'static, ()>)>,
    #[cfg(feature = "ui")]
    pub(crate) ui: Option<crate::ui::Ui>,
}

impl Manager {
    /// Builds the selected controllers. Nothing is sent to the API server before [`Manager::run`].
    ///
    /// The client sends and asks for objects in `settings.content_type`.
    ///
    /// `clock` tells the wall-clock time: pass `Clock::reading(Timestamp::now)` in production. In
    /// tests pass a time; it is the current one, and advances with tokio's clock. `seed` determines
    /// the names of new slices and all jitter: pass a random number in production and a constant in
    /// tests. Metrics are registered with the current [`metrics`](https://docs.rs/metrics)
    /// recorder. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`ManagerError::Rate`] if `settings.qps` or `settings.burst` is invalid,
    /// [`ManagerError::LeaderElection`] if `settings.leader_election` is,
    /// [`ManagerError::AuditLog`] if `settings.audit_log` cannot be opened.
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
        let runs = |name: ControllerName| settings.controllers.contains(&name) && name.is_built_in();
        let (endpoints, slices, mirroring) = (
            runs(ControllerName::Endpoints),
            runs(ControllerName::EndpointSlice),
            runs(ControllerName::EndpointSliceMirroring),
        );
        let needed = [
            (Kind::Pods, endpoints || slices),
            (Kind::Services, endpoints || slices || mirroring),
            (Kind::Nodes, slices),
            (Kind::EndpointSlices, slices || mirroring),
            (Kind::Endpoints, endpoints || mirroring),
        ];
        let kinds: Kinds = needed.into_iter().filter_map(|(kind, needed)| needed.then_some(kind)).collect();
        let outputs = [(Kind::EndpointSlices, slices || mirroring), (Kind::Endpoints, endpoints)];
        let elects = settings.leader_election.is_some();
        let audit = settings.audit_log.as_deref().map(|path| AuditLog::open(path, clock)).transpose()?;
        #[cfg_attr(
            not(any(feature = "endpoints", feature = "endpointslice", feature = "mirroring")),
            expect(unused_mut, reason = "unchanged in a build without controllers")
        )]
        let mut build = Build {
            client: client.clone(),
            cluster: Cluster::with_options(kinds, settings.cluster()),
            clock,
            seeds: Seeds(seed),
            fence: if elects { WriteFence::closed() } else { WriteFence::default() },
            #[cfg(any(feature = "endpoints", feature = "endpointslice", feature = "mirroring"))]
            outages: kube_endpoint_controller_runtime::Outages::default(),
            event_tasks: NamedTasks::default(),
            recorders: Vec::new(),
            audit: audit.clone(),
            settings,
        };
        let controllers = RunningControllers {
            #[cfg(feature = "endpointslice")]
            endpoint_slice: slices.then(|| build.endpoint_slice_controller()).transpose()?,
            #[cfg(feature = "endpoints")]
            endpoints: endpoints.then(|| build.endpoints_controller()).transpose()?,
            #[cfg(feature = "mirroring")]
            mirroring: mirroring.then(|| build.mirroring_controller()).transpose()?,
        };
        let Build { cluster, event_tasks, recorders, mut seeds, fence, .. } = build;
        let election_seeds = (seeds.next(), seeds.next());
        let candidate = |settings| {
            let client = lease_client.unwrap_or_else(|| client.clone());
            Candidate::new(client, settings, clock, election_seeds)
        };
        let election = settings.leader_election.as_ref().map(candidate).transpose()?;
        // The client of leader election has the same.
        let (certificates, of) = (Certificates::new(), client.clone());
        certificates
            .add(move || of.certificates([CertificateUse::ApiServerClient, CertificateUse::ApiServerCa]));
        let handle =
            ManagerHandle::new(cluster.clone(), controllers.clone(), certificates.clone(), settings.dry_run);
        Ok(Self {
            fence,
            election,
            outputs: outputs.into_iter().filter_map(|(kind, written)| written.then_some(kind)).collect(),
            client,
            kinds,
            names: settings.controllers.iter().copied().filter(|name| runs(*name)).collect(),
            reflectors: settings.reflectors.streaming_list(settings.watch_list_client),
            seeds,
            recorders,
            event_tasks,
            audit,
            shutdown_timeout: settings.shutdown_timeout,
            handle,
            other_tasks: vec![("certificates".to_owned(), Box::pin(certificates.warn(clock)))],
            #[cfg(feature = "ui")]
            ui: None,
            cluster,
            controllers,
        })
    }

    /// The stores that the controllers share.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The controllers.
    pub fn controllers(&self) -> &RunningControllers {
        &self.controllers
    }

    /// A view of the manager for health checks, the status page and gauges.
    pub fn handle(&self) -> ManagerHandle {
        self.handle.clone()
    }

    /// The liveness check of leader election; none without it.
    pub fn lease_health(&self) -> Option<LeaseHealth> {
        self.election.as_ref().map(Candidate::health)
    }

    /// Adds a handler that is called for every change of the stores.
    pub fn add_handler(&self, handler: Arc<dyn Handler>) {
        self.cluster.add_handler(handler);
    }

    /// Adds a task that runs as long as [`Manager::run`] and is aborted at its end. If it ends
    /// before, the manager fails with its name, as with any of its own tasks.
    pub fn add_task(&mut self, name: impl Into<String>, task: impl Future<Output = ()> + Send + 'static) {
        self.other_tasks.push((name.into(), Box::pin(task)));
    }

    /// Runs the controllers until `shutdown` completes. Then it takes no more work, syncs the keys
    /// that are queued, sends the queued events and returns. Work that takes longer than
    /// [`Settings::shutdown_timeout`] is abandoned with a warning.
    ///
    /// With leader election, the controllers run while this process holds the lease. After
    /// `shutdown`, the writes that were sent have a second to be answered. Then the lease is
    /// released, and the next leader syncs all keys.
    ///
    /// # Errors
    ///
    /// When a task panics or ends before the shutdown, or the lease is lost. The manager then
    /// returns immediately, because it must not run without one of its parts.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ManagerError> {
        let handle = self.handle.clone();
        let audit = self.audit.clone();
        let mut running = Running::start(self);
        let result = running.run(shutdown).await;
        handle.set_leading(false);
        // The pages are served until this function ends.
        if let Err(error) = &result
            && let Some(task) = error.task()
        {
            handle.set_dead_task(task);
        }
        if let Some(audit) = audit {
            audit.flush(AUDIT_TIMEOUT).await;
        }
        // The cluster holds the controllers as handlers, and those hold the cluster.
        handle.cluster().remove_handlers();
        result
    }
}
