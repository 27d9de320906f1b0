//! Counts the endpoints of a Service that receive traffic, by the models of its consumers, and
//! names the questions that stay open.

mod served;

use std::sync::Arc;

use kube_endpoint_core_model::slice::EndpointConditions;
use kube_endpoint_core_model::{AddressType, EndpointSlice, IpFamily, Service};
use serde::Serialize;

use crate::models::consumers::kube_proxy::{IgnoredSlice, ignores_slice};

pub use served::ServedBy;
pub(crate) use served::{Served, uses};

/// A question about a Service that stays open because a kind of object could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnansweredQuestion {
    /// Does it receive traffic?
    Traffic,
    /// Why does no endpoint receive traffic?
    NoTraffic,
    /// Why do some endpoints receive no traffic?
    LessTraffic,
    /// Should more endpoints receive traffic than those that do?
    MoreTraffic,
}

impl UnansweredQuestion {
    /// Returns true if the status of the Service depends on the answer.
    pub(crate) fn hides_status(self) -> bool {
        matches!(self, Self::Traffic | Self::MoreTraffic)
    }

    /// Returns the question as the subject of a sentence.
    pub(crate) fn subject(self) -> &'static str {
        match self {
            Self::Traffic => "whether the Service receives traffic",
            Self::NoTraffic => "why no endpoint receives traffic",
            Self::LessTraffic => "why some endpoints receive no traffic",
            Self::MoreTraffic => "whether more endpoints should receive traffic",
        }
    }
}

/// Returns true if kube-proxy uses an endpoint with these conditions while no endpoint is ready.
pub(crate) fn is_last_resort(conditions: EndpointConditions) -> bool {
    conditions.ready == Some(false)
        && conditions.serving != Some(false)
        && conditions.terminating == Some(true)
}

/// Returns true if slices say that the pod of an endpoint is being deleted.
pub(crate) fn is_deleted(conditions: EndpointConditions) -> bool {
    conditions.ready == Some(false) && conditions.terminating == Some(true)
}

pub(crate) fn is_ready(conditions: EndpointConditions) -> bool {
    conditions.ready != Some(false)
}

pub(crate) fn has_ready(slice: &EndpointSlice) -> bool {
    slice.endpoints.iter().any(|endpoint| is_ready(endpoint.conditions))
}

/// Returns true if some slice has a ready endpoint.
pub(crate) fn any_ready(slices: &[Arc<EndpointSlice>]) -> bool {
    slices.iter().any(|slice| has_ready(slice))
}

/// Returns true if kube-proxy ignores a slice because of its label.
pub(crate) fn is_labelled_headless(service: &Service, slice: &EndpointSlice) -> bool {
    // kube-proxy looks at the label before the family.
    ignores_slice(service, slice, IpFamily::IPv4) == Some(IgnoredSlice::Headless)
}

/// Returns true if the program that serves the Service uses addresses of a slice's type. DNS uses
/// all types.
pub(crate) fn has_family(service: &Service, slice: &EndpointSlice) -> bool {
    let has = |family: &IpFamily| AddressType::from(*family) == slice.address_type;
    ServedBy::of(service) != ServedBy::KubeProxy || service.slice_families().iter().any(has)
}

/// Returns true if an endpoint of one of the Service's families receives no traffic and is not
/// being deleted. Somebody may list endpoints of other families on purpose.
pub(crate) fn is_less_than_listed(service: &Service, served: &Served, slices: &[Arc<EndpointSlice>]) -> bool {
    slices.iter().filter(|slice| has_family(service, slice)).any(|slice| {
        let addresses_sent = served.endpoints_of(slice);
        slice.endpoints.iter().any(|endpoint| {
            let conditions = endpoint.conditions;
            if is_ready(conditions) {
                addresses_sent(endpoint) == 0
            } else {
                conditions.terminating != Some(true)
            }
        })
    })
}
