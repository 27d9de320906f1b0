//! Options of the controller.

use std::time::Duration;

use kube_endpoint_controller_runtime::RuntimeOptions;

use crate::PlanOptions;

/// Options of the controller, including those of its plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerOptions {
    pub plan: PlanOptions,
    /// How many Services are synced at once (`--concurrent-service-endpoint-syncs`).
    pub workers: usize,
    /// Delay of syncs that pods cause, to batch changes (`--endpointslice-updates-batch-period`).
    pub batch_period: Duration,
    /// Gate `NodeZoneResync`: Services with endpoints on a node are synced when its zone appears or
    /// changes, and Services whose topology hints were withdrawn when the zones allow hints again.
    pub node_zone_resync: bool,
    /// Gate `MissingNodeResync`: Services with pods on a node are synced when the node appears, and
    /// a minute after it is deleted.
    pub missing_node_resync: bool,
    /// Gate `WritesAfterFailedCreate`: when a slice cannot be created, updates and deletes that
    /// only remove endpoints or make them unready are still carried out. Upstream ends the sync
    /// there.
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
