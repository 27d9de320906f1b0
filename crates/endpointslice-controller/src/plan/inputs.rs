//! What a plan is made from.

use std::sync::Arc;

use kube_endpoint_core_model::well_known::{ANNOTATION_TOLERATE_UNREADY, ENDPOINTSLICE_CONTROLLER};
use kube_endpoint_core_model::{EndpointSlice, NodeLookup, Pod, Service, Text, Timestamp};

use crate::topology::{HintedState, TopologyState};

/// How many endpoints a slice holds at most when nobody says otherwise (`--max-endpoints-per-slice`).
pub const DEFAULT_MAX_ENDPOINTS_PER_SLICE: usize = 100;

/// Everything that one sync of a Service depends on.
#[derive(Clone)]
pub struct PlanInputs<'a> {
    /// The Service.
    pub service: &'a Service,
    /// The pods that it selects, in any order; sorted by name is fastest.
    pub pods: &'a [Arc<Pod>],
    /// Where the nodes of the pods are looked up.
    pub nodes: &'a dyn NodeLookup,
    /// The slices that carry the Service's and the manager's label and are not being deleted, in any order.
    pub existing_slices: &'a [Arc<EndpointSlice>],
    /// When the change happened that this sync is about; none when it is not known.
    pub trigger_time: Option<Timestamp>,
    /// Options of the controller.
    pub options: &'a PlanOptions,
    /// How the cluster's CPU is spread over zones.
    pub topology: &'a TopologyState,
    /// What the last sync of this Service left, [`Plan::hinted`](crate::Plan::hinted); empty at first.
    pub hinted: HintedState,
}

/// Options that do not change from sync to sync.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanOptions {
    /// How many endpoints a slice holds at most; zero counts as one.
    pub max_endpoints_per_slice: usize,
    /// The value of the managed-by label.
    pub manager: Text,
    /// Gate: the annotation `service.alpha.kubernetes.io/tolerate-unready-endpoints` publishes unready pods, as
    /// `publishNotReadyAddresses` does. Upstream no longer reads it; off by default.
    pub tolerate_unready_annotation: bool,
    /// Gate: where no order of updates keeps every ready pod in some slice after each of them, a slice is created first.
    /// Upstream makes fewer writes then, in any order. On by default.
    pub safe_write_order: bool,
    /// Gate: syncs that write anyway also merge sparse slices, with at most one write more. Off by default.
    pub slice_compaction: bool,
    /// Gate: up to this share (0 to 1) of the nodes may lack zone or CPU and be left out of the ratios, where upstream
    /// withdraws all hints for the first such node. Zero by default.
    pub topology_node_tolerance: f64,
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            max_endpoints_per_slice: DEFAULT_MAX_ENDPOINTS_PER_SLICE,
            manager: ENDPOINTSLICE_CONTROLLER.into(),
            tolerate_unready_annotation: false,
            safe_write_order: true,
            slice_compaction: false,
            topology_node_tolerance: 0.0,
        }
    }
}

impl PlanInputs<'_> {
    /// Whether unready pods are published as ready.
    pub(crate) fn publishes_unready(&self) -> bool {
        // The annotation was read with Go's ParseBool.
        let tolerates = |value: &Text| matches!(&**value, "1" | "t" | "T" | "true" | "TRUE" | "True");
        self.service.publish_not_ready_addresses
            || (self.options.tolerate_unready_annotation
                && self.service.annotations.get(ANNOTATION_TOLERATE_UNREADY).is_some_and(tolerates))
    }

    /// The capacity of a slice.
    pub(crate) fn capacity(&self) -> usize {
        self.options.max_endpoints_per_slice.max(1)
    }
}
