//! No endpoint written for the Service has the port that the Service asks for.

use kube_endpoint_core_model::service::ServicePort;
use kube_endpoint_core_model::{AddressType, IpFamily};

use super::words::{ports, the_port};
use super::{NotKnown, SliceUnused, UnusedSlice};
use crate::findings::inputs::{PortsOfFamily, asked_for, other_ports};
use crate::findings::pod_reason::NamedPort;
use crate::findings::prelude::*;
use crate::findings::words::capital;
use crate::models::traffic::UnansweredQuestion;

about! {
    /// The Service has no selector. kube-proxy matches the ports of a slice with those of the
    /// Service by name and protocol; a port without a name matches a port without a name, and it
    /// ignores ports without a number. Mirrored slices have the port names of the Endpoints. If
    /// endpoints have some of the Service's ports, or those of one IP family have them, the
    /// severity is warning. [EP050](#ep050-slices-behind) reports ports of the Endpoints that their
    /// mirrored slices lack.
    EP045 "endpoint-ports-differ" Error
    "No endpoint written for the Service has the port that the Service asks for."
}

/// Ports of a Service that the endpoints written for it lack.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointPortsDiffer {
    /// The ports of the Service that no ready endpoint has.
    pub wanted: Vec<NamedPort>,
    /// The ports of ready endpoints that the Service does not have, or that have no number; each
    /// name and protocol once.
    pub has: Vec<NamedPort>,
    /// The IP family whose endpoints lack the ports, or `None` if there are no ready endpoints of
    /// other families, or they lack the ports, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<IpFamily>,
    /// True if no endpoint has any port of the Service.
    pub none_is_left: bool,
}

impl Finding for EndpointPortsDiffer {
    /// Tells which ports all families lack, and which further ones each of them lacks.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let Some(held) = inputs.mismatched_endpoints() else { return Vec::new() };
        let (wanted, families) = (&inputs.service.ports, held.families.as_slice());
        let only = match families {
            [] => return Vec::new(),
            // There are endpoints of other types, too.
            [one] if held.types.len() > 1 => Some(one.family),
            _ => None,
        };
        let lacked_by_all = |port: &ServicePort| families.iter().all(|held| held.lacks(port));
        let lacked = |family, families: &[PortsOfFamily], lacks: &dyn Fn(&ServicePort) -> bool| {
            let lacking: Vec<NamedPort> = wanted.iter().filter(|port| lacks(port)).map(asked_for).collect();
            let is_found = !lacking.is_empty();
            is_found.then(|| Self {
                wanted: lacking,
                has: other_ports(families.iter().flat_map(|held| &held.ports), wanted),
                family,
                none_is_left: wanted.iter().all(lacked_by_all),
            })
        };
        let of_all = lacked(only, families, &lacked_by_all);
        let of_one = |held: &PortsOfFamily| {
            let lacks = |port: &ServicePort| held.lacks(port) && !lacked_by_all(port);
            lacked(Some(held.family), std::slice::from_ref(held), &lacks)
        };
        of_all.into_iter().chain(families.iter().filter_map(of_one)).collect()
    }

    fn severity(&self) -> Option<Severity> {
        (!self.none_is_left).then_some(Severity::Warning)
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        std::iter::once(read.ports()).chain(read.ports_of_slices()).collect()
    }

    fn remedy(&self, _: &ObjectKey) -> Remedy {
        Remedy::ask(EndpointsWriter, self.how_to_agree())
    }

    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::Some
    }

    /// The slices show why no endpoint receives traffic, and each of them lacks the ports.
    fn explains(&self, other: &Fault) -> bool {
        match other {
            Fault::NotKnown(NotKnown { open, .. }) => *open == UnansweredQuestion::NoTraffic,
            Fault::SliceUnused(SliceUnused { cause: UnusedSlice::Ports { .. }, address_type, .. }) => {
                self.family.is_none_or(|family| AddressType::from(family) == *address_type)
            }
            _ => false,
        }
    }
}

impl fmt::Display for EndpointPortsDiffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoint = self.endpoint();
        match self.wanted.as_slice() {
            [one] => write!(f, "no ready {endpoint} has {} of the Service", the_port(one))?,
            [first @ .., last] => {
                let first: Vec<String> = first.iter().map(the_port).collect();
                let (first, last) = (first.join(", "), the_port(last));
                write!(f, "ready {endpoint}s have neither {first} nor {last} of the Service")?;
            }
            [] => {}
        }
        let they = if self.wanted.len() == 1 { format!("{endpoint}s") } else { "they".to_owned() };
        let (numbered, unnumbered): (Vec<NamedPort>, Vec<NamedPort>) =
            self.has.iter().cloned().partition(|port| port.port.is_some());
        let (listed, without) = (ports(&numbered, the_port), ports(&unnumbered, the_port));
        match (numbered.is_empty(), unnumbered.is_empty()) {
            (true, true) if self.none_is_left => write!(f, ": {they} have no ports"),
            (true, true) => Ok(()),
            (false, true) => write!(f, ": {they} have {listed}, and ports are matched by name and protocol"),
            (true, false) => write!(f, ": {they} have {without}, but without a number"),
            (false, false) => write!(f, ": {they} have {listed}, and without a number {without}"),
        }
    }
}

impl EndpointPortsDiffer {
    /// Returns the word for an endpoint of the family, or of any.
    fn endpoint(&self) -> String {
        self.family.map_or_else(|| "endpoint".to_owned(), |family| format!("{family:?} endpoint"))
    }

    /// Says how to make the ports of the Service and of its endpoints agree. Endpoints of another
    /// family may have the ports of the Service already.
    fn how_to_agree(&self) -> String {
        let endpoints = format!("the {}s", self.endpoint());
        let mut steps = Vec::new();
        let mut missing = Vec::new();
        for one in &self.wanted {
            let is_same = |held: &&NamedPort| (&held.name, &held.protocol) == (&one.name, &one.protocol);
            let same = self.has.iter().find(is_same);
            let same_name = self.has.iter().find(|held| held.name == one.name && held.port.is_some());
            match (same, same_name) {
                (Some(same), _) => {
                    steps.push(format!("set the number of {} of {endpoints}", the_port(same)));
                }
                (None, Some(other)) => {
                    let port = the_port(other);
                    steps.push(format!("set the protocol of {port} of {endpoints} to {}", one.protocol));
                }
                (None, None) => missing.push(one.clone()),
            }
        }
        if !missing.is_empty() {
            steps.push(self.how_to_add(&missing));
        }
        capital(&steps.join(", and "))
    }

    /// Says how to add missing ports to endpoints. If one port is missing and one is left over, a
    /// user can rename one of the two.
    fn how_to_add(&self, missing: &[NamedPort]) -> String {
        let endpoints = format!("the {}s", self.endpoint());
        let give = format!("give {endpoints} {}", ports(missing, a_port));
        let ([one], [_], [other]) = (missing, &*self.wanted, &*self.has) else { return give };
        let is_other_name = one.protocol == other.protocol;
        let endpoints = if one.name.is_empty() && is_other_name {
            format!("remove the name from the port of {endpoints}")
        } else {
            give
        };
        if self.family.is_some() {
            return endpoints;
        }
        match (other.name.is_empty(), self.none_is_left) {
            // A Service with several ports must name them.
            (true, false) => endpoints,
            (true, true) if is_other_name => {
                format!("{endpoints}, or remove the name from that of the Service")
            }
            _ if other.port.is_none() => endpoints,
            _ => format!("{endpoints}, or give the Service {}", a_port(other)),
        }
    }
}

fn a_port(port: &NamedPort) -> String {
    match &*port.name {
        "" => format!("a port without a name ({})", port.protocol),
        _ => the_port(port),
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_port_without_a_name_matches_one_without_a_name() {
        let named = example("ep045-endpoint-ports-differ");
        assert!(named.finds(Code::EndpointPortsDiffer));
        let subsets =
            json!([{"addresses": [{"ip": "10.9.0.1"}], "ports": [{"port": 8080, "protocol": "TCP"}]}]);
        let unnamed = named.with("Endpoints/web", json!({"subsets": subsets}));
        assert!(!unnamed.finds(Code::EndpointPortsDiffer));
    }

    #[test]
    fn it_explains_the_slices_that_are_not_used() {
        let all = example("ep045-endpoint-ports-differ");
        assert!(all.finds(Code::EndpointPortsDiffer) && !all.finds(Code::SliceUnused));
        let one = example("ep062-slice-unused");
        assert!(one.finds(Code::SliceUnused) && !one.finds(Code::EndpointPortsDiffer));
    }
}
