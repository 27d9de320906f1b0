//! The pod's address is not an IP address.

use crate::findings::pod_reason::PodFinding;
use serde::Serialize;
use kube_endpoint_core_model::Text;
use std::fmt;

about! {
    /// An entry of the pod's `status.podIPs` is not an IP address. The API server would refuse a
    /// slice that contains it.
    EP015 "invalid-address" Error
    "The pod's address is not an IP address."
}

/// A pod whose address is no IP address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct InvalidAddress {
    /// The text in place of the address.
    pub address: Text,
}

impl PodFinding for InvalidAddress {
    fn group(&self) -> Option<String> {
        Some(String::new())
    }
}

impl fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the pod's address {:?} is not an IP address", self.address)
    }
}
