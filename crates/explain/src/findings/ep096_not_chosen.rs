//! The pod is ready, and the readiness of the EndpointSelector does not choose it.

use kube_endpoint_core_model::ObjectKey;

use crate::facts::remedy::Person::ServiceOwner;
use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::PodFinding;

pub(crate) use crate::models::leader::NotChosen;

about! {
    /// `spec.readiness` lets a Service follow a leader ([leader.md](leader.md)). The slices list
    /// the other pods as not ready, which is right as long as one pod is chosen.
    EP096 "not-chosen" Info
    "The pod is ready, and the readiness of the EndpointSelector does not choose it."
}

impl PodFinding for NotChosen {
    fn remedy(&self, _: &ObjectKey, _: &str) -> Remedy {
        Remedy::ask(ServiceOwner, self.advice())
    }

    fn is_consequence(&self) -> bool {
        true
    }
}
