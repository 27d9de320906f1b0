//! The pod should receive traffic, and no slice that the Service uses holds it as ready.

use kube_endpoint_core_model::well_known::LABEL_SERVICE_NAME;

use crate::findings::prelude::*;

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
    fn find(pod: &Judged<'_>) -> Option<Self> {
        pod.is_due.then_some(Self {})
    }

    fn message(_: &[&Self]) -> String {
        "the pod should receive traffic, and no slice that the Service uses holds it as ready".to_owned()
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        std::iter::once(pod.condition("Ready")).chain(pod.of_service.slices()).collect()
    }

    fn remedy(_: &[&Self], PodsOf { service, .. }: &PodsOf<'_>) -> Remedy {
        let selector = format!("{LABEL_SERVICE_NAME}={}", service.name);
        let slices = Step::kubectl_in(&service.namespace, ["get", "endpointslices", "-l", &selector]);
        Remedy::new("Look at what the explanation says about the slices of the Service").shown_by([slices])
    }

    fn is_consequence(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_pod_is_written_once_a_controller_runs() {
        let unserved = example("ep028-not-written");
        assert!(unserved.finds(Code::NotWritten));
        assert!(!unserved.served().finds(Code::NotWritten));
    }
}
