//! The Endpoints object has no room for the pod.

use kube_endpoint_core_model::{LeftOut, Verdict};

use crate::findings::pod::Publication;
use crate::findings::prelude::*;

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
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let in_slices = pod.left_out().is_some_and(|reason| *reason == LeftOut::OverCapacity);
        let in_endpoints = matches!(pod.in_endpoints, Some(Verdict::LeftOut(LeftOut::OverCapacity)));
        let is_told = in_slices || (in_endpoints && pod.publication() == Publication::Ready);
        is_told.then_some(Self {})
    }

    fn message(_: &[&Self]) -> String {
        "the Endpoints object holds as many addresses as it may".to_owned()
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        vec![pod.of_service.endpoints()]
    }

    fn remedy(_: &[&Self], _: &PodsOf<'_>) -> Remedy {
        let sentence =
            "Nothing, if clients read EndpointSlices, which hold all pods; Endpoints hold at most 1000";
        Remedy::ask(ServiceOwner, sentence)
    }

    fn receives_traffic(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_service_with_one_pod_less_has_room() {
        let full = example("ep025-over-capacity");
        assert!(full.finds(Code::OverCapacity));
        assert!(!full.without("Pod/web-2").finds(Code::OverCapacity));
    }
}
