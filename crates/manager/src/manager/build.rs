//! Builds the controllers from the settings: when a process starts, and when it starts again from
//! nothing because the server's storage went back.

use std::sync::Arc;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{ApiWriter, Clock, DryRun, EventRecorder, RequestLimiter, WriteFence};
use kube_endpoint_informer::{Cluster, Kind, Kinds, ReflectorOptions};

use super::tasks::NamedTasks;
use super::{ManagerError, RunningControllers};
use crate::controller_name::ControllerName;
use crate::discovery;
#[cfg(feature = "_controllers")]
use crate::plan_options;
use crate::settings::Settings;

/// Derives one seed for each user of randomness from the manager's seed, so that no two draw the
/// same numbers.
pub(super) struct Seeds(pub(super) u64);

impl Seeds {
    pub(super) fn next(&mut self) -> u64 {
        // SplitMix64's increment. It is odd, so that the sequence visits every number.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0
    }
}

/// The parts that stay the same each time the manager builds its controllers.
pub(super) struct Blueprint {
    pub(super) client: ApiClient,
    pub(super) settings: Settings,
    pub(super) clock: Clock,
    pub(super) seeds: Seeds,
    /// The kinds that the controllers read or write.
    pub(super) kinds: Kinds,
}

/// Controllers, the stores that they share, and the tasks that send their events.
pub(super) struct Parts {
    pub(super) cluster: Cluster,
    pub(super) fence: WriteFence,
    pub(super) controllers: RunningControllers,
    pub(super) event_tasks: NamedTasks,
    pub(super) recorders: Vec<EventRecorder>,
}

impl Blueprint {
    pub(super) fn new(client: ApiClient, settings: Settings, clock: Clock, seed: u64) -> Self {
        let mut blueprint = Self { client, settings, clock, seeds: Seeds(seed), kinds: Kinds::default() };
        let names = blueprint.names();
        blueprint.kinds = names.iter().flat_map(|name| discovery::kinds_of(*name).iter()).collect();
        blueprint
    }

    /// Returns the client of the controllers.
    #[cfg(all(feature = "ui", feature = "embedded"))]
    pub(super) fn client(&self) -> &ApiClient {
        &self.client
    }

    /// Returns the controllers that run.
    pub(super) fn names(&self) -> Vec<ControllerName> {
        self.settings.controllers.iter().copied().filter(|name| self.settings.runs(*name)).collect()
    }

    /// Returns the kinds that the controllers publish.
    pub(super) fn outputs(&self) -> Vec<Kind> {
        let endpoints = self.settings.runs(ControllerName::Endpoints);
        let outputs =
            [(Kind::EndpointSlices, self.kinds.contains(Kind::EndpointSlices)), (Kind::Endpoints, endpoints)];
        outputs.into_iter().filter_map(|(kind, written)| written.then_some(kind)).collect()
    }

    /// Returns the kinds that the controllers only read.
    pub(super) fn inputs(&self) -> Vec<Kind> {
        let outputs = self.outputs();
        self.kinds.iter().filter(|kind| !outputs.contains(kind)).collect()
    }

    pub(super) fn reflectors(&self) -> ReflectorOptions {
        self.settings.reflectors.streaming_list(self.settings.watch_list_client)
    }

    /// Builds new controllers with stores of their own. With leader election, their fence is
    /// closed.
    pub(super) fn build(&mut self) -> Result<Parts, ManagerError> {
        let elects = self.settings.leader_election.is_some();
        let fence = if elects { WriteFence::closed() } else { WriteFence::default() };
        let cluster = Cluster::with_options(self.kinds, self.settings.cluster());
        let [endpoints, slices, mirroring, selectors] =
            ControllerName::ALL.map(|name| self.settings.runs(name));
        let retires_all = self.settings.retires_all();
        #[cfg_attr(
            not(feature = "_controllers"),
            expect(unused_mut, reason = "unchanged in a build without controllers")
        )]
        let mut build = Build {
            client: self.client.clone(),
            cluster,
            clock: self.clock,
            seeds: &mut self.seeds,
            fence,
            #[cfg(feature = "_controllers")]
            outages: kube_endpoint_controller_runtime::Outages::default(),
            event_tasks: NamedTasks::default(),
            recorders: Vec::new(),
            settings: &self.settings,
        };
        let controllers = RunningControllers {
            #[cfg(feature = "endpointslice")]
            endpoint_slice: slices.then(|| build.endpoint_slice_controller()).transpose()?,
            #[cfg(feature = "endpoints")]
            endpoints: endpoints.then(|| build.endpoints_controller()).transpose()?,
            #[cfg(feature = "endpoints")]
            retire_all: retires_all.then(|| build.retire_all()).transpose()?,
            #[cfg(feature = "mirroring")]
            mirroring: mirroring.then(|| build.mirroring_controller()).transpose()?,
            #[cfg(feature = "selectors")]
            endpoint_selector: selectors.then(|| build.endpoint_selector_controller()).transpose()?,
        };
        let _ = (endpoints, slices, mirroring, selectors, retires_all);
        let Build { cluster, fence, event_tasks, recorders, .. } = build;
        Ok(Parts { cluster, fence, controllers, event_tasks, recorders })
    }
}

/// The parts from which one start builds its controllers.
struct Build<'a> {
    client: ApiClient,
    cluster: Cluster,
    clock: Clock,
    seeds: &'a mut Seeds,
    fence: WriteFence,
    #[cfg(feature = "_controllers")]
    outages: kube_endpoint_controller_runtime::Outages,
    /// The tasks that send events.
    event_tasks: NamedTasks,
    recorders: Vec<EventRecorder>,
    settings: &'a Settings,
}

#[cfg_attr(
    not(feature = "_controllers"),
    expect(dead_code, reason = "unused in a build without controllers")
)]
impl Build<'_> {
    /// Returns a writer with a rate limit of its own, as upstream's controllers have, and an event
    /// recorder that shares it.
    fn writer(
        &mut self,
        name: ControllerName,
        component: &str,
    ) -> Result<(ApiWriter, EventRecorder), ManagerError> {
        let limiter = RequestLimiter::new(self.settings.qps, self.settings.burst)?;
        let agent = format!("kube-endpoint-manager/{} {name}", env!("CARGO_PKG_VERSION"));
        let mut writer = ApiWriter::new(self.client.clone(), limiter, agent)
            .with_fence(self.fence.clone())
            .with_controllers(Arc::clone(&self.settings.controller_field_managers));
        if self.settings.dry_run {
            writer = writer.with_dry_run(DryRun::new(name.as_str(), name.output_kind()));
        }
        let (events, sending) = EventRecorder::new(component, writer.clone(), self.clock, self.seeds.next());
        self.event_tasks.spawn(format!("event recorder of the {name} controller"), sending);
        self.recorders.push(events.clone());
        Ok((writer, events))
    }

    #[cfg(feature = "_controllers")]
    fn context(
        &mut self,
        writer: ApiWriter,
        events: EventRecorder,
    ) -> kube_endpoint_controller_runtime::ControllerContext {
        let (cluster, clock, seed) = (self.cluster.clone(), self.clock, self.seeds.next());
        kube_endpoint_controller_runtime::ControllerContext { cluster, writer, events, clock, seed }
    }

    #[cfg(feature = "_controllers")]
    fn runtime_options(&self) -> kube_endpoint_controller_runtime::RuntimeOptions {
        use crate::gates::Gate;

        kube_endpoint_controller_runtime::RuntimeOptions {
            slow_retries: self.settings.gates.is_on(Gate::SlowRetries),
            // In a dry run, other clients make all writes, and this process corrects none of them.
            foreign_write_backoff: self.settings.gates.is_on(Gate::ForeignWriteBackoff)
                && !self.settings.dry_run,
            write_spacing: self.settings.gates.is_on(Gate::WriteSpacing),
            min_resync_period: self.settings.min_resync_period,
            service_selector: self.settings.service_selector.clone(),
            outages: self.outages.clone(),
        }
    }

    #[cfg(feature = "endpointslice")]
    fn endpoint_slice_controller(
        &mut self,
    ) -> Result<kube_endpoint_endpointslice_controller::EndpointSliceController, ManagerError> {
        use crate::gates::Gate;
        use kube_endpoint_endpointslice_controller::{ControllerOptions, EndpointSliceController};

        let component = kube_endpoint_endpointslice_controller::controller::EVENT_COMPONENT;
        let (writer, events) = self.writer(ControllerName::EndpointSlice, component)?;
        let settings = self.settings;
        let mut options = ControllerOptions::default();
        options.plan = plan_options::slices(settings);
        options.workers = settings.endpoint_slice_workers;
        options.batch_period = settings.endpoint_slice_batch_period;
        options.node_zone_resync = settings.gates.is_on(Gate::NodeZoneResync);
        options.missing_node_resync = settings.gates.is_on(Gate::MissingNodeResync);
        options.writes_after_failed_create = settings.gates.is_on(Gate::WritesAfterFailedCreate);
        options.runtime = self.runtime_options();
        Ok(EndpointSliceController::new(self.context(writer, events), options))
    }

    #[cfg(feature = "endpoints")]
    fn endpoints_controller(
        &mut self,
    ) -> Result<kube_endpoint_endpoints_controller::EndpointsController, ManagerError> {
        use crate::gates::Gate;
        use kube_endpoint_endpoints_controller::{ControllerOptions, EndpointsController};

        let component = kube_endpoint_endpoints_controller::controller::EVENT_COMPONENT;
        let (writer, events) = self.writer(ControllerName::Endpoints, component)?;
        let gates = &self.settings.gates;
        let mut options = ControllerOptions::default();
        options.plan = plan_options::endpoints(self.settings);
        options.workers = self.settings.endpoints_workers;
        options.batch_period = self.settings.endpoints_batch_period;
        options.repair = gates.is_on(Gate::EndpointsRepair);
        options.retirement.namespaces =
            self.settings.retirement.namespaces.iter().map(String::as_str).collect();
        options.retirement.is_accepted = self.settings.retirement.accepted.is_some();
        options.runtime = self.runtime_options();
        Ok(EndpointsController::new(self.context(writer, events), options))
    }

    #[cfg(feature = "endpoints")]
    fn retire_all(&mut self) -> Result<kube_endpoint_endpoints_controller::RetireAll, ManagerError> {
        let component = kube_endpoint_endpoints_controller::controller::EVENT_COMPONENT;
        let (writer, events) = self.writer(ControllerName::Endpoints, component)?;
        let settings = self.settings;
        Ok(kube_endpoint_endpoints_controller::RetireAll::new(
            self.context(writer, events),
            settings.retirement.accepted.is_some(),
            settings.service_selector.clone(),
        ))
    }

    #[cfg(feature = "mirroring")]
    fn mirroring_controller(&mut self) -> Result<kube_endpoint_mirroring::MirroringController, ManagerError> {
        use crate::gates::Gate;
        use kube_endpoint_mirroring::{ControllerOptions, MirroringController};

        let component = kube_endpoint_mirroring::controller::EVENT_COMPONENT;
        let (writer, events) = self.writer(ControllerName::EndpointSliceMirroring, component)?;
        let mut options = ControllerOptions::default();
        options.plan = plan_options::mirroring(self.settings);
        options.workers = self.settings.mirroring_workers;
        options.batch_period = self.settings.mirroring_batch_period;
        options.orphaned_slice_cleanup = self.settings.gates.is_on(Gate::OrphanedSliceCleanup);
        options.writes_after_failed_create = self.settings.gates.is_on(Gate::WritesAfterFailedCreate);
        options.runtime = self.runtime_options();
        Ok(MirroringController::new(self.context(writer, events), options))
    }

    #[cfg(feature = "selectors")]
    fn endpoint_selector_controller(
        &mut self,
    ) -> Result<kube_endpoint_selector::SelectorController, ManagerError> {
        use kube_endpoint_selector::{ControllerOptions, SelectorController};

        let component = kube_endpoint_selector::controller::EVENT_COMPONENT;
        let (writer, events) = self.writer(ControllerName::EndpointSelector, component)?;
        let mut options = ControllerOptions::default();
        options.plan = plan_options::selectors(self.settings);
        options.workers = self.settings.endpoint_selector_workers;
        options.batch_period = self.settings.endpoint_slice_batch_period;
        options.runtime = self.runtime_options();
        Ok(SelectorController::new(self.context(writer, events), options))
    }
}
