//! The result of a plan: the write, verdicts and numbers.

use std::fmt::{self, Display, Formatter};

use kube_endpoint_core_model::display::fmt_lines;
use kube_endpoint_core_model::{Endpoints, PodVerdict, Writes};
use serde::Serialize;

/// The result of a plan. It has at most one write, and no delete: the controller deletes the
/// Endpoints of a Service that no longer exists without a plan. A write that fails ends the sync.
///
/// `Display` prints all of it, for people. `Serialize` writes all of it, for programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Plan {
    /// The create or the update of the Service's Endpoints object, if it has to be written.
    pub writes: Writes<Endpoints>,
    /// A verdict on each pod, sorted by pod name. Empty if the Service gets no Endpoints from this
    /// controller.
    pub verdicts: Vec<PodVerdict>,
    /// Number of pods that are published as ready.
    pub ready: usize,
    /// Number of pods that are published as not ready.
    pub not_ready: usize,
    /// True if the plan leaves addresses out because there are more than an object may hold.
    pub truncated: bool,
}

impl Plan {
    /// Returns true if there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }
}

impl Display for Plan {
    /// Prints the write, verdicts and numbers, in this order. Ends with a newline.
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.writes.fmt(f)?;
        fmt_lines(f, "", &self.verdicts)?;
        let Self { ready, not_ready, .. } = self;
        let truncated = if self.truncated { ", truncated" } else { "" };
        writeln!(f, "pods {ready} ready, {not_ready} not ready{truncated}")
    }
}
