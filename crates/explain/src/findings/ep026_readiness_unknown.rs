//! The pod has no Ready condition.

use std::fmt;

use kube_endpoint_core_model::ObjectKey;
use serde::Serialize;

use crate::facts::remedy::Person::ClusterAdministrator;
use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::PodFinding;

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

impl PodFinding for ReadinessUnknown {
    fn remedy(&self, _: &ObjectKey, _: &str) -> Remedy {
        let sentence = "Look at the kubelet of the pod's node, or at who writes the pod's status";
        Remedy::ask(ClusterAdministrator, sentence)
    }
}

impl fmt::Display for ReadinessUnknown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the pod has no Ready condition: no kubelet has reported on it")
    }
}
