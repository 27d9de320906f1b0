//! Wires the selected controllers to one informer layer, runs them, and shuts them down.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter};
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, Pod, Service, Timestamp};
use kube_endpoint_informer::{Cluster, Handler, Kind, Kinds, ReflectorOptions};
use kube_endpoint_workqueue::InvalidRate;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::controller_name::ControllerName;
use crate::settings::Settings;

/// How long [`Manager::run`] waits for outstanding work after a shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a manager could not be built, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// The client-side rate limit is invalid.
    #[error("invalid client-side rate limit: {0}")]
    Rate(#[from] InvalidRate),
    /// A task panicked. The process should exit and be restarted.
    #[error("a background task failed: {0}")]
    TaskFailed(#[from] tokio::task::JoinError),
    /// A controller, a watch or an event recorder ended without a shutdown. The process should exit and be restarted.
    #[error("a background task ended unexpectedly")]
    TaskEnded,
}

/// The controllers that a manager runs.
#[derive(Clone)]
pub struct RunningControllers {
    /// The endpointslice controller.
    #[cfg(feature = "endpointslice")]
    pub endpoint_slice: Option<kube_endpoint_endpointslice_controller::EndpointSliceController>,
    /// The endpoints controller.
    #[cfg(feature = "endpoints")]
    pub endpoints: Option<kube_endpoint_endpoints_controller::EndpointsController>,
    /// The mirroring controller.
    #[cfg(feature = "mirroring")]
    pub mirroring: Option<kube_endpoint_mirroring::MirroringController>,
}

/// Controllers over one informer layer, ready to run.
pub struct Manager {
    client: ApiClient,
    cluster: Cluster,
    kinds: Kinds,
    reflectors: ReflectorOptions,
    seeds: Seeds,
    controllers: RunningControllers,
    tasks: JoinSet<()>,
}

/// Derives one seed for each user of randomness from the manager's seed, so that no two draw the same numbers.
struct Seeds(u64);

impl Seeds {
    fn next(&mut self) -> u64 {
        // SplitMix64's increment. It is odd, so that the sequence visits every number.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0
    }
}

impl Manager {
    /// Builds the selected controllers. Nothing is sent to the API server before [`Manager::run`].
    ///
    /// `now` is the wall-clock time; it advances with tokio's clock. `seed` determines the names of new slices and all
    /// jitter: pass a random number in production and a constant in tests. Metrics are registered with the current
    /// [`metrics`](https://docs.rs/metrics) recorder. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// [`ManagerError::Rate`] if `settings.qps` or `settings.burst` is invalid.
    pub fn new(
        client: ApiClient,
        settings: &Settings,
        now: Timestamp,
        seed: u64,
    ) -> Result<Self, ManagerError> {
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
        #[cfg_attr(
            not(any(feature = "endpoints", feature = "endpointslice", feature = "mirroring")),
            expect(unused_mut, reason = "unchanged in a build without controllers")
        )]
        let mut build = Build {
            client: client.clone(),
            cluster: Cluster::new(kinds),
            clock: Clock::starting_at(now),
            seeds: Seeds(seed),
            tasks: JoinSet::new(),
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
        let Build { cluster, tasks, seeds, .. } = build;
        let reflectors = settings.reflectors.streaming_list(settings.watch_list_client);
        Ok(Self { client, cluster, kinds, reflectors, seeds, controllers, tasks })
    }

    /// The stores that the controllers share.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The controllers.
    pub fn controllers(&self) -> &RunningControllers {
        &self.controllers
    }

    /// Adds a handler that is called for every change of the stores.
    pub fn add_handler(&self, handler: Arc<dyn Handler>) {
        self.cluster.add_handler(handler);
    }

    /// Runs the controllers until `shutdown` completes. Then it takes no more work, syncs the keys that are queued, sends
    /// the queued events and returns. Work that takes longer than ten seconds is abandoned with a warning.
    ///
    /// # Errors
    ///
    /// When a task panics or ends before the shutdown. The manager then returns immediately, because it must not run
    /// without one of its parts.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ManagerError> {
        let Self { client, cluster, kinds, reflectors, seeds, controllers, mut tasks } = self;
        let (stop, stopped) = watch::channel(());
        let mut reflect = Reflect { client, cluster: cluster.clone(), options: reflectors, seeds, stopped };
        let mut reflectors = JoinSet::new();
        if kinds.contains(Kind::Pods) {
            reflect.start::<Pod>(&mut reflectors);
        }
        if kinds.contains(Kind::Services) {
            reflect.start::<Service>(&mut reflectors);
        }
        if kinds.contains(Kind::Nodes) {
            reflect.start::<Node>(&mut reflectors);
        }
        if kinds.contains(Kind::EndpointSlices) {
            reflect.start::<EndpointSlice>(&mut reflectors);
        }
        if kinds.contains(Kind::Endpoints) {
            reflect.start::<Endpoints>(&mut reflectors);
        }
        drop(reflect);
        controllers.start(&mut tasks);
        let mut shutdown = pin!(shutdown);
        let mut announced = false;
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(ended) = tasks.join_next() => return Err(ended_early(ended)),
                Some(ended) = reflectors.join_next() => return Err(ended_early(ended)),
                () = cluster.synced(), if !announced => {
                    tracing::info!("all caches are synced, controllers are running");
                    announced = true;
                }
            }
        }
        tracing::info!("shutting down");
        controllers.shut_down();
        drop(stop);
        while let Some(ended) = reflectors.join_next().await {
            ended?;
        }
        // The cluster holds the controllers as handlers, and those hold the event recorders whose tasks end with them.
        cluster.remove_handlers();
        drop((controllers, cluster));
        finish(tasks).await
    }
}

fn ended_early(ended: Result<(), tokio::task::JoinError>) -> ManagerError {
    ended.map_or_else(ManagerError::from, |()| ManagerError::TaskEnded)
}

/// Waits for the remaining tasks, with a timeout: an unreachable API server accepts no last events.
async fn finish(mut tasks: JoinSet<()>) -> Result<(), ManagerError> {
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            ended?;
        }
        Ok(())
    };
    match tokio::time::timeout(SHUTDOWN_TIMEOUT, all).await {
        Ok(ended) => ended,
        Err(_) => {
            tracing::warn!("shutdown timed out after {SHUTDOWN_TIMEOUT:?}; outstanding work was abandoned");
            Ok(())
        }
    }
}

struct Reflect {
    client: ApiClient,
    cluster: Cluster,
    options: ReflectorOptions,
    seeds: Seeds,
    stopped: watch::Receiver<()>,
}

impl Reflect {
    fn start<T: kube_endpoint_informer::Object>(&mut self, tasks: &mut JoinSet<()>) {
        let options = self.options.seed(self.seeds.next());
        let (client, cluster, mut stopped) =
            (self.client.clone(), self.cluster.clone(), self.stopped.clone());
        tasks.spawn(async move {
            // Shutting down drops the sender.
            let shutdown = async move { while stopped.changed().await.is_ok() {} };
            kube_endpoint_informer::run::<T>(client, cluster, options, shutdown).await;
        });
    }
}

impl RunningControllers {
    fn start(&self, tasks: &mut JoinSet<()>) {
        #[cfg(feature = "endpointslice")]
        if let Some(controller) = self.endpoint_slice.clone() {
            tasks.spawn(controller.run());
        }
        #[cfg(feature = "endpoints")]
        if let Some(controller) = self.endpoints.clone() {
            tasks.spawn(controller.run());
        }
        #[cfg(feature = "mirroring")]
        if let Some(controller) = self.mirroring.clone() {
            tasks.spawn(controller.run());
        }
        let _ = tasks;
    }

    fn shut_down(&self) {
        #[cfg(feature = "endpointslice")]
        if let Some(controller) = &self.endpoint_slice {
            controller.shut_down();
        }
        #[cfg(feature = "endpoints")]
        if let Some(controller) = &self.endpoints {
            controller.shut_down();
        }
        #[cfg(feature = "mirroring")]
        if let Some(controller) = &self.mirroring {
            controller.shut_down();
        }
    }
}

/// The parts that controllers are built from.
struct Build<'a> {
    client: ApiClient,
    cluster: Cluster,
    clock: Clock,
    seeds: Seeds,
    tasks: JoinSet<()>,
    settings: &'a Settings,
}

#[cfg_attr(
    not(any(feature = "endpoints", feature = "endpointslice", feature = "mirroring")),
    expect(dead_code, reason = "unused in a build without controllers")
)]
impl Build<'_> {
    /// A writer with its own rate limit, as in upstream's controllers, and an event recorder that shares it.
    fn writer(
        &mut self,
        name: ControllerName,
        component: &str,
    ) -> Result<(ApiWriter, EventRecorder), ManagerError> {
        let limiter = RequestLimiter::new(self.settings.qps, self.settings.burst)?;
        let agent = format!("kube-endpoint-manager/{} {name}", env!("CARGO_PKG_VERSION"));
        let writer = ApiWriter::new(self.client.clone(), limiter, agent);
        let (events, sending) = EventRecorder::new(component, writer.clone(), self.clock, self.seeds.next());
        self.tasks.spawn(sending);
        Ok((writer, events))
    }

    #[cfg(any(feature = "endpoints", feature = "endpointslice", feature = "mirroring"))]
    fn runtime_options(&self) -> kube_endpoint_controller_runtime::RuntimeOptions {
        use crate::gates::Gate;

        kube_endpoint_controller_runtime::RuntimeOptions {
            slow_retries: self.settings.gates.is_on(Gate::SlowRetries),
            foreign_write_backoff: self.settings.gates.is_on(Gate::ForeignWriteBackoff),
            min_resync_period: self.settings.min_resync_period,
        }
    }

    #[cfg(feature = "endpointslice")]
    fn endpoint_slice_controller(
        &mut self,
    ) -> Result<kube_endpoint_endpointslice_controller::EndpointSliceController, ManagerError> {
        use crate::gates::Gate;
        use kube_endpoint_endpointslice_controller::{
            ControllerOptions, EndpointSliceController, PlanOptions,
        };

        let component = kube_endpoint_endpointslice_controller::controller::EVENT_COMPONENT;
        let (writer, events) = self.writer(ControllerName::EndpointSlice, component)?;
        let settings = self.settings;
        let tolerates_nodes = settings.gates.is_on(Gate::TopologyNodeTolerance);
        let topology_node_tolerance = if tolerates_nodes { settings.topology_node_tolerance } else { 0.0 };
        let mut options = ControllerOptions::default();
        options.plan = PlanOptions::default()
            .with_max_endpoints_per_slice(settings.max_endpoints_per_slice)
            .with_tolerate_unready_annotation(settings.gates.is_on(Gate::TolerateUnreadyAnnotation))
            .with_safe_write_order(settings.gates.is_on(Gate::SafeWriteOrder))
            .with_slice_compaction(settings.gates.is_on(Gate::SliceCompaction))
            .with_topology_node_tolerance(topology_node_tolerance);
        options.workers = settings.endpoint_slice_workers;
        options.batch_period = settings.endpoint_slice_batch_period;
        options.node_zone_resync = settings.gates.is_on(Gate::NodeZoneResync);
        options.missing_node_resync = settings.gates.is_on(Gate::MissingNodeResync);
        options.writes_after_failed_create = settings.gates.is_on(Gate::WritesAfterFailedCreate);
        options.runtime = self.runtime_options();
        let seed = self.seeds.next();
        Ok(EndpointSliceController::new(self.cluster.clone(), writer, events, self.clock, options, seed))
    }

    #[cfg(feature = "endpoints")]
    fn endpoints_controller(
        &mut self,
    ) -> Result<kube_endpoint_endpoints_controller::EndpointsController, ManagerError> {
        use crate::gates::Gate;
        use kube_endpoint_endpoints_controller::{ControllerOptions, EndpointsController, PlanOptions};

        let component = kube_endpoint_endpoints_controller::controller::EVENT_COMPONENT;
        let (writer, events) = self.writer(ControllerName::Endpoints, component)?;
        let gates = &self.settings.gates;
        let mut options = ControllerOptions::default();
        options.plan = PlanOptions::default()
            .with_keep_equal_truncated(gates.is_on(Gate::EndpointsKeepTruncated))
            .with_ignore_reserved_labels(gates.is_on(Gate::EndpointsIgnoreReservedLabels))
            .with_tolerate_unready_annotation(gates.is_on(Gate::TolerateUnreadyAnnotation));
        options.workers = self.settings.endpoints_workers;
        options.batch_period = self.settings.endpoints_batch_period;
        options.repair = gates.is_on(Gate::EndpointsRepair);
        options.runtime = self.runtime_options();
        let seed = self.seeds.next();
        Ok(EndpointsController::new(self.cluster.clone(), writer, events, self.clock, options, seed))
    }

    #[cfg(feature = "mirroring")]
    fn mirroring_controller(&mut self) -> Result<kube_endpoint_mirroring::MirroringController, ManagerError> {
        use crate::gates::Gate;
        use kube_endpoint_mirroring::{ControllerOptions, MirroringController, PlanOptions};

        let component = kube_endpoint_mirroring::controller::EVENT_COMPONENT;
        let (writer, events) = self.writer(ControllerName::EndpointSliceMirroring, component)?;
        let mut options = ControllerOptions::default();
        options.plan = PlanOptions::default()
            .with_max_endpoints_per_subset(self.settings.mirroring_max_endpoints_per_subset);
        options.workers = self.settings.mirroring_workers;
        options.batch_period = self.settings.mirroring_batch_period;
        options.orphaned_slice_cleanup = self.settings.gates.is_on(Gate::OrphanedSliceCleanup);
        options.writes_after_failed_create = self.settings.gates.is_on(Gate::WritesAfterFailedCreate);
        options.runtime = self.runtime_options();
        let seed = self.seeds.next();
        Ok(MirroringController::new(self.cluster.clone(), writer, events, self.clock, options, seed))
    }
}
