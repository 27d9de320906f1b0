//! Options of the controller.

use std::time::Duration;

use kube_endpoint_controller_runtime::RuntimeOptions;
use kube_endpoint_core_model::retirement::RetiredNamespaces;

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
    /// The Services without Endpoints.
    pub retirement: RetirementOptions,
    /// Options that all controllers share.
    pub runtime: RuntimeOptions,
}

/// See [`ControllerOptions::retirement`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetirementOptions {
    /// The namespaces whose Services have none (`--endpoints-retired-namespaces`). The annotation
    /// `kube-endpoint-manager.github.io/endpoints` of a Service comes before this.
    pub namespaces: RetiredNamespaces,
    /// True if somebody has decided that it does not matter if the API server reads Endpoints
    /// itself (`--endpoints-retired-accept`). Otherwise the controller retires nothing on a server
    /// that [`needs_endpoints`].
    ///
    /// [`needs_endpoints`]: kube_endpoint_core_model::retirement::ServerVersion::needs_endpoints
    pub is_accepted: bool,
}

impl Default for ControllerOptions {
    /// Upstream's defaults, and the gates as they are by default.
    fn default() -> Self {
        Self {
            plan: PlanOptions::default(),
            workers: 5,
            batch_period: Duration::ZERO,
            repair: true,
            retirement: RetirementOptions::default(),
            runtime: RuntimeOptions::default(),
        }
    }
}
