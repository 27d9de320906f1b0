//! The pod has no address of the Service's IP family.

use crate::findings::pod_reason::PodFinding;
use serde::Serialize;
use kube_endpoint_core_model::IpFamily;
use std::net::IpAddr;
use std::fmt;

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
