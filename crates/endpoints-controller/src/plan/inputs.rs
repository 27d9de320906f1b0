//! The inputs of a plan.

use std::sync::Arc;

use kube_endpoint_core_model::{Endpoints, Pod, Service, Timestamp};

/// Maximum number of addresses of an Endpoints object (upstream `maxCapacity`).
pub const MAX_CAPACITY: usize = 1000;

static DEFAULT_OPTIONS: PlanOptions = PlanOptions::DEFAULT;

/// Everything that one sync of a Service depends on.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct PlanInputs<'a> {
    pub service: &'a Service,
    /// The pods that it selects, in any order.
    pub pods: &'a [Arc<Pod>],
    /// The Endpoints object of the same name, if there is one.
    pub existing: Option<&'a Endpoints>,
    /// Time of the change that led to this sync, or `None` if it is not known.
    pub trigger_time: Option<Timestamp>,
    pub options: &'a PlanOptions,
}

impl<'a> PlanInputs<'a> {
    /// Returns the inputs for a Service that has no Endpoints yet, with default options and no
    /// trigger time.
    pub fn new(service: &'a Service, pods: &'a [Arc<Pod>]) -> Self {
        Self { service, pods, existing: None, trigger_time: None, options: &DEFAULT_OPTIONS }
    }

    /// Sets [`pods`](Self::pods).
    pub fn with_pods(self, pods: &'a [Arc<Pod>]) -> Self {
        Self { pods, ..self }
    }

    /// Sets [`existing`](Self::existing).
    pub fn with_existing(self, existing: impl Into<Option<&'a Endpoints>>) -> Self {
        Self { existing: existing.into(), ..self }
    }

    /// Sets [`trigger_time`](Self::trigger_time).
    pub fn with_trigger_time(self, trigger_time: impl Into<Option<Timestamp>>) -> Self {
        Self { trigger_time: trigger_time.into(), ..self }
    }

    /// Sets [`options`](Self::options).
    pub fn with_options(self, options: &'a PlanOptions) -> Self {
        Self { options, ..self }
    }
}

/// Options of a plan, the same for all syncs. The default is this project's behaviour;
/// [`PlanOptions::upstream`] is that of Kubernetes. To change some, start from one of them:
///
/// ```
/// # use kube_endpoint_endpoints_controller::PlanOptions;
/// let options = PlanOptions::default().with_capacity(500);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlanOptions {
    /// Maximum number of addresses of an Endpoints object; in upstream always [`MAX_CAPACITY`].
    pub capacity: usize,
    /// Do not write a truncated object that already equals the truncated list. Upstream compares it
    /// with the full list, and so writes it again at every sync.
    pub keep_equal_truncated: bool,
    /// Ignore labels of the Service that the controller itself sets on Endpoints when comparing.
    /// Upstream considers such a label missing, so it writes the object again at every sync.
    pub ignore_reserved_labels: bool,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl PlanOptions {
    const DEFAULT: Self =
        Self { capacity: MAX_CAPACITY, keep_equal_truncated: true, ignore_reserved_labels: true };

    /// Returns the options with which an object is written whenever Kubernetes' own controller
    /// writes it.
    pub fn upstream() -> Self {
        Self { keep_equal_truncated: false, ignore_reserved_labels: false, ..Self::DEFAULT }
    }

    /// Sets [`capacity`](Self::capacity).
    pub fn with_capacity(self, capacity: usize) -> Self {
        Self { capacity, ..self }
    }

    /// Sets [`keep_equal_truncated`](Self::keep_equal_truncated).
    pub fn with_keep_equal_truncated(self, keep_equal_truncated: bool) -> Self {
        Self { keep_equal_truncated, ..self }
    }

    /// Sets [`ignore_reserved_labels`](Self::ignore_reserved_labels).
    pub fn with_ignore_reserved_labels(self, ignore_reserved_labels: bool) -> Self {
        Self { ignore_reserved_labels, ..self }
    }
}
