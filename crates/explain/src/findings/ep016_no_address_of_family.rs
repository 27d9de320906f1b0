//! The pod has no address of the Service's IP family.

use std::fmt;
use std::net::IpAddr;

use kube_endpoint_core_model::{IpFamily, ObjectKey};
use serde::Serialize;

use crate::facts::remedy::Person::ServiceOwner;
use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::PodFinding;

about! {
    /// A slice has addresses of one IP family. The Service asks for a family in which the pod has
    /// no address. A Service cannot change its first family; create it again.
    EP016 "no-address-of-family" Error
    "The pod has no address of the Service's IP family."
}

/// A pod without an address of the Service's family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoAddressOfFamily {
    /// The family that the Service asks for.
    pub family: IpFamily,
    /// The addresses that the pod has.
    pub has: Vec<IpAddr>,
}

impl PodFinding for NoAddressOfFamily {
    fn remedy(&self, _: &ObjectKey, _: &str) -> Remedy {
        let sentence = format!(
            "Give pods {:?} addresses (dual-stack network), or create the Service with a family that they have",
            self.family
        );
        Remedy::ask(ServiceOwner, sentence)
    }

    fn group(&self) -> Option<String> {
        Some(format!("{:?}", self.family))
    }
}

impl fmt::Display for NoAddressOfFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has: Vec<String> = self.has.iter().map(IpAddr::to_string).collect();
        write!(f, "the pod has no {:?} address, only {}", self.family, has.join(", "))
    }
}
