//! The Endpoints object has no room for the pod.

use crate::findings::pod_reason::PodFinding;
use serde::Serialize;
use std::fmt;

about! {
    /// An Endpoints object holds at most 1000 addresses. The controller leaves out the others,
    /// those that are not ready first. Slices hold all.
    EP025 "over-capacity" Info
    "The Endpoints object has no room for the pod."
}

/// A pod for which the Endpoints object has no room.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OverCapacity {}

impl PodFinding for OverCapacity {
    fn receives_traffic(&self) -> bool {
        true
    }
}

impl fmt::Display for OverCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the Endpoints object holds as many addresses as it may")
    }
}
