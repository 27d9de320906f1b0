//! The pod is not ready, and the Service publishes it nevertheless.

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use serde::Serialize;

use crate::facts::details::write_optional_time;
use crate::facts::remedy::Person::ServiceOwner;
use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::PodFinding;

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
    fn remedy(&self, _: &ObjectKey, _: &str) -> Remedy {
        Remedy::ask(ServiceOwner, "Nothing, if clients expect that; else unset publishNotReadyAddresses")
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }

    fn receives_traffic(&self) -> bool {
        true
    }
}

impl fmt::Display for PublishedNotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the pod is not ready, and publishNotReadyAddresses publishes it nevertheless")
    }
}
