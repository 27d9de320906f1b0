//! The result of a plan: writes, events, verdicts and numbers.

use std::fmt::{self, Display, Formatter};

use kube_endpoint_core_model::display::fmt_lines;
use kube_endpoint_core_model::{EndpointSlice, PlannedEvent, Writes};
use serde::Serialize;

use super::verdict::{AddressVerdict, NotMirrored};

/// The result of a plan. A write that fails ends the sync, without the writes after it.
///
/// `Display` prints all of it, for people. `Serialize` writes all of it, for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Plan {
    /// The writes to the slices that mirror the Endpoints. Updates and deletes are sorted by name.
    pub writes: Writes<EndpointSlice>,
    /// Events about the Endpoints object.
    pub events: Vec<PlannedEvent>,
    /// A verdict on each address of each subset. If the Endpoints are mirrored, these are the
    /// subsets in canonical form, which have each address once for each set of ports.
    pub verdicts: Vec<AddressVerdict>,
    /// The reason why the plan mirrors nothing, if there is one. The plan then deletes all slices,
    /// and the Endpoints no longer count in any metric.
    pub not_mirrored: Option<NotMirrored>,
    pub stats: PlanStats,
}

impl Plan {
    /// Returns true if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

impl Display for Plan {
    /// Prints the reason why the plan mirrors nothing, if there is one, then writes, events,
    /// verdicts and numbers. Ends with a newline.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        fmt_lines(f, "not mirrored: ", self.not_mirrored)?;
        self.writes.fmt(f)?;
        fmt_lines(f, "event ", &self.events)?;
        fmt_lines(f, "", &self.verdicts)?;
        writeln!(f, "{}", self.stats)
    }
}

/// The numbers for upstream's metrics `endpoint_slice_mirroring_controller_*`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PlanStats {
    /// Metric `endpoints_added_per_sync`.
    pub added: usize,
    /// Metric `endpoints_updated_per_sync`.
    pub updated: usize,
    /// Metric `endpoints_removed_per_sync`.
    pub removed: usize,
    /// Metric `addresses_skipped_per_sync`: invalid addresses, and those beyond the maximum.
    pub skipped: usize,
    /// The share of these Endpoints in the metric `endpoints_desired`.
    pub endpoints_desired: usize,
    /// Their share in `num_endpoint_slices`.
    pub slices: usize,
    /// Their share in `desired_endpoint_slices`.
    pub slices_desired: usize,
}

impl Display for PlanStats {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { added, updated, removed, skipped, endpoints_desired, slices, .. } = self;
        write!(f, "endpoints {endpoints_desired} ({added} added, {updated} updated, {removed} removed)")?;
        write!(f, ", slices {slices}, addresses skipped {skipped}")
    }
}
