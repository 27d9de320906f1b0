//! The inputs of a plan.

use std::fmt;
use std::sync::{Arc, LazyLock};

use kube_endpoint_core_model::well_known::ENDPOINTSLICE_CONTROLLER;
use kube_endpoint_core_model::{
    EndpointSlice, NodeLookup, Pod, ReadyPods, Service, StringMap, Text, Timestamp, slice_labels,
};

use crate::topology::{HintedState, TopologyState};

/// The default of [`PlanOptions::max_endpoints_per_slice`] (`--max-endpoints-per-slice`).
pub const DEFAULT_MAX_ENDPOINTS_PER_SLICE: usize = 100;

static DEFAULT_OPTIONS: LazyLock<PlanOptions> = LazyLock::new(PlanOptions::default);
static UNKNOWN_TOPOLOGY: TopologyState = TopologyState::unknown();

/// Everything that one sync of a Service depends on.
#[derive(Clone)]
#[non_exhaustive]
pub struct PlanInputs<'a> {
    pub service: &'a Service,
    /// The pods that it selects, in any order; sorted by name is fastest.
    pub pods: &'a [Arc<Pod>],
    /// Looks up the pods' nodes by name.
    pub nodes: &'a dyn NodeLookup,
    /// The slices that carry the label with the Service's name and the label with the manager's
    /// name and are not being deleted, in any order.
    pub existing_slices: &'a [Arc<EndpointSlice>],
    /// Time of the change that led to this sync, or `None` if it is not known.
    pub trigger_time: Option<Timestamp>,
    pub options: &'a PlanOptions,
    /// The distribution of the cluster's CPU over zones.
    pub topology: &'a TopologyState,
    /// The pods that may be ready endpoints; `None` if every ready pod may, as upstream.
    pub ready_pods: Option<&'a ReadyPods>,
    /// [`Plan::hinted`](crate::Plan::hinted) of the last sync of this Service; empty at the first
    /// sync.
    pub hinted: HintedState,
}

impl<'a> PlanInputs<'a> {
    /// Returns the inputs for a Service that has no slices yet, with default options, no trigger
    /// time and unknown zones.
    pub fn new(service: &'a Service, pods: &'a [Arc<Pod>], nodes: &'a dyn NodeLookup) -> Self {
        Self {
            service,
            pods,
            nodes,
            existing_slices: &[],
            trigger_time: None,
            options: &DEFAULT_OPTIONS,
            topology: &UNKNOWN_TOPOLOGY,
            ready_pods: None,
            hinted: HintedState::default(),
        }
    }

    /// Sets [`pods`](Self::pods).
    pub fn with_pods(self, pods: &'a [Arc<Pod>]) -> Self {
        Self { pods, ..self }
    }

    /// Sets [`existing_slices`](Self::existing_slices).
    pub fn with_existing_slices(self, existing_slices: &'a [Arc<EndpointSlice>]) -> Self {
        Self { existing_slices, ..self }
    }

    /// Sets [`trigger_time`](Self::trigger_time).
    pub fn with_trigger_time(self, trigger_time: impl Into<Option<Timestamp>>) -> Self {
        Self { trigger_time: trigger_time.into(), ..self }
    }

    /// Sets [`options`](Self::options).
    pub fn with_options(self, options: &'a PlanOptions) -> Self {
        Self { options, ..self }
    }

    /// Sets [`topology`](Self::topology).
    pub fn with_topology(self, topology: &'a TopologyState) -> Self {
        Self { topology, ..self }
    }

    /// Sets [`ready_pods`](Self::ready_pods).
    pub fn with_ready_pods(self, ready_pods: Option<&'a ReadyPods>) -> Self {
        Self { ready_pods, ..self }
    }

    /// Sets [`hinted`](Self::hinted).
    pub fn with_hinted(self, hinted: HintedState) -> Self {
        Self { hinted, ..self }
    }

    /// Returns true if the plan may create slices. The garbage collector deletes the slices of a
    /// Service that is being deleted; new slices would race against it.
    pub(crate) fn may_create(&self) -> bool {
        self.service.deletion_timestamp.is_none()
    }

    /// Returns the maximum number of endpoints of a slice.
    pub(crate) fn capacity(&self) -> usize {
        self.options.max_endpoints_per_slice.max(1)
    }
}

impl fmt::Debug for PlanInputs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanInputs")
            .field("service", &self.service.key)
            .field("pods", &self.pods.len())
            .field("existing_slices", &self.existing_slices.len())
            .field("trigger_time", &self.trigger_time)
            .field("options", self.options)
            .finish_non_exhaustive()
    }
}

/// Options of a plan, the same for all syncs. To change some, start from the default:
///
/// ```
/// # use kube_endpoint_slice_plan::PlanOptions;
/// let options = PlanOptions::default().with_max_endpoints_per_slice(500);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PlanOptions {
    /// Maximum number of endpoints of a slice; zero counts as one.
    pub max_endpoints_per_slice: usize,
    /// The value of the managed-by label.
    pub manager: Text,
    /// Gate: if no order of updates keeps every ready pod in some slice after each of them, the
    /// plan creates a slice first. Upstream makes fewer writes then, in any order. On by default.
    pub safe_write_order: bool,
    /// Gate: a sync that writes anyway also merges sparse slices, with at most one more write. Off
    /// by default.
    pub slice_compaction: bool,
    /// Gate: the plan writes a slice whose label `service.kubernetes.io/headless` contradicts the
    /// Service. kube-proxy ignores a slice on which the label is left over. Upstream does not
    /// compare it. On by default.
    pub headless_label_repair: bool,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            max_endpoints_per_slice: DEFAULT_MAX_ENDPOINTS_PER_SLICE,
            manager: ENDPOINTSLICE_CONTROLLER.into(),
            safe_write_order: true,
            slice_compaction: false,
            headless_label_repair: true,
        }
    }
}

impl PlanOptions {
    /// Sets [`max_endpoints_per_slice`](Self::max_endpoints_per_slice).
    pub fn with_max_endpoints_per_slice(self, max_endpoints_per_slice: usize) -> Self {
        Self { max_endpoints_per_slice, ..self }
    }

    /// Sets [`safe_write_order`](Self::safe_write_order).
    pub fn with_safe_write_order(self, safe_write_order: bool) -> Self {
        Self { safe_write_order, ..self }
    }

    /// Sets [`slice_compaction`](Self::slice_compaction).
    pub fn with_slice_compaction(self, slice_compaction: bool) -> Self {
        Self { slice_compaction, ..self }
    }

    /// Sets [`headless_label_repair`](Self::headless_label_repair).
    pub fn with_headless_label_repair(self, headless_label_repair: bool) -> Self {
        Self { headless_label_repair, ..self }
    }

    /// Returns true if a slice has the labels that it needs, so that the plan need not write it for
    /// them.
    pub(super) fn accepts_labels(&self, labels: &StringMap, service: &Service) -> bool {
        !slice_labels::differ_from_service(labels, service) && self.accepts_headless_label(labels, service)
    }

    /// Returns true if the plan need not write a slice for its headless label.
    pub(super) fn accepts_headless_label(&self, labels: &StringMap, service: &Service) -> bool {
        !self.headless_label_repair || slice_labels::headless_label_is_right(labels, service)
    }
}
