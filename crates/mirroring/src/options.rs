//! Options of the controller.

use std::time::Duration;

use kube_endpoint_controller_runtime::RuntimeOptions;

use crate::PlanOptions;

/// Options of the controller, including those of its plan.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ControllerOptions {
    pub plan: PlanOptions,
    /// How many Endpoints objects the controller syncs at once
    /// (`--mirroring-concurrent-service-endpoint-syncs`).
    pub workers: usize,
    /// How long syncs that slices cause wait for more of the kind
    /// (`--mirroring-endpointslice-updates-batch-period`).
    pub batch_period: Duration,
    /// Gate `OrphanedSliceCleanup`: if a Service has no selector any more, the controller deletes
    /// the slices that were made from its pods once mirrored slices replace them; see
    /// [`judge_orphans`](crate::judge_orphans). Upstream leaves both in place, and clients use
    /// endpoints that no controller maintains.
    pub orphaned_slice_cleanup: bool,
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
            orphaned_slice_cleanup: true,
            writes_after_failed_create: true,
            runtime: RuntimeOptions::default(),
        }
    }
}
