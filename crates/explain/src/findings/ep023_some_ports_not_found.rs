//! The pod lacks some of the container ports that the Service asks for.

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Service, Text};
use serde::Serialize;

use crate::facts::remedy::Person::ServiceOwner;
use crate::facts::remedy::{Remedy, Step};
use crate::findings::code::Severity;
use crate::findings::pod_reason::{DeadPort, NamedPort, PodFinding, list, name_port, not_found, patch_ports};
use crate::findings::rank::TrafficLost;

about! {
    /// The Service has several ports, and the pod has only some of them. It receives traffic at
    /// these, and the controller lists it in a slice for this set of ports. It is an error if no
    /// pod has a port: clients of this port get no answer.
    EP023 "some-ports-not-found" Warning
    "The pod lacks some of the container ports that the Service asks for."
}

/// A pod that lacks some of the ports that the Service asks for by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SomePortsNotFound {
    /// The ports that the Service asks for and the pod lacks.
    pub wanted: Vec<NamedPort>,
    /// The named ports that the pod has.
    pub has: Vec<NamedPort>,
    /// True if other pods of the Service have one of the wanted ports.
    pub elsewhere: bool,
    /// The ports of the Service that no pod has.
    pub dead: Vec<DeadPort>,
    /// The names of ports of the pod to which no port of the Service leads.
    pub free: Vec<Text>,
}

impl PodFinding for SomePortsNotFound {
    fn remedy(&self, _: &ObjectKey, _: &str) -> Remedy {
        Remedy::ask(ServiceOwner, name_port(&self.wanted, &self.has, self.elsewhere, Some(&self.free)))
    }

    fn severity(&self) -> Option<Severity> {
        (!self.dead.is_empty()).then_some(Severity::Error)
    }

    fn receives_traffic(&self) -> bool {
        true
    }

    fn patch(&self, service: &Service) -> Option<Step> {
        patch_ports(service, &self.wanted, &self.has)
    }

    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }
}

impl fmt::Display for SomePortsNotFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { wanted, has, elsewhere, dead, .. } = self;
        if dead.is_empty() {
            return not_found(f, wanted, has, *elsewhere);
        }
        let ports: Vec<String> = dead.iter().map(DeadPort::to_string).collect();
        let targets: Vec<String> = dead.iter().map(|port| format!("{:?}", port.target)).collect();
        let (word, have) = if dead.len() == 1 { ("port", "has") } else { ("ports", "have") };
        write!(
            f,
            "{word} {} of the Service {have} no endpoint: no pod has a container port named {}; the pod has {}",
            ports.join(" and "),
            targets.join(" or "),
            list(has)
        )
    }
}
