//! The remedy of each reason.

use crate::findings::{
    ContainerNotReady, ContainerNotRunning, InitContainerRuns, InvalidAddress, NoAddressOfFamily,
    NoServicePorts, NodeNotFound, NodeNotReady, NotReady, NotScheduled, NotWritten, OverCapacity,
    PodFinished, PodTerminating, PortNameNotFound, PortProtocolDiffers, PublishedNotReady,
    ReadinessGateNotMet, ReadinessUnknown, SomeFamiliesMissing, SomePortsNotFound,
};
use std::net::IpAddr;

use kube_endpoint_core_model::well_known::LABEL_SERVICE_NAME;
use kube_endpoint_core_model::{ObjectKey, Text};

use super::text::any_of;
use super::{NamedPort, PodReason, containers, ending, gates, owner, scheduling};
use crate::facts::remedy::Person::{ClusterAdministrator, PodOwner, ServiceOwner};
use crate::facts::remedy::{Remedy, Step};
use crate::models::near::is_typo;

impl PodReason {
    /// Returns the remedy for the pod with this name, which the Service selects.
    pub fn remedy(&self, service: &ObjectKey, pod: &str) -> Remedy {
        let in_namespace = |words: &[&str]| Step::kubectl_in(&service.namespace, words.iter().copied());
        let describe = || in_namespace(&["describe", "pod", pod]);
        let save = || in_namespace(&["get", "pod", pod, "-o", "yaml"]);
        match self {
            Self::PortNameNotFound(PortNameNotFound { wanted, has, elsewhere, .. }) => {
                Remedy::ask(ServiceOwner, name_port(wanted, has, *elsewhere, None))
            }
            Self::SomePortsNotFound(SomePortsNotFound { wanted, has, elsewhere, free, .. }) => {
                Remedy::ask(ServiceOwner, name_port(wanted, has, *elsewhere, Some(free)))
            }
            Self::PortProtocolDiffers(PortProtocolDiffers { wanted, has }) => Remedy::ask(
                ServiceOwner,
                format!(
                    "Set the protocol of the Service's port to {}, or that of the container port {:?} to {}",
                    has.protocol, wanted.name, wanted.protocol
                ),
            ),
            Self::NodeNotFound(NodeNotFound { node, owner }) => owner::node_gone(*owner, "node", node, save()),
            Self::ReadinessGateNotMet(ReadinessGateNotMet { gate, status, .. }) => {
                gates::remedy(gate, status.is_some(), service, describe())
            }
            Self::ContainerNotRunning(ContainerNotRunning { .. }) => {
                self.stopped().map(|stopped| stopped.remedy(&service.namespace, pod)).unwrap_or_default()
            }
            Self::InitContainerRuns(InitContainerRuns { container, seconds, .. }) => {
                Remedy::ask(PodOwner, containers::init_sentence(container, *seconds))
                    .shown_by([containers::logs(&service.namespace, pod, container)])
            }
            Self::ContainerNotReady(ContainerNotReady { containers, .. }) => {
                containers::unready_remedy(containers, &service.namespace, pod)
            }
            Self::NodeNotReady(NodeNotReady { node, .. }) => {
                Remedy::ask(ClusterAdministrator, format!("Look at the kubelet of node {node}"))
                    .shown_by([Step::kubectl(["describe", "node", node])])
            }
            Self::NoAddressOfFamily(NoAddressOfFamily { family, .. }) => Remedy::ask(
                ServiceOwner,
                format!(
                    "Give pods {family:?} addresses (dual-stack network), or create the Service with a family that they have"
                ),
            ),
            // A single-stack Service keeps its first family.
            Self::SomeFamiliesMissing(SomeFamiliesMissing { missing, has, first_is_missing }) => {
                let has = if has.iter().any(IpAddr::is_ipv4) { "IPv4" } else { "IPv6" };
                let or = if *first_is_missing {
                    format!("create the Service again with {has} alone, since its first family cannot be changed")
                } else {
                    format!("make the Service single-stack: it then keeps {has}, its first family")
                };
                Remedy::ask(ServiceOwner, format!("Give all pods {} addresses, or {or}", any_of(missing)))
            }
            Self::PodFinished(PodFinished { why, failed: Some(failed), disruption: None, .. }) if why.is_empty() => Remedy::ask(
                PodOwner,
                format!("Look at why {} failed", containers::called(failed.kind, &failed.name)),
            )
            .shown_by([containers::logs(&service.namespace, pod, &failed.name)]),
            Self::PodFinished(PodFinished { why, message, node: Some(node), .. }) if ending::is_rejected(why, message) => {
                ending::rejected_remedy(why, node).shown_by([describe()])
            }
            Self::PodFinished(PodFinished { why, disruption, .. }) if !why.is_empty() || disruption.is_some() => {
                let (person, sentence) = ending::finished_sentence(why, disruption.as_ref(), false);
                Remedy::ask(person, sentence).shown_by([describe()])
            }
            Self::PodFinished(PodFinished { .. }) => Remedy::ask(
                ServiceOwner,
                "Nothing, if it has done its work; a Service should select pods that keep running",
            ),
            Self::NoAddress(starting) => starting.remedy(describe()),
            Self::PodTerminating(PodTerminating { .. }) => {
                let node = self.node().unwrap_or_default();
                ending::terminating_remedy(self, service, pod, node, false)
            }
            Self::InvalidAddress(InvalidAddress { .. }) => Remedy::ask(
                ClusterAdministrator,
                "Correct what writes the pod's status: the kubelet or the network plugin",
            ),
            Self::NotReady(NotReady { disruption: Some(disruption), .. }) => {
                ending::disrupted_remedy(disruption).shown_by([describe()])
            }
            Self::NotReady(NotReady { stale_on: Some(node), owner, .. }) => owner::stale(*owner, node, save()),
            Self::NotReady(NotReady { .. }) => {
                Remedy::ask(PodOwner, "Look at the pod's conditions").shown_by([describe()])
            }
            Self::NotScheduled(NotScheduled { gates, .. }) if !gates.is_empty() => Remedy::ask(
                PodOwner,
                format!(
                    "Look at the program that removes {} from spec.schedulingGates; the scheduler ignores the pod until then",
                    gates.join(" and ")
                ),
            )
            .shown_by([describe()]),
            Self::NotScheduled(NotScheduled { why, message, .. }) => {
                scheduling::remedy(why.as_deref(), message, &service.namespace, pod)
            }
            Self::OverCapacity(OverCapacity {}) => Remedy::ask(
                ServiceOwner,
                "Nothing, if clients read EndpointSlices, which hold all pods; Endpoints hold at most 1000",
            ),
            Self::NotChosen(reason) => Remedy::ask(ServiceOwner, reason.remedy()),
            Self::NotWritten(NotWritten {}) => {
                let selector = format!("{LABEL_SERVICE_NAME}={}", service.name);
                Remedy::new("Look at what the explanation says about the slices of the Service")
                    .shown_by([in_namespace(&["get", "endpointslices", "-l", &selector])])
            }
            Self::NoServicePorts(NoServicePorts {}) => Remedy::ask(ServiceOwner, "Add a port to spec.ports of the Service"),
            Self::ReadinessUnknown(ReadinessUnknown {}) => Remedy::ask(
                ClusterAdministrator,
                "Look at the kubelet of the pod's node, or at who writes the pod's status",
            ),
            Self::PublishedNotReady(PublishedNotReady { .. }) => Remedy::ask(
                ServiceOwner,
                "Nothing, if clients expect that; else unset publishNotReadyAddresses",
            ),
        }
    }

    /// Adds to the remedy for pods that are not ready what to do if they wait for one another.
    pub(crate) fn with_peers(remedy: Remedy) -> Remedy {
        let sentence = format!(
            "{}; if the pods wait for one another, set publishNotReadyAddresses of the Service, because DNS has the name of a pod only while it is ready",
            remedy.sentence
        );
        remedy.saying(sentence)
    }
}

/// Says who removes finalizers, as the end of a sentence.
pub(crate) fn held(finalizers: &[Text]) -> String {
    let (finalizer, it) = if finalizers.len() == 1 { ("finalizer", "it") } else { ("finalizers", "them") };
    // Kubernetes' own ones; those of others have a domain.
    let is_collectors = |finalizer: &Text| matches!(&**finalizer, "foregroundDeletion" | "orphan");
    let program = if finalizers.iter().all(is_collectors) {
        "the garbage collector of kube-controller-manager, which"
    } else {
        "the program that"
    };
    format!("look at {program} handles the {finalizer} {}, and has to remove {it}", finalizers.join(" and "))
}

/// Says how a Service and the container ports of a pod get the same name. If other pods have the
/// name, the Service has to keep it: with another name or a number they would get no traffic, or
/// this pod would get some that it does not serve. `free` are the names of ports of the pod to
/// which no port of the Service leads, if the Service has other ports that the pod has.
fn name_port(wanted: &[NamedPort], has: &[NamedPort], elsewhere: bool, free: Option<&Vec<Text>>) -> String {
    let names: Vec<String> = wanted.iter().map(|port| format!("{:?}", port.name)).collect();
    let names = names.join(" and ");
    if elsewhere {
        return format!(
            "Give the container port of this pod that serves clients the name {names}, or change its labels so that the Service does not select it"
        );
    }
    let choice = |ports: Vec<&NamedPort>| {
        ports.iter().map(|port| format!("{:?}", port.name)).collect::<Vec<_>>().join(" or ")
    };
    let typos = has.iter().filter(|port| wanted.iter().any(|wanted| is_typo(&wanted.name, &port.name)));
    let typos: Vec<&NamedPort> = typos.collect();
    match (typos.is_empty(), has) {
        (false, _) => format!(
            "Set the Service's targetPort to {}, or give that container port the name {names}",
            choice(typos)
        ),
        (true, _) if free.is_some() => {
            let free: Vec<String> = free.into_iter().flatten().map(|name| format!("{name:?}")).collect();
            let choice = free.join(" or ");
            let name = match &*choice {
                "" => format!("Give the container port that serves it the name {names}"),
                choice => format!(
                    "Set the targetPort to the name of the container port that serves it ({choice}), or give that container port the name {names}"
                ),
            };
            format!("{name}; remove the port from the Service only if no client uses it")
        }
        (true, []) => format!(
            "Give the container port that serves clients the name {names}, or set the Service's targetPort to its number"
        ),
        (true, has) => format!(
            "Set the Service's targetPort to the name of the container port that serves clients ({}), or give it the name {names}",
            choice(has.iter().collect())
        ),
    }
}
