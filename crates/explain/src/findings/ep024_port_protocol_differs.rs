//! The pod has a container port of that name, but with another protocol.

use std::fmt;

use kube_endpoint_core_model::ObjectKey;
use serde::Serialize;

use crate::facts::remedy::Person::ServiceOwner;
use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::{NamedPort, PodFinding};

about! {
    /// A container port has the name that the Service asks for. The controllers look a port up by
    /// name and protocol, so it does not count.
    EP024 "port-protocol-differs" Error
    "The pod has a container port of that name, but with another protocol."
}

/// A container port with the name and another protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortProtocolDiffers {
    /// The port that the Service asks for.
    pub wanted: NamedPort,
    /// The port of that name that the pod has.
    pub has: NamedPort,
}

impl PodFinding for PortProtocolDiffers {
    fn remedy(&self, _: &ObjectKey, _: &str) -> Remedy {
        let Self { wanted, has } = self;
        let sentence = format!(
            "Set the protocol of the Service's port to {}, or that of the container port {:?} to {}",
            has.protocol, wanted.name, wanted.protocol
        );
        Remedy::ask(ServiceOwner, sentence)
    }
}

impl fmt::Display for PortProtocolDiffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, has } = self;
        write!(
            f,
            "the container port {} is {}, and the Service asks for {}",
            wanted.name, has.protocol, wanted.protocol
        )
    }
}
