//! The pod has no Ready condition.

use crate::findings::prelude::*;

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
    fn find(pod: &Judged<'_>) -> Option<Self> {
        (pod.is_unready() && pod.pod.ready.is_none()).then_some(Self {})
    }

    fn message(_: &[&Self]) -> String {
        "the pod has no Ready condition: no kubelet has reported on it".to_owned()
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        vec![pod.condition("Ready")]
    }

    fn remedy(_: &[&Self], _: &PodsOf<'_>) -> Remedy {
        let sentence = "Look at the kubelet of the pod's node, or at who writes the pod's status";
        Remedy::ask(ClusterAdministrator, sentence)
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_condition_that_is_unknown_is_a_condition() {
        assert_eq!(code_of(with_conditions(&[])), Code::ReadinessUnknown);
        assert_eq!(code_of(with_conditions(&[("Ready", "Unknown")])), Code::NotReady);
    }
}
