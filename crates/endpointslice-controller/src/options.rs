//! Options of the controller.

use std::time::Duration;

use kube_endpoint_controller_runtime::RuntimeOptions;

use kube_endpoint_slice_plan::PlanOptions;

/// Options of the controller, including those of its plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerOptions {
    pub plan: PlanOptions,
    /// How many Services the controller syncs at once (`--concurrent-service-endpoint-syncs`).
    pub workers: usize,
    /// Delay of syncs that pods cause, to batch changes (`--endpointslice-updates-batch-period`).
    pub batch_period: Duration,
    /// Gate `NodeZoneResync`: the controller syncs Services with endpoints on a node when its zone
    /// appears or changes, and Services that lost their topology hints when the zones allow hints
    /// again.
    pub node_zone_resync: bool,
    /// Gate `MissingNodeResync`: the controller syncs Services with pods on a node when the node
    /// appears, and a minute after its deletion.
    pub missing_node_resync: bool,
    /// Gate `WritesAfterFailedCreate`: after a failed create or a refused update, a sync still
    /// carries out updates and deletes that only remove endpoints or make them unready. Upstream
    /// ends the sync there.
    pub writes_after_failed_create: bool,
    /// Options that all controllers share.
    pub runtime: RuntimeOptions,
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
            writes_after_failed_create: true,
            runtime: RuntimeOptions::default(),
        }
    }
}
