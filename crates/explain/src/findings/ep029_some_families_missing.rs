//! The pod has an address of one of the Service's IP families only.

use std::fmt;
use std::net::IpAddr;

use kube_endpoint_core_model::{IpFamily, ObjectKey};
use serde::Serialize;

use crate::facts::remedy::Person::ServiceOwner;
use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::{PodFinding, any_of};
use crate::findings::rank::TrafficLost;

about! {
    /// A dual-stack Service has slices of both families. This pod is in those of one family, so
    /// clients that use the other family do not reach it.
    EP029 "some-families-missing" Warning
    "The pod has an address of one of the Service's IP families only."
}

/// A pod without addresses of all families of the Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SomeFamiliesMissing {
    /// The families that the Service asks for and the pod lacks.
    pub missing: Vec<IpFamily>,
    /// The addresses that the pod has.
    pub has: Vec<IpAddr>,
    /// True if the Service's first family, which never changes, is among the missing ones.
    pub first_is_missing: bool,
}

impl PodFinding for SomeFamiliesMissing {
    fn remedy(&self, _: &ObjectKey, _: &str) -> Remedy {
        let has = if self.has.iter().any(IpAddr::is_ipv4) { "IPv4" } else { "IPv6" };
        let or = if self.first_is_missing {
            format!("create the Service again with {has} alone, since its first family cannot be changed")
        } else {
            format!("make the Service single-stack: it then keeps {has}, its first family")
        };
        Remedy::ask(ServiceOwner, format!("Give all pods {} addresses, or {or}", any_of(&self.missing)))
    }

    fn group(&self) -> Option<String> {
        Some(format!("{:?}", self.missing))
    }

    fn receives_traffic(&self) -> bool {
        true
    }

    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }
}

impl fmt::Display for SomeFamiliesMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has: Vec<String> = self.has.iter().map(IpAddr::to_string).collect();
        write!(f, "the pod has no {} address, only {}", any_of(&self.missing), has.join(", "))
    }
}
