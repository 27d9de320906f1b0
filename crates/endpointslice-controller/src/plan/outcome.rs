//! What a plan says: writes, events, verdicts, numbers.

use std::sync::Arc;

use kube_endpoint_core_model::{
    AddressType, EndpointPort, EndpointSlice, ObjectKey, PlannedEvent, PodVerdict, Text,
};

use crate::topology::HintedState;

/// What is to be written, and all else that a sync has to say. Carried out as: creates, then updates in order, then
/// deletes in order; the first error ends it. Whoever watches sees each pod that is ready before and after in some slice
/// after every single write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// New slices: `generateName` is set, `name` is not.
    pub create: Vec<EndpointSlice>,
    /// Slices as they shall be, with the name, uid and version of what they replace.
    pub update: Vec<EndpointSlice>,
    /// Slices to delete, as they are.
    pub delete: Vec<Arc<EndpointSlice>>,
    /// Events about the Service.
    pub events: Vec<PlannedEvent>,
    /// What became of each pod, by pod name.
    pub verdicts: Vec<PodVerdict>,
    /// What went wrong without stopping the rest; the Service is to be synced again later.
    pub errors: Vec<PlanError>,
    /// What the next sync of this Service has to be given.
    pub hinted: HintedState,
    /// Numbers for metrics.
    pub stats: PlanStats,
}

/// Something that a later sync may find mended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A pod's node is not known (yet), so that the pod is left out. May be retried.
    #[error("skipping Pod {pod} for Service {service}: Node {node} Not Found")]
    NodeNotFound {
        /// Name of the pod.
        pod: Text,
        /// The Service.
        service: ObjectKey,
        /// Name of the node, empty when the pod has none.
        node: Text,
    },
}

/// Numbers for metrics, of this sync alone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PlanStats {
    /// One entry for each address type of the Service, IPv4 first.
    pub address_types: Vec<AddressTypeStats>,
    /// Whether a topology annotation asks for hints: label `topology`, `Auto` or `Disabled`.
    pub topology_auto: bool,
    /// The value of `trafficDistribution` that is in force: label `traffic_distribution`.
    pub traffic_distribution: Option<Text>,
}

/// Numbers of one address type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AddressTypeStats {
    /// The address type.
    pub address_type: AddressType,
    /// Endpoints that were in no slice of their group before.
    pub endpoints_added: usize,
    /// Endpoints that are no longer wanted where they were.
    pub endpoints_removed: usize,
    /// Creates, updates and deletes; creates also while the Service is being deleted, as upstream counts.
    pub slices_changed: usize,
    /// One entry for each set of ports, sorted by ports.
    pub groups: Vec<GroupStats>,
}

/// Numbers of the slices that share a set of ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// The ports.
    pub ports: Vec<EndpointPort>,
    /// Endpoints wanted.
    pub endpoints: usize,
    /// Slices after the sync.
    pub slices: usize,
}

impl AddressTypeStats {
    /// Endpoints wanted.
    pub fn endpoints(&self) -> usize {
        self.groups.iter().map(|group| group.endpoints).sum()
    }

    /// Slices after the sync.
    pub fn slices(&self) -> usize {
        self.groups.iter().map(|group| group.slices).sum()
    }

    /// How many slices would do if all were full (upstream `numDesiredSlices`); never less than the placeholder.
    pub fn desired_slices(&self, max_endpoints_per_slice: usize) -> usize {
        let capacity = max_endpoints_per_slice.max(1);
        self.groups.iter().map(|group| group.endpoints.div_ceil(capacity)).sum::<usize>().max(1)
    }
}

impl PlanStats {
    /// Endpoints wanted, over all address types.
    pub fn endpoints(&self) -> usize {
        self.address_types.iter().map(AddressTypeStats::endpoints).sum()
    }

    /// Slices after the sync, over all address types.
    pub fn slices(&self) -> usize {
        self.address_types.iter().map(AddressTypeStats::slices).sum()
    }

    /// How many slices would do if all were full, over all address types.
    pub fn desired_slices(&self, max_endpoints_per_slice: usize) -> usize {
        self.address_types.iter().map(|one| one.desired_slices(max_endpoints_per_slice)).sum()
    }
}

impl Plan {
    /// Whether nothing is to be written.
    pub fn writes_nothing(&self) -> bool {
        self.create.is_empty() && self.update.is_empty() && self.delete.is_empty()
    }

    /// How many writes there are.
    pub fn writes(&self) -> usize {
        self.create.len() + self.update.len() + self.delete.len()
    }
}
