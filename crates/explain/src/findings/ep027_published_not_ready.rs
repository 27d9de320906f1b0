//! The pod is not ready, and the Service publishes it nevertheless.

use crate::facts::details::write_optional_time;
use crate::findings::pod::Publication;
use crate::findings::prelude::*;

about! {
    /// `spec.publishNotReadyAddresses` makes slices and Endpoints list the pod as ready. Peers of a
    /// StatefulSet often need that; other clients may reach a pod that does not answer. It is only
    /// information if the containers of the pod run. If they do not, or the node is not ready, that
    /// reason (EP020, EP021) comes first. A pod whose containers do not run answers nobody, so it
    /// does not count as receiving traffic.
    EP027 "published-not-ready" Info
    "The pod is not ready, and the Service publishes it nevertheless."
}

/// A pod that is published although it is not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PublishedNotReady {
    /// Since when the pod is not ready.
    #[serde(serialize_with = "write_optional_time")]
    pub since: Option<Timestamp>,
}

impl PodFinding for PublishedNotReady {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let is_published = pod.publication() == Publication::Ready && !pod.is_serving();
        (is_published && !pod.pod.is_ready()).then(|| Self { since: pod.not_ready_since() })
    }

    fn message(_: &[&Self]) -> String {
        "the pod is not ready, and publishNotReadyAddresses publishes it nevertheless".to_owned()
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        vec![pod.of_service.service(".spec.publishNotReadyAddresses", true), pod.condition("Ready")]
    }

    fn remedy(_: &[&Self], _: &PodsOf<'_>) -> Remedy {
        Remedy::ask(ServiceOwner, "Nothing, if clients expect that; else unset publishNotReadyAddresses")
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }

    fn receives_traffic(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_service_publishes_pods_that_are_not_ready_only_if_it_says_so() {
        let published = example("ep027-published-not-ready");
        assert!(published.finds(Code::PublishedNotReady));
        let not = json!({"spec": {"publishNotReadyAddresses": false}});
        assert!(!published.with("Service/web", not).finds(Code::PublishedNotReady));
    }
}
