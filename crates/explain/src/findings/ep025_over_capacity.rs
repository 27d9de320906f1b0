//! The Endpoints object has no room for the pod.

use std::fmt;

use kube_endpoint_core_model::ObjectKey;
use serde::Serialize;

use crate::facts::remedy::Person::ServiceOwner;
use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::PodFinding;

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
    fn remedy(&self, _: &ObjectKey, _: &str) -> Remedy {
        let sentence =
            "Nothing, if clients read EndpointSlices, which hold all pods; Endpoints hold at most 1000";
        Remedy::ask(ServiceOwner, sentence)
    }

    fn receives_traffic(&self) -> bool {
        true
    }
}

impl fmt::Display for OverCapacity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the Endpoints object holds as many addresses as it may")
    }
}
