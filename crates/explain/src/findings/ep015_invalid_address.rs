//! The pod's address is not an IP address.

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Text};
use serde::Serialize;

use crate::facts::remedy::Person::ClusterAdministrator;
use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::PodFinding;

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
    fn remedy(&self, _: &ObjectKey, _: &str) -> Remedy {
        let sentence = "Correct what writes the pod's status: the kubelet or the network plugin";
        Remedy::ask(ClusterAdministrator, sentence)
    }

    fn group(&self) -> Option<String> {
        Some(String::new())
    }
}

impl fmt::Display for InvalidAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the pod's address {:?} is not an IP address", self.address)
    }
}
