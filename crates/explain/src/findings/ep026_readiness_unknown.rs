//! The pod has no Ready condition.

use crate::findings::pod_reason::PodFinding;
use serde::Serialize;
use std::fmt;

about! {
    /// The pod has an address but no Ready condition. The kubelet writes this condition when it
    /// starts a pod.
    EP026 "readiness-unknown" Warning
    "The pod has no Ready condition."
}

/// A pod without a Ready condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadinessUnknown {}

impl PodFinding for ReadinessUnknown {}

impl fmt::Display for ReadinessUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the pod has no Ready condition: no kubelet has reported on it")
    }
}
