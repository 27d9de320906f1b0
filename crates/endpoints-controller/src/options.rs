//! Options of the controller.

use std::time::Duration;

use kube_endpoint_controller_runtime::RuntimeOptions;

use crate::PlanOptions;

/// Options of the controller, including those of its plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerOptions {
    pub plan: PlanOptions,
    /// How many Services the controller syncs at once (`--concurrent-endpoint-syncs`).
    pub workers: usize,
    /// Delay of syncs that pods cause, to batch changes (`--endpoint-updates-batch-period`).
    pub batch_period: Duration,
    /// Gate `EndpointsRepair`: the controller at once syncs Endpoints that another client changed.
    /// Upstream keeps the change until a pod or the Service changes.
    pub repair: bool,
    /// When the controller starts, it deletes Endpoints that the controller made and whose Service
    /// is gone, as upstream's `checkLeftoverEndpoints`.
    pub leftovers_at_start: bool,
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
            repair: true,
            leftovers_at_start: true,
            runtime: RuntimeOptions::default(),
        }
    }
}
