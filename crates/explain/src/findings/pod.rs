//! One pod of a Service: its verdict by the plans, the first reason against it, and the slices that
//! hold it.

mod containers;
mod failed;
mod judged;

use std::net::IpAddr;

use kube_endpoint_core_model::pod::ContainerPort;
use kube_endpoint_core_model::{ObjectKey, Pod, Text, address};
use serde::{Serialize, Serializer};

use crate::facts::remedy::Remedy;
use crate::findings::code::Severity;
use crate::findings::evidence::Evidence;
use crate::findings::finding::{Found, Problem};
use crate::findings::pod_reason::{NamedPort, PodsOf};
use crate::findings::{Code, PodReason, PodTerminating};
use crate::models::hint::HintReason;

pub(in crate::findings) use containers::{Cause, WAITS, called, restarted};
pub(in crate::findings) use failed::was_stopped;
pub(crate) use failed::{failed_templates, template};
pub(crate) use judged::{Judged, PortNames};

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
    /// The fields that the reason rests on.
    pub evidence: Vec<Evidence>,
    /// The slices that hold it now.
    pub places: Vec<Place>,
    /// True if somebody has deleted it, and it has not gone yet.
    pub(crate) is_deleted: bool,
    /// True if none of its containers runs, so that nothing answers at its address.
    pub(crate) runs_nothing: bool,
    /// True if it is known that no other pod of the Service takes its place.
    pub(crate) is_alone: bool,
    /// The remedy of the finding about the Service that is the cause of the reason.
    pub(crate) cause: Option<Remedy>,
    /// True if only the template of its workload is known: no command finds it.
    pub(crate) is_assumed: bool,
    /// The node whose kubelet runs it from a file, if it is a static pod.
    pub(crate) static_on: Option<Text>,
}

impl PodExplanation {
    /// Returns true if some client is sent to the pod.
    pub fn is_sent_traffic(&self) -> bool {
        self.places.iter().any(|place| self.owns(place.sent()))
    }

    /// Returns true if clients are sent to the pod although the EndpointSelector does not choose
    /// it: the slices do not show that yet, and it answers.
    pub(crate) fn is_still_chosen(&self) -> bool {
        let is_sent = |place: &Place| place.ready && self.owns(place.sent());
        matches!(self.reason, Some(PodReason::NotChosen(_))) && self.places.iter().any(is_sent)
    }

    /// Returns true if the pod receives traffic although it is being deleted: no endpoint is ready,
    /// or its slice does not show the deletion yet. It still answers.
    pub(crate) fn is_last_resort(&self) -> bool {
        let is_up = |place: &Place| place.last_resort || (place.ready && self.is_ending_and_serving());
        self.publication == Publication::NotReady
            && self.places.iter().any(|place| is_up(place) && self.owns(place.sent()))
    }

    /// Returns true if the pod is being deleted and still answers requests.
    pub(crate) fn is_ending_and_serving(&self) -> bool {
        matches!(self.reason, Some(PodReason::PodTerminating(PodTerminating { serving: true, .. })))
    }

    /// Returns true if nobody expects traffic at it: it has ended, or soon will.
    pub(crate) fn is_ending(&self) -> bool {
        self.reason.as_ref().is_some_and(|reason| reason.finding().is_ending())
    }

    /// Returns true if one of these addresses is the pod's.
    fn owns(&self, addresses: &[Text]) -> bool {
        is_any_of(&self.addresses, addresses)
    }

    /// Returns the remedy of the reason, or that of its cause.
    pub fn remedy(&self) -> Option<Remedy> {
        if self.cause.is_some() {
            return self.cause.clone();
        }
        let pods = PodsOf { service: &self.service, pod: &self.name, is_alone: self.is_alone };
        let remedy = PodReason::remedy(&[self.reason.as_ref()?], &pods);
        Some(match &self.static_on {
            Some(node) => remedy.of_static_pod(node),
            None if self.is_assumed => remedy.of_template(&self.name),
            None => remedy,
        })
    }

    /// Returns true if `publishNotReadyAddresses` publishes the pod although something keeps it
    /// from answering, which is its reason.
    pub(crate) fn is_published_broken(&self) -> bool {
        self.publication == Publication::Ready
            && self.reason.as_ref().is_some_and(|reason| reason.finding().keeps_from_answering())
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
                .map(|(reason, remedy)| Found::new(reason, remedy, &self.evidence)),
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

/// Returns true if one of these texts is one of these addresses.
fn is_any_of(addresses: &[IpAddr], texts: &[Text]) -> bool {
    let is_own = |held: IpAddr| addresses.contains(&held);
    texts.iter().any(|text| address::parse_sloppy(text).is_some_and(is_own))
}

impl Place {
    /// Returns true if the Service uses it as a ready endpoint of a pod with these addresses.
    pub(crate) fn holds_as_ready(&self, addresses: &[IpAddr]) -> bool {
        self.used && self.ready && is_any_of(addresses, &self.addresses)
    }

    fn sent(&self) -> &[Text] {
        self.addresses.get(..self.sent).unwrap_or_default()
    }
}

/// Returns the named ports of a pod.
pub(crate) fn ports_of(pod: &Pod) -> Vec<NamedPort> {
    let port = |port: &ContainerPort| NamedPort {
        name: port.name.clone(),
        protocol: port.protocol.clone(),
        port: Some(port.container_port),
    };
    pod.ports.iter().filter(|port| !port.name.is_empty()).map(port).collect()
}
