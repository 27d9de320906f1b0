//! The Endpoints object holds only some of the addresses.

use kube_endpoint_core_model::well_known::{ANNOTATION_OVER_CAPACITY, TRUNCATED};
use kube_endpoint_core_model::{LeftOut, PodVerdict, Verdict};

use crate::findings::evidence;
use crate::findings::prelude::*;

about! {
    /// The Endpoints object has the annotation `endpoints.kubernetes.io/over-capacity: truncated`.
    /// Clients of Endpoints see only a part of the pods.
    EP056 "endpoints-truncated" Warning
    "The Endpoints object holds only some of the addresses."
}

/// Endpoints that have no room for all pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointsTruncated {
    /// Number of addresses that the object holds.
    pub held: usize,
    /// Number of pods that it would hold without a limit.
    pub wanted: usize,
}

impl Finding for EndpointsTruncated {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let plan = inputs.planned.endpoints.as_ref().filter(|plan| plan.truncated);
        let Some(plan) = plan.filter(|_| inputs.options.known.endpoints) else { return Vec::new() };
        // The pods are not what these hold.
        if inputs.endpoints_of_others().is_some() {
            return Vec::new();
        }
        let existing = inputs.objects.endpoints_of(&inputs.service.key);
        let (ready, not_ready) = existing.map_or((0, 0), |existing| existing.subsets.counts());
        let is_over = |pod: &&PodVerdict| matches!(pod.verdict, Verdict::LeftOut(LeftOut::OverCapacity));
        let wanted = plan.ready + plan.not_ready + plan.verdicts.iter().filter(is_over).count();
        vec![Self { held: ready + not_ready, wanted }]
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let field = evidence::key(".metadata.annotations", ANNOTATION_OVER_CAPACITY);
        vec![read.of_endpoints(field, TRUNCATED)]
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        Remedy::ask(ServiceOwner, "Let clients read EndpointSlices, or split the Service")
    }
}

impl fmt::Display for EndpointsTruncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the Endpoints object holds {} of {} addresses, its maximum", self.held, self.wanted)
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn endpoints_may_be_full() {
        let over = example("ep056-endpoints-truncated");
        assert!(over.finds(Code::EndpointsTruncated));
        assert!(!over.without("Pod/web-2").finds(Code::EndpointsTruncated));
    }
}
