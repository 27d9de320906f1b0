//! One pod of a Service: its verdict by the plans, the first reason against it, and the slices that
//! hold it.

mod status;

use crate::facts::details::{PodDetails, RecentEvent};
use crate::facts::remedy::Remedy;
use crate::findings::code::Severity;
use crate::findings::finding::{Found, Problem};
use crate::findings::pod_reason::{DeadPort, NamedPort, Together};
use crate::findings::{
    Code, InvalidAddress, NoAddressOfFamily, NoServicePorts, NodeNotFound, OverCapacity, PodReason,
    PodTerminating, PortNameNotFound, PortProtocolDiffers, PublishedNotReady, SomeFamiliesMissing,
    SomePortsNotFound,
};
use crate::models::hint::HintReason;
use crate::models::leader::Leads;
use std::collections::BTreeSet;
use std::net::IpAddr;

use kube_endpoint_core_model::service::{ServicePort, TargetPort};
use kube_endpoint_core_model::{LeftOut, Node, ObjectKey, Pod, Service, Text, Timestamp, Verdict, address};
use serde::{Serialize, Serializer};

/// The state of a pod for a Service's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Publication {
    /// It receives traffic.
    Ready,
    /// Slices list it, but it receives no new traffic.
    NotReady,
    /// Slices do not list it, or under no port of the Service.
    LeftOut,
}

/// One pod of a Service.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PodExplanation {
    /// The Service that selects it, in the pod's namespace. It is not serialised: what contains
    /// this names it.
    pub service: ObjectKey,
    pub name: Text,
    pub addresses: Vec<IpAddr>,
    pub node: Option<Text>,
    pub ports: Vec<NamedPort>,
    /// The desired state of the pod for clients.
    pub publication: Publication,
    /// The first reason why it receives no traffic, or not all of it, or `None` if nothing is
    /// wrong.
    pub reason: Option<PodReason>,
    /// The slices that hold it now.
    pub places: Vec<Place>,
    /// True if somebody has deleted it, and it has not gone yet.
    pub(crate) is_deleted: bool,
    /// True if none of its containers runs, so that nothing answers at its address.
    pub(crate) runs_nothing: bool,
    /// True if it is known that no other pod of the Service takes its place.
    pub(crate) is_alone: bool,
}

impl PodExplanation {
    /// Returns true if a slice that the Service uses holds one of its addresses as ready.
    pub fn is_held_as_ready(&self) -> bool {
        self.places.iter().any(|place| place.used && place.ready && self.owns(&place.addresses))
    }

    /// Returns true if some client is sent to the pod.
    pub fn is_sent_traffic(&self) -> bool {
        self.places.iter().any(|place| self.owns(place.sent()))
    }

    /// Returns true if the pod receives traffic although it is being deleted: no endpoint is ready,
    /// or its slice does not show the deletion yet. It still answers.
    pub fn is_last_resort(&self) -> bool {
        let is_up = |place: &Place| place.last_resort || (place.ready && self.is_ending_and_serving());
        self.publication == Publication::NotReady
            && self.places.iter().any(|place| is_up(place) && self.owns(place.sent()))
    }

    /// Returns true if the pod is being deleted and still answers requests.
    pub(crate) fn is_ending_and_serving(&self) -> bool {
        matches!(self.reason, Some(PodReason::PodTerminating(PodTerminating { serving: true, .. })))
    }

    /// Returns true if one of these addresses is the pod's.
    fn owns(&self, addresses: &[Text]) -> bool {
        let is_own = |held: std::net::IpAddr| self.addresses.contains(&held);
        addresses.iter().any(|text| address::parse_sloppy(text).is_some_and(is_own))
    }

    /// Returns the remedy of the reason.
    pub fn remedy(&self) -> Option<Remedy> {
        let remedy = |reason| Together(vec![reason]).remedy(&self.service, &self.name, self.is_alone);
        self.reason.as_ref().map(remedy)
    }

    /// Returns true if `publishNotReadyAddresses` publishes the pod although something keeps it
    /// from answering, which is its reason.
    pub(crate) fn is_published_broken(&self) -> bool {
        self.publication == Publication::Ready
            && self.reason.as_ref().is_some_and(PodReason::keeps_from_answering)
    }

    /// Returns the code of the reason, or [`Code::Published`].
    pub fn code(&self) -> Code {
        self.reason.as_ref().map_or(Code::Published, Problem::code)
    }

    /// Returns the severity of the reason.
    pub fn severity(&self) -> Severity {
        self.reason.as_ref().map_or(Severity::Info, Problem::severity)
    }
}

/// The serialised form of a pod.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Serialised<'a> {
    name: &'a Text,
    addresses: &'a [IpAddr],
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a Text>,
    ports: &'a [NamedPort],
    publication: Publication,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<Found<'a, PodReason>>,
    places: &'a [Place],
}

impl Serialize for PodExplanation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Serialised {
            name: &self.name,
            addresses: &self.addresses,
            node: self.node.as_ref(),
            ports: &self.ports,
            publication: self.publication,
            reason: self
                .reason
                .as_ref()
                .zip(self.remedy())
                .map(|(reason, remedy)| Found::new(reason, remedy)),
            places: &self.places,
        }
        .serialize(serializer)
    }
}

/// The endpoint of a pod in a slice.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Place {
    pub slice: Text,
    pub addresses: Vec<Text>,
    /// True if the Service uses the slice. kube-proxy ignores slices without any of the Service's
    /// ports, those of an IP family that the Service does not have, and those with the label of
    /// headless Services. A headless Service uses all slices.
    pub used: bool,
    /// True if kube-proxy or DNS sends some client to the endpoint.
    pub receives: bool,
    /// How many of its addresses, from the first on, clients use: kube-proxy reads one, DNS all.
    #[serde(skip)]
    pub(crate) sent: usize,
    pub ready: bool,
    /// True if it is terminating and still serving: clients use it while no endpoint is ready.
    pub last_resort: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Text>,
    /// The zones whose clients should use it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_zones: Vec<Text>,
    /// The nodes whose clients should use it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub for_nodes: Vec<Text>,
    /// The reason why it has these hints, or no hints.
    pub hint: HintReason,
}

impl Place {
    fn sent(&self) -> &[Text] {
        self.addresses.get(..self.sent).unwrap_or_default()
    }
}

/// The inputs of the reason of a pod.
pub(crate) struct Judged<'a> {
    pub(crate) service: &'a Service,
    pub(crate) pod: &'a Pod,
    pub(crate) details: Option<&'a PodDetails>,
    /// The known warnings about the pod.
    pub(crate) events: &'a [RecentEvent],
    pub(crate) node: Option<&'a Node>,
    /// The verdict of the plan for slices.
    pub(crate) in_slices: &'a Verdict,
    /// The verdict of the plan for Endpoints.
    pub(crate) in_endpoints: Option<&'a Verdict>,
    /// The named ports that pods of the Service have.
    pub(crate) ports_of_pods: &'a PortNames<'a>,
    /// The pods that an EndpointSelector chooses.
    pub(crate) leads: Option<&'a Leads>,
    pub(crate) now: Timestamp,
}

/// Names and protocols of container ports.
pub(crate) type PortNames<'a> = BTreeSet<(&'a str, &'a str)>;

impl Judged<'_> {
    /// Returns the state of the pod for clients, and the first reason against it.
    pub(crate) fn judge(&self) -> (Publication, Option<PodReason>) {
        match self.in_slices {
            Verdict::LeftOut(reason) => (Publication::LeftOut, Some(self.left_out(reason))),
            Verdict::Published { ready, serving, terminating, missing_ports } => {
                if let Some(reason) = self.ports_not_found(missing_ports) {
                    // DNS lists a pod whatever its ports are.
                    let all = reason.code() != Code::SomePortsNotFound && !self.service.is_headless();
                    let publication = match (all, ready) {
                        (true, _) => Publication::LeftOut,
                        (false, true) => Publication::Ready,
                        (false, false) => Publication::NotReady,
                    };
                    if all || *ready {
                        return (publication, Some(reason));
                    }
                }
                if self.service.ports.is_empty() && !self.service.is_headless() {
                    return (Publication::LeftOut, Some(PodReason::NoServicePorts(NoServicePorts {})));
                }
                if !ready
                    && self.pod.is_ready()
                    && !*terminating
                    && let Some(leads) = self.leads
                {
                    return (Publication::NotReady, Some(PodReason::NotChosen(leads.against(self.pod))));
                }
                if !ready {
                    return (Publication::NotReady, Some(self.not_ready(*serving, *terminating)));
                }
                if let Some(broken) = self.broken(*serving, *terminating) {
                    return (Publication::Ready, Some(broken));
                }
                let families = self.service.ip_families.iter();
                let missing = families.filter(|family| self.pod.addresses(**family).next().is_none());
                let missing: Vec<_> = missing.copied().collect();
                let reason = if !missing.is_empty() {
                    let first = self.service.ip_families.first();
                    let first_is_missing = first.is_some_and(|first| missing.contains(first));
                    let has = self.pod.pod_ips.to_vec();
                    Some(PodReason::SomeFamiliesMissing(SomeFamiliesMissing {
                        missing,
                        has,
                        first_is_missing,
                    }))
                } else if !serving && !self.pod.is_ready() {
                    Some(PodReason::PublishedNotReady(PublishedNotReady { since: self.not_ready_since() }))
                } else if matches!(self.in_endpoints, Some(Verdict::LeftOut(LeftOut::OverCapacity))) {
                    Some(PodReason::OverCapacity(OverCapacity {}))
                } else {
                    None
                };
                (Publication::Ready, reason)
            }
        }
    }

    fn left_out(&self, reason: &LeftOut) -> PodReason {
        match reason {
            LeftOut::Terminal => self.finished(),
            LeftOut::NoAddress => self.no_address(),
            LeftOut::Terminating => self.terminating(self.pod.is_ready()),
            LeftOut::NodeNotFound { node } if node.is_empty() => self.not_scheduled(),
            LeftOut::NodeNotFound { node } => {
                PodReason::NodeNotFound(NodeNotFound { node: node.clone(), owner: self.pod.owner })
            }
            LeftOut::InvalidAddress { address } => {
                PodReason::InvalidAddress(InvalidAddress { address: address.clone() })
            }
            LeftOut::NoAddressOfFamily { family } => PodReason::NoAddressOfFamily(NoAddressOfFamily {
                family: *family,
                has: self.pod.pod_ips.to_vec(),
            }),
            LeftOut::OverCapacity => PodReason::OverCapacity(OverCapacity {}),
            // The plan for slices has no such verdict: it names the missing ports.
            _ => self.no_port_named(self.wanted(|_| true)),
        }
    }

    /// Returns the reason of a pod that lacks ports of the Service. `missing` are their names from
    /// the plan.
    fn ports_not_found(&self, missing: &[Text]) -> Option<PodReason> {
        if missing.is_empty() {
            return None;
        }
        let wanted = self.wanted(|port| missing.contains(&port.name));
        let has = ports_of(self.pod);
        if missing.len() < self.service.ports.len() {
            let elsewhere = self.others_have(&wanted);
            let (dead, free) = (self.dead_ports(missing), self.free_ports());
            return Some(PodReason::SomePortsNotFound(SomePortsNotFound {
                wanted,
                has,
                elsewhere,
                dead,
                free,
            }));
        }
        let other = wanted.iter().find_map(|wanted| {
            let same_name = has.iter().find(|port| port.name == wanted.name)?;
            Some(PodReason::PortProtocolDiffers(PortProtocolDiffers {
                wanted: wanted.clone(),
                has: same_name.clone(),
            }))
        });
        Some(other.unwrap_or_else(|| self.no_port_named(wanted)))
    }

    /// Returns those of the missing ports that no pod has.
    fn dead_ports(&self, missing: &[Text]) -> Vec<DeadPort> {
        let missing = self.service.ports.iter().filter(|port| missing.contains(&port.name));
        let dead = missing.filter_map(|port| match &port.target_port {
            TargetPort::Name(target) if !self.ports_of_pods.contains(&(&**target, &*port.protocol)) => {
                Some(DeadPort { port: port.port, name: port.name.clone(), target: target.clone() })
            }
            _ => None,
        });
        dead.collect()
    }

    /// Returns the names of the pod's ports to which no port of the Service leads.
    fn free_ports(&self) -> Vec<Text> {
        let is_used = |one: &&kube_endpoint_core_model::pod::ContainerPort| {
            self.service.ports.iter().any(|port| match &port.target_port {
                TargetPort::Name(name) => *name == one.name,
                TargetPort::Number(number) => *number == one.container_port,
            })
        };
        let free = self.pod.ports.iter().filter(|one| !one.name.is_empty() && !is_used(one));
        free.map(|one| one.name.clone()).collect()
    }

    fn no_port_named(&self, wanted: Vec<NamedPort>) -> PodReason {
        PodReason::PortNameNotFound(PortNameNotFound {
            elsewhere: self.others_have(&wanted),
            has: ports_of(self.pod),
            only_dns: self.service.is_headless(),
            wanted,
        })
    }

    /// Returns true if other pods of the Service have one of these ports, which this pod lacks.
    fn others_have(&self, wanted: &[NamedPort]) -> bool {
        wanted.iter().any(|port| self.ports_of_pods.contains(&(&*port.name, &*port.protocol)))
    }

    /// Returns the ports that the Service asks for by name.
    fn wanted(&self, mut filter: impl FnMut(&ServicePort) -> bool) -> Vec<NamedPort> {
        let ports = self.service.ports.iter().filter(|port| filter(port));
        let named = ports.filter_map(|port| match &port.target_port {
            TargetPort::Name(name) => {
                Some(NamedPort { name: name.clone(), protocol: port.protocol.clone(), port: None })
            }
            TargetPort::Number(_) => None,
        });
        named.collect()
    }
}

/// Returns the named ports of a pod.
pub(crate) fn ports_of(pod: &Pod) -> Vec<NamedPort> {
    let port = |port: &kube_endpoint_core_model::pod::ContainerPort| NamedPort {
        name: port.name.clone(),
        protocol: port.protocol.clone(),
        port: Some(port.container_port),
    };
    pod.ports.iter().filter(|port| !port.name.is_empty()).map(port).collect()
}
