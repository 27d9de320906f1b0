//! The inputs of a plan.

use std::sync::Arc;

use kube_endpoint_core_model::{EndpointSlice, Endpoints, Service};

/// The default of [`PlanOptions::max_endpoints_per_subset`]
/// (`--mirroring-max-endpoints-per-subset`).
pub const DEFAULT_MAX_ENDPOINTS_PER_SUBSET: usize = 1000;

static DEFAULT_OPTIONS: PlanOptions = PlanOptions::DEFAULT;

/// Everything that one sync of an Endpoints object depends on.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PlanInputs<'a> {
    /// The Service of the same name, if there is one.
    pub service: Option<&'a Service>,
    /// The Endpoints object, if there is one.
    pub endpoints: Option<&'a Endpoints>,
    /// The slices that carry the label with the Service's name and the label with this controller's
    /// name and are not being deleted, in any order.
    pub existing_slices: &'a [Arc<EndpointSlice>],
    pub options: &'a PlanOptions,
}

impl<'a> PlanInputs<'a> {
    /// Returns the inputs for Endpoints that have no slices yet, with default options. Takes
    /// references or options of them.
    pub fn new(service: impl Into<Option<&'a Service>>, endpoints: impl Into<Option<&'a Endpoints>>) -> Self {
        let (service, endpoints) = (service.into(), endpoints.into());
        Self { service, endpoints, existing_slices: &[], options: &DEFAULT_OPTIONS }
    }

    /// Sets [`existing_slices`](Self::existing_slices).
    pub fn with_existing_slices(self, existing_slices: &'a [Arc<EndpointSlice>]) -> Self {
        Self { existing_slices, ..self }
    }

    /// Sets [`options`](Self::options).
    pub fn with_options(self, options: &'a PlanOptions) -> Self {
        Self { options, ..self }
    }
}

/// Options of a plan, the same for all syncs. To change some, start from the default:
///
/// ```
/// # use kube_endpoint_mirroring::PlanOptions;
/// let options = PlanOptions::default().with_max_endpoints_per_subset(500);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanOptions {
    /// Maximum number of mirrored addresses of a subset, so that each subset has one slice for each
    /// address family.
    pub max_endpoints_per_subset: usize,
    /// Gate: the plan does not copy the label `service.kubernetes.io/headless` of Endpoints to
    /// slices of a Service that is not headless, because kube-proxy ignores slices that have it.
    /// Upstream copies it. On by default.
    pub headless_label_repair: bool,
    /// True if the endpoint selector controller runs beside this one. The plan then makes nothing
    /// of the Endpoints that the endpoints controller left for a Service that names an
    /// EndpointSelector: they would add all pods of the former selector, and that controller
    /// deletes them soon. Off by default.
    pub endpoint_selectors: bool,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl PlanOptions {
    const DEFAULT: Self = Self {
        max_endpoints_per_subset: DEFAULT_MAX_ENDPOINTS_PER_SUBSET,
        headless_label_repair: true,
        endpoint_selectors: false,
    };

    /// Sets [`max_endpoints_per_subset`](Self::max_endpoints_per_subset).
    pub fn with_max_endpoints_per_subset(self, max_endpoints_per_subset: usize) -> Self {
        Self { max_endpoints_per_subset, ..self }
    }

    /// Sets [`headless_label_repair`](Self::headless_label_repair).
    pub fn with_headless_label_repair(self, headless_label_repair: bool) -> Self {
        Self { headless_label_repair, ..self }
    }

    /// Sets [`endpoint_selectors`](Self::endpoint_selectors).
    pub fn with_endpoint_selectors(self, endpoint_selectors: bool) -> Self {
        Self { endpoint_selectors, ..self }
    }
}
