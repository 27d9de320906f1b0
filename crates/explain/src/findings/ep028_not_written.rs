//! The pod should receive traffic, and no slice that the Service uses holds it as ready.

use crate::findings::pod_reason::PodFinding;
use serde::Serialize;
use std::fmt;

about! {
    /// The plan publishes the pod as ready, and no slice that the Service uses holds its address as
    /// ready. EP050 or EP034 gives the reason.
    EP028 "not-written" Info may_be_under_way
    "The pod should receive traffic, and no slice that the Service uses holds it as ready."
}

/// A pod that should receive traffic, and that no slice holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotWritten {}

impl PodFinding for NotWritten {
    fn is_consequence(&self) -> bool {
        true
    }
}

impl fmt::Display for NotWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the pod should receive traffic, and no slice that the Service uses holds it as ready")
    }
}
