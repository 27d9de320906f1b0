//! The pod is ready, and the readiness of the EndpointSelector does not choose it.

use crate::findings::prelude::*;

pub(crate) use crate::models::leader::NotChosen;

about! {
    /// `spec.readiness` lets a Service follow a leader ([leader.md](leader.md)). The slices list
    /// the other pods as not ready, which is right as long as one pod is chosen. A Service of the
    /// followers lists the leader so.
    EP096 "not-chosen" Info
    "The pod is ready, and the readiness of the EndpointSelector does not choose it."
}

impl PodFinding for NotChosen {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        Some(pod.leads.filter(|_| pod.is_unready() && pod.pod.is_ready())?.against(pod.pod))
    }

    fn message(all: &[&Self]) -> String {
        all.first().map(ToString::to_string).unwrap_or_default()
    }

    fn remedy(all: &[&Self], _: &PodsOf<'_>) -> Remedy {
        all.first().map(|first| Remedy::ask(ServiceOwner, first.advice())).unwrap_or_default()
    }

    fn is_consequence(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_pod_that_is_not_ready_has_its_own_reason() {
        let follower = example("ep096-not-chosen");
        assert!(follower.finds(Code::NotChosen));
        let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let unready = follower.with("Pod/web-1", not_ready.clone()).with("Pod/web-2", not_ready);
        assert!(!unready.finds(Code::NotChosen));
    }
}
