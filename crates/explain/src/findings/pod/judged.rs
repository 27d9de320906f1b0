//! Decides on the reason of a pod.

use std::collections::{BTreeMap, BTreeSet};

use kube_endpoint_core_model::service::{ServicePort, TargetPort};
use kube_endpoint_core_model::{LeftOut, Node, Pod, Service, Text, Timestamp, Verdict};

use super::Publication;
use crate::facts::details::{PodCondition, PodDetails, RecentEvent};
use crate::facts::raw::{NodeDetails, PodOwner};
use crate::findings::pod_reason::{Disruption, NamedPort, PodFinding};
use crate::findings::*;
use crate::models::leader::Leads;

/// The inputs of the reason of a pod.
pub(crate) struct Judged<'a> {
    pub(crate) service: &'a Service,
    pub(crate) pod: &'a Pod,
    pub(crate) details: Option<&'a PodDetails>,
    /// The known events about the pod: warnings, and that an image is being pulled.
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
    pub(crate) owner: PodOwner,
    /// Kind and name of the workload whose template the pod is from.
    pub(crate) workload: Option<(Text, Text)>,
    /// The fields of the node that no controller reads.
    pub(crate) node_details: Option<&'a NodeDetails>,
    /// The fields of all known nodes.
    pub(crate) nodes: &'a BTreeMap<Text, NodeDetails>,
    /// True if it is known that no slice that the Service uses holds the pod as ready.
    pub(crate) is_due: bool,
    /// True if another pod of the same template has failed.
    pub(crate) has_failed_peer: bool,
    pub(crate) now: Timestamp,
}

/// Names and protocols of container ports.
pub(crate) type PortNames<'a> = BTreeSet<(&'a str, &'a str)>;

/// The reasons of pods. The first that holds is that of the pod: what the controllers look at first
/// comes first, then what the kubelet waits for first, and last what leaves the pod published.
const ORDER: &[fn(&Judged<'_>) -> Option<PodReason>] = &[
    held::<PodFinished>,
    held::<NodeNotFound>,
    held::<InvalidAddress>,
    held::<NoAddressOfFamily>,
    held::<PortProtocolDiffers>,
    held::<PortNameNotFound>,
    held::<SomePortsNotFound>,
    held::<NoServicePorts>,
    held::<NotChosen>,
    held::<PodTerminating>,
    |pod| NotReady::about_to_be_deleted(pod).map(PodReason::NotReady),
    held::<PodStarting>,
    held::<NotScheduled>,
    held::<InitContainerRuns>,
    held::<ContainerNotRunning>,
    held::<ContainerNotReady>,
    held::<NoAddress>,
    held::<ReadinessUnknown>,
    held::<ReadinessGateNotMet>,
    held::<NodeNotReady>,
    held::<NotReady>,
    held::<SomeFamiliesMissing>,
    held::<PublishedNotReady>,
    held::<OverCapacity>,
    held::<NotWritten>,
    |pod| NodeNotReady::of_ready_pod(pod).map(PodReason::NodeNotReady),
    |pod| ContainerNotRunning::of_ready_pod(pod).map(PodReason::ContainerNotRunning),
];

fn held<F: PodFinding + Into<PodReason>>(pod: &Judged<'_>) -> Option<PodReason> {
    F::find(pod).map(Into::into)
}

impl Judged<'_> {
    /// Returns the message of the Ready condition of the node, if that is not true.
    pub(in crate::findings) fn node_message(&self) -> Text {
        self.node_details.map(|node| node.not_ready_message.clone()).unwrap_or_default()
    }

    /// Returns the first reason against the pod.
    pub(crate) fn reason(&self) -> Option<PodReason> {
        ORDER.iter().find_map(|reason| reason(self))
    }

    /// Returns the state of the pod for clients.
    pub(crate) fn publication(&self) -> Publication {
        let Verdict::Published { ready, .. } = self.in_slices else { return Publication::LeftOut };
        let wanted = self.service.ports.len();
        // DNS lists a pod whatever its ports are.
        if self.missing_ports().len() == wanted && !self.service.is_headless() {
            return Publication::LeftOut;
        }
        if *ready { Publication::Ready } else { Publication::NotReady }
    }

    /// Returns the reason of the plan not to publish the pod.
    pub(in crate::findings) fn left_out(&self) -> Option<&LeftOut> {
        match self.in_slices {
            Verdict::LeftOut(reason) => Some(reason),
            Verdict::Published { .. } => None,
        }
    }

    /// Returns true if the plan publishes the pod as not ready, and it is not being deleted.
    pub(in crate::findings) fn is_unready(&self) -> bool {
        matches!(self.in_slices, Verdict::Published { ready: false, terminating: false, .. })
    }

    /// Returns true if the plan publishes the pod as serving.
    pub(in crate::findings) fn is_serving(&self) -> bool {
        matches!(self.in_slices, Verdict::Published { serving: true, .. })
    }

    /// Returns true if the pod is published and may not answer: it is not ready, or the Service
    /// publishes it although it is not.
    pub(in crate::findings) fn may_not_answer(&self) -> bool {
        let is_deleted = matches!(self.in_slices, Verdict::Published { terminating: true, .. });
        self.is_unready() || (self.left_out().is_none() && !self.is_serving() && !is_deleted)
    }

    /// Returns the condition of a type.
    pub(in crate::findings) fn condition(&self, condition_type: &str) -> Option<&PodCondition> {
        self.details?.condition(condition_type)
    }

    /// Returns true if the condition of a type is true.
    pub(in crate::findings) fn is_true(&self, condition_type: &str) -> bool {
        self.condition(condition_type).is_some_and(|condition| *condition.status == *"True")
    }

    /// Returns who ends the pod, as its conditions tell.
    pub(in crate::findings) fn disruption(&self) -> Option<Disruption> {
        let condition = self.condition("DisruptionTarget")?;
        self.is_true("DisruptionTarget").then(|| Disruption {
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            node: self.node.map(|node| node.name.clone()),
        })
    }

    /// Returns the last warning about the pod.
    pub(in crate::findings) fn last_warning(&self) -> Option<&RecentEvent> {
        self.events.iter().filter(|event| *event.event_type == *"Warning").max_by_key(|event| event.last)
    }

    /// Returns true if the last event about the pod is that an image is being pulled.
    pub(in crate::findings) fn pulls_image(&self) -> bool {
        let last = self.events.iter().max_by_key(|event| event.last);
        last.is_some_and(|event| *event.reason == *"Pulling")
    }

    /// Returns what the kubelet says about a probe of a container that fails, or an empty text. The
    /// pod's own address, which differs for each pod, is `POD_IP`.
    pub(in crate::findings) fn probe_says(&self, probe: &str, container: &str) -> Text {
        let is_of = |event: &RecentEvent| event.container.is_empty() || *event.container == *container;
        let events = self.events.iter().filter(|event| event.message.starts_with(probe) && is_of(event));
        let last = events.max_by_key(|event| event.last);
        let said = last.and_then(|event| event.message.split_once(": ")).map_or("", |(_, said)| said);
        let own = self.pod.pod_ips.iter().flat_map(|ip| [format!("[{ip}]"), ip.to_string()]);
        own.fold(said.to_owned(), |said, ip| said.replace(&ip, "POD_IP")).into()
    }

    pub(in crate::findings) fn not_ready_since(&self) -> Option<Timestamp> {
        self.pod.ready.filter(|ready| !ready.is_true).and_then(|ready| ready.last_transition)
    }

    /// Returns the names of the Service's ports that the pod lacks.
    pub(in crate::findings) fn missing_ports(&self) -> &[Text] {
        match self.in_slices {
            Verdict::Published { missing_ports, .. } => missing_ports,
            Verdict::LeftOut(_) => &[],
        }
    }

    /// Returns the ports that the Service asks for by name, if the pod lacks all of its ports.
    pub(in crate::findings) fn lacks_all_ports(&self) -> Option<Vec<NamedPort>> {
        let missing = self.missing_ports();
        let lacks = !missing.is_empty() && missing.len() == self.service.ports.len();
        let is_told = lacks && self.publication() != Publication::NotReady;
        is_told.then(|| self.wanted(|port| missing.contains(&port.name)))
    }

    /// Returns true if other pods of the Service have one of these ports, which this pod lacks.
    pub(in crate::findings) fn others_have(&self, wanted: &[NamedPort]) -> bool {
        wanted.iter().any(|port| self.ports_of_pods.contains(&(&*port.name, &*port.protocol)))
    }

    /// Returns the ports that the Service asks for by name.
    pub(in crate::findings) fn wanted(&self, mut filter: impl FnMut(&ServicePort) -> bool) -> Vec<NamedPort> {
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
