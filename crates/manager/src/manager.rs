//! Wiring: one set of stores, one list and watch for each kind that some controller needs, the chosen controllers over
//! them, and an orderly end.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter};
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Node, Pod, Service, Timestamp};
use kube_endpoint_informer::{ApiClient, Cluster, Handler, Kind, Kinds, ReflectorOptions};
use kube_endpoint_workqueue::InvalidRate;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::controller_name::ControllerName;
use crate::settings::Settings;

/// How long the end may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why a manager could not be built, or ended by itself.
#[derive(Debug, thiserror::Error)]
pub enum ManagerError {
    /// The rate limit makes no sense.
    #[error("the client-side rate limit makes no sense: {0}")]
    Rate(#[from] InvalidRate),
    /// A task panicked; the process should end and be started again.
    #[error("a background task failed: {0}")]
    TaskFailed(#[from] tokio::task::JoinError),
    /// A controller, a watch or the sending of events ended although nobody asked it to; the process should end and be
    /// started again.
    #[error("a background task ended by itself")]
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
    seed: u64,
    controllers: RunningControllers,
    tasks: JoinSet<()>,
}

/// Different uses of the one seed must not see the same numbers.
struct Seeds(u64);

impl Seeds {
    fn next(&mut self) -> u64 {
        // The increment of SplitMix64: odd, so that it goes through all numbers.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0
    }
}

impl Manager {
    /// Builds the chosen controllers around a client. `now` is the wall-clock time; it moves on with tokio's clock. Metrics
    /// go to the recorder that is current. Must be called within a tokio runtime.
    ///
    /// # Errors
    ///
    /// When the rate limit makes no sense.
    pub fn new(client: ApiClient, settings: &Settings, now: Timestamp) -> Result<Self, ManagerError> {
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
        let mut build = Build {
            client: client.clone(),
            cluster: Cluster::new(kinds),
            clock: Clock::starting_at(now),
            seeds: Seeds(settings.seed),
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
        let seed = build.seeds.next();
        let Build { cluster, tasks, .. } = build;
        Ok(Self { client, cluster, kinds, seed, controllers, tasks })
    }

    /// The stores that the controllers share.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The controllers.
    pub fn controllers(&self) -> &RunningControllers {
        &self.controllers
    }

    /// Lets somebody else listen to what the stores hear.
    pub fn add_handler(&self, handler: Arc<dyn Handler>) {
        self.cluster.add_handler(handler);
    }

    /// Runs until `shutdown` is ready: then takes no more work, finishes the syncs that are under way, sends the events
    /// that wait, and returns.
    ///
    /// # Errors
    ///
    /// When a task panics, or ends before it is told to, at once: a manager that lost a part of itself must not go on as
    /// if it had not.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), ManagerError> {
        let Self { client, cluster, kinds, seed, controllers, mut tasks } = self;
        let (stop, stopped) = watch::channel(());
        let reflect = Reflect { client, cluster: cluster.clone(), seed, stopped };
        let mut reflectors = JoinSet::new();
        if kinds.contains(Kind::Pods) {
            reflect.start::<Pod>(&mut reflectors, 1);
        }
        if kinds.contains(Kind::Services) {
            reflect.start::<Service>(&mut reflectors, 2);
        }
        if kinds.contains(Kind::Nodes) {
            reflect.start::<Node>(&mut reflectors, 3);
        }
        if kinds.contains(Kind::EndpointSlices) {
            reflect.start::<EndpointSlice>(&mut reflectors, 4);
        }
        if kinds.contains(Kind::Endpoints) {
            reflect.start::<Endpoints>(&mut reflectors, 5);
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
                    tracing::info!("all stores are filled, the controllers work");
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

/// Waits for the last tasks to end, but not for ever: an API server that is gone takes no last events.
async fn finish(mut tasks: JoinSet<()>) -> Result<(), ManagerError> {
    let all = async {
        while let Some(ended) = tasks.join_next().await {
            ended?;
        }
        Ok(())
    };
    match tokio::time::timeout(PATIENCE, all).await {
        Ok(ended) => ended,
        Err(_) => {
            tracing::warn!("some work could not be finished in {PATIENCE:?} and is left");
            Ok(())
        }
    }
}

struct Reflect {
    client: ApiClient,
    cluster: Cluster,
    seed: u64,
    stopped: watch::Receiver<()>,
}

impl Reflect {
    fn start<T: kube_endpoint_informer::Object>(&self, tasks: &mut JoinSet<()>, number: u64) {
        let options = ReflectorOptions::new(self.seed.wrapping_add(number));
        let (client, cluster, mut stopped) =
            (self.client.clone(), self.cluster.clone(), self.stopped.clone());
        tasks.spawn(async move {
            // The sender is dropped when it is time to stop.
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

/// What the controllers are built from.
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
    expect(dead_code, reason = "a build without controllers builds none")
)]
impl Build<'_> {
    /// A writer at a pace of its own, as each of upstream's controllers has one, and a recorder of events that shares it.
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
        let options = ControllerOptions {
            plan: PlanOptions::default()
                .with_max_endpoints_per_slice(settings.max_endpoints_per_slice)
                .with_tolerate_unready_annotation(settings.gates.is_on(Gate::TolerateUnreadyAnnotation))
                .with_safe_write_order(settings.gates.is_on(Gate::SafeWriteOrder))
                .with_slice_compaction(settings.gates.is_on(Gate::SliceCompaction))
                .with_topology_node_tolerance(topology_node_tolerance),
            workers: settings.endpoint_slice_workers,
            batch_period: settings.endpoint_slice_batch_period,
            node_zone_resync: settings.gates.is_on(Gate::NodeZoneResync),
            missing_node_resync: settings.gates.is_on(Gate::MissingNodeResync),
            seed: self.seeds.next(),
        };
        Ok(EndpointSliceController::new(self.cluster.clone(), writer, events, self.clock, options))
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
        let options = ControllerOptions {
            plan: PlanOptions::default()
                .with_keep_equal_truncated(gates.is_on(Gate::EndpointsKeepTruncated))
                .with_ignore_reserved_labels(gates.is_on(Gate::EndpointsIgnoreReservedLabels))
                .with_tolerate_unready_annotation(gates.is_on(Gate::TolerateUnreadyAnnotation)),
            workers: self.settings.endpoints_workers,
            batch_period: self.settings.endpoints_batch_period,
            repair: gates.is_on(Gate::EndpointsRepair),
            seed: self.seeds.next(),
        };
        Ok(EndpointsController::new(self.cluster.clone(), writer, events, options))
    }

    #[cfg(feature = "mirroring")]
    fn mirroring_controller(&mut self) -> Result<kube_endpoint_mirroring::MirroringController, ManagerError> {
        use crate::gates::Gate;
        use kube_endpoint_mirroring::{ControllerOptions, MirroringController, PlanOptions};

        let component = kube_endpoint_mirroring::controller::EVENT_COMPONENT;
        let (writer, events) = self.writer(ControllerName::EndpointSliceMirroring, component)?;
        let options = ControllerOptions {
            plan: PlanOptions::default()
                .with_max_endpoints_per_subset(self.settings.mirroring_max_endpoints_per_subset),
            workers: self.settings.mirroring_workers,
            batch_period: self.settings.mirroring_batch_period,
            orphaned_slice_cleanup: self.settings.gates.is_on(Gate::OrphanedSliceCleanup),
            seed: self.seeds.next(),
        };
        Ok(MirroringController::new(self.cluster.clone(), writer, events, options))
    }
}
