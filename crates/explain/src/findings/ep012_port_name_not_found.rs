//! The pod has no container port with a name that the Service asks for.

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Service};
use serde::Serialize;

use crate::facts::remedy::Person::ServiceOwner;
use crate::facts::remedy::{Remedy, Step};
use crate::findings::code::Severity;
use crate::findings::pod_reason::{NamedPort, PodFinding, name_port, not_found, patch_ports};

about! {
    /// The Service's targetPort is a name, and no container port of the pod has this name. The
    /// EndpointSlice controller still lists the pod, in a slice without ports, which kube-proxy
    /// ignores. DNS lists the pod of a headless Service, without the port, so the severity is
    /// warning there. The Endpoints object leaves it out.
    ///
    /// If other pods of the Service have the name, the remedy does not change the Service: with
    /// another name or a number they would lose their clients, or this pod would get clients that
    /// it does not serve.
    EP012 "port-name-not-found" Error
    "The pod has no container port with a name that the Service asks for."
}

/// A pod that has none of the ports that the Service asks for by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PortNameNotFound {
    /// The ports that the Service asks for by name.
    pub wanted: Vec<NamedPort>,
    /// The named ports that the pod has.
    pub has: Vec<NamedPort>,
    /// True if other pods of the Service have one of the wanted ports.
    pub elsewhere: bool,
    /// True if the Service is headless: DNS lists the pod, whatever its ports are.
    pub only_dns: bool,
}

impl PodFinding for PortNameNotFound {
    fn remedy(&self, _: &ObjectKey, _: &str) -> Remedy {
        Remedy::ask(ServiceOwner, name_port(&self.wanted, &self.has, self.elsewhere, None))
    }

    /// DNS has the pod's address, and only questions for the port go without an answer.
    fn severity(&self) -> Option<Severity> {
        self.only_dns.then_some(Severity::Warning)
    }

    fn patch(&self, service: &Service) -> Option<Step> {
        patch_ports(service, &self.wanted, &self.has)
    }
}

impl fmt::Display for PortNameNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        not_found(f, &self.wanted, &self.has, self.elsewhere)?;
        f.write_str(if self.only_dns { "; DNS answers with its address, without this port" } else { "" })
    }
}
