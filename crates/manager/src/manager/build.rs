//! Builds the controllers from the settings.

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{ApiWriter, Clock, DryRun, EventRecorder, RequestLimiter, WriteFence};
use kube_endpoint_informer::Cluster;

use super::ManagerError;
use super::tasks::NamedTasks;
use crate::audit::AuditLog;
use crate::controller_name::ControllerName;
#[cfg(any(feature = "endpoints", feature = "endpointslice", feature = "mirroring"))]
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

/// The parts that controllers are built from.
pub(super) struct Build<'a> {
    pub(super) client: ApiClient,
    pub(super) cluster: Cluster,
    pub(super) clock: Clock,
    pub(super) seeds: Seeds,
    pub(super) fence: WriteFence,
    #[cfg(any(feature = "endpoints", feature = "endpointslice", feature = "mirroring"))]
    pub(super) outages: kube_endpoint_controller_runtime::Outages,
    /// The tasks that send events.
    pub(super) event_tasks: NamedTasks,
    pub(super) recorders: Vec<EventRecorder>,
    pub(super) audit: Option<AuditLog>,
    pub(super) settings: &'a Settings,
}

#[cfg_attr(
    not(any(feature = "endpoints", feature = "endpointslice", feature = "mirroring")),
    expect(dead_code, reason = "unused in a build without controllers")
)]
impl Build<'_> {
    /// A writer with its own rate limit, as in upstream's controllers, and an event recorder that
    /// shares it.
    fn writer(
        &mut self,
        name: ControllerName,
        component: &str,
    ) -> Result<(ApiWriter, EventRecorder), ManagerError> {
        let limiter = RequestLimiter::new(self.settings.qps, self.settings.burst)?;
        let agent = format!("kube-endpoint-manager/{} {name}", env!("CARGO_PKG_VERSION"));
        let observer = self.audit.as_ref().map(|audit| audit.observer(name.as_str()));
        let mut writer = ApiWriter::new(self.client.clone(), limiter, agent)
            .with_fence(self.fence.clone())
            .with_observer(observer);
        if self.settings.dry_run {
            writer = writer.with_dry_run(DryRun::new(name.as_str(), name.output_kind()));
        }
        let (events, sending) = EventRecorder::new(component, writer.clone(), self.clock, self.seeds.next());
        self.event_tasks.spawn(format!("event recorder of the {name} controller"), sending);
        self.recorders.push(events.clone());
        Ok((writer, events))
    }

    #[cfg(any(feature = "endpoints", feature = "endpointslice", feature = "mirroring"))]
    fn context(
        &mut self,
        writer: ApiWriter,
        events: EventRecorder,
    ) -> kube_endpoint_controller_runtime::ControllerContext {
        let (cluster, clock, seed) = (self.cluster.clone(), self.clock, self.seeds.next());
        kube_endpoint_controller_runtime::ControllerContext { cluster, writer, events, clock, seed }
    }

    #[cfg(any(feature = "endpoints", feature = "endpointslice", feature = "mirroring"))]
    fn runtime_options(&self) -> kube_endpoint_controller_runtime::RuntimeOptions {
        use crate::gates::Gate;

        kube_endpoint_controller_runtime::RuntimeOptions {
            slow_retries: self.settings.gates.is_on(Gate::SlowRetries),
            // In a dry run, all writes are those of another client, and none is answered.
            foreign_write_backoff: self.settings.gates.is_on(Gate::ForeignWriteBackoff)
                && !self.settings.dry_run,
            write_spacing: self.settings.gates.is_on(Gate::WriteSpacing),
            min_resync_period: self.settings.min_resync_period,
            service_selector: self.settings.service_selector.clone(),
            outages: self.outages.clone(),
        }
    }

    #[cfg(feature = "endpointslice")]
    pub(super) fn endpoint_slice_controller(
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
    pub(super) fn endpoints_controller(
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
        options.runtime = self.runtime_options();
        Ok(EndpointsController::new(self.context(writer, events), options))
    }

    #[cfg(feature = "mirroring")]
    pub(super) fn mirroring_controller(
        &mut self,
    ) -> Result<kube_endpoint_mirroring::MirroringController, ManagerError> {
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
}
