//! The result of a plan: writes for each address type, events, verdicts, errors and numbers.

use std::fmt::{self, Display, Formatter};

use kube_endpoint_core_model::display::{Ports, fmt_lines};
use kube_endpoint_core_model::{
    AddressType, EndpointPort, EndpointSlice, ObjectKey, PlannedEvent, PodVerdict, Text, Writes,
};
use serde::Serialize;

use crate::topology::HintedState;

/// The result of a plan.
///
/// The controller carries the sub-plans out in order. A write that fails ends its sub-plan; the
/// controller still carries out the sub-plans of the other address types. If the API server is too
/// busy to answer, the sync ends there, with all sub-plans.
///
/// After each single write, each pod that is ready before the sub-plan and after it is a ready
/// endpoint of some slice. But if at most one pod may be ready
/// ([`ReadyPods::is_exclusive`](kube_endpoint_core_model::ReadyPods::is_exclusive)), no two slices
/// of a family have a ready endpoint after any write: a leader that moves to another slice is
/// missing for one write.
///
/// `Display` prints all of it, for people. `Serialize` writes all of it, for programs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Plan {
    /// One sub-plan for each address type of the Service, IPv4 first, then one for each address
    /// type that the Service no longer has but that slices still have. A sub-plan may have nothing
    /// to write.
    pub sub_plans: Vec<SubPlan>,
    pub events: Vec<PlannedEvent>,
    /// A verdict on each pod, sorted by pod name.
    pub verdicts: Vec<PodVerdict>,
    /// Problems that did not prevent the rest of the plan. The Service has to be synced again
    /// later.
    pub errors: Vec<PlanError>,
    /// State that the next sync of this Service takes as
    /// [`PlanInputs::hinted`](crate::PlanInputs::hinted).
    pub hinted: HintedState,
    pub stats: PlanStats,
    /// True if these writes only make a former leader not ready. The next plan, from slices that
    /// show them, makes the new leader ready; sync again at once.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
}

/// The writes to the slices of one address type.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SubPlan {
    pub address_type: AddressType,
    /// The writes. `update` is in the order that keeps every ready pod published.
    pub writes: Writes<EndpointSlice>,
    /// Numbers for metrics, or `None` if the Service no longer has the address type: the sub-plan
    /// then deletes all slices.
    pub stats: Option<AddressTypeStats>,
}

/// A problem that may be gone at a later sync.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(tag = "error", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum PlanError {
    /// The informer does not know the pod's node, or not yet, so the plan leaves the pod out.
    #[error("skipping Pod {pod} for Service {service}: Node {node} Not Found")]
    NodeNotFound {
        pod: Text,
        service: ObjectKey,
        /// Name of the node, empty if the pod has none.
        node: Text,
    },
}

/// Labels for the metrics of one sync.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PlanStats {
    /// True if a topology annotation asks for hints: label `topology`, `Auto` or `Disabled`.
    pub topology_auto: bool,
    /// The value of `trafficDistribution` in force: label `traffic_distribution`.
    pub traffic_distribution: Option<Text>,
}

/// Numbers of one address type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AddressTypeStats {
    /// Endpoints that were in no slice with their ports before.
    pub endpoints_added: usize,
    /// Endpoints that the plan removes from the slice that held them.
    pub endpoints_removed: usize,
    /// Creates, updates and deletes, including creates that the plan omits because the Service is
    /// being deleted, as upstream counts.
    pub slices_changed: usize,
    /// One entry for each set of ports, sorted by ports.
    pub groups: Vec<GroupStats>,
}

/// Numbers of the slices that have the same ports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct GroupStats {
    pub ports: Vec<EndpointPort>,
    /// Endpoints that should exist.
    pub endpoints: usize,
    pub slices: usize,
}

impl AddressTypeStats {
    /// Returns the number of endpoints that should exist.
    pub fn endpoints(&self) -> usize {
        self.groups.iter().map(|group| group.endpoints).sum()
    }

    /// Returns the number of slices after the sync.
    pub fn slices(&self) -> usize {
        self.groups.iter().map(|group| group.slices).sum()
    }

    /// Returns the number of slices if all were full (upstream `numDesiredSlices`), at least one
    /// for the placeholder.
    pub fn desired_slices(&self, max_endpoints_per_slice: usize) -> usize {
        let capacity = max_endpoints_per_slice.max(1);
        self.groups.iter().map(|group| group.endpoints.div_ceil(capacity)).sum::<usize>().max(1)
    }
}

impl Plan {
    /// Returns true if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.sub_plans.iter().all(|sub_plan| sub_plan.writes.is_empty())
    }

    /// Returns the number of writes of all sub-plans.
    pub fn write_count(&self) -> usize {
        self.sub_plans.iter().map(|sub_plan| sub_plan.writes.len()).sum()
    }

    /// Returns the numbers of each address type that the Service has.
    pub fn address_type_stats(&self) -> impl Iterator<Item = &AddressTypeStats> {
        self.sub_plans.iter().filter_map(|sub_plan| sub_plan.stats.as_ref())
    }

    /// Returns the number of endpoints that should exist, over all address types.
    pub fn endpoints(&self) -> usize {
        self.address_type_stats().map(AddressTypeStats::endpoints).sum()
    }

    /// Returns the number of slices after the sync, over all address types.
    pub fn slices(&self) -> usize {
        self.address_type_stats().map(AddressTypeStats::slices).sum()
    }

    /// Returns the number of slices if all were full, over all address types.
    pub fn desired_slices(&self, max_endpoints_per_slice: usize) -> usize {
        self.address_type_stats().map(|stats| stats.desired_slices(max_endpoints_per_slice)).sum()
    }
}

impl Display for Plan {
    /// Prints writes, events, warnings, errors, verdicts and numbers, in this order. Ends with a
    /// newline.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            writeln!(f, "nothing to write")?;
        }
        let with_writes = self.sub_plans.iter().filter(|sub_plan| !sub_plan.writes.is_empty());
        with_writes.map(|sub_plan| &sub_plan.writes).try_for_each(|writes| writes.fmt(f))?;
        fmt_lines(f, "event ", &self.events)?;
        fmt_lines(f, "retry: ", &self.errors)?;
        fmt_lines(f, "", &self.verdicts)?;
        fmt_lines(f, "", self.sub_plans.iter().filter_map(SubPlan::numbers))
    }
}

impl SubPlan {
    fn numbers(&self) -> Option<String> {
        self.stats.as_ref().map(|stats| format!("{}: {stats}", self.address_type))
    }
}

impl Display for SubPlan {
    /// Prints the writes, then the numbers. Ends with a newline.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.writes.fmt(f)?;
        fmt_lines(f, "", self.numbers())
    }
}

impl Display for AddressTypeStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { endpoints_added, endpoints_removed, slices_changed, .. } = self;
        write!(f, "endpoints {} ({endpoints_added} added, {endpoints_removed} removed)", self.endpoints())?;
        write!(f, ", slices {} ({slices_changed} changed)", self.slices())
    }
}

impl Display for GroupStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}: endpoints {}, slices {}", Ports(&self.ports), self.endpoints, self.slices)
    }
}

impl Display for PlanStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let topology = if self.topology_auto { "Auto" } else { "Disabled" };
        let traffic_distribution = self.traffic_distribution.as_deref().unwrap_or("none");
        write!(f, "topology {topology}, traffic distribution {traffic_distribution}")
    }
}
