//! Message and code of each reason.

use crate::findings::{
    ContainerNotReady, ContainerNotRunning, InitContainerRuns, InvalidAddress, NoAddressOfFamily,
    NoServicePorts, NodeNotFound, NodeNotReady, NotReady, NotScheduled, NotWritten, OverCapacity,
    PodFinished, PodTerminating, PortNameNotFound, PortProtocolDiffers, PublishedNotReady,
    ReadinessGateNotMet, ReadinessUnknown, SomeFamiliesMissing, SomePortsNotFound,
};
use std::fmt;
use std::net::IpAddr;

use kube_endpoint_core_model::IpFamily;

use super::{DeadPort, NamedPort, PodReason, containers, ending};
use crate::facts::details::ContainerKind;

impl fmt::Display for NamedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}={port}/{}", self.name, self.protocol),
            None => write!(f, "{:?} ({})", self.name, self.protocol),
        }
    }
}

impl fmt::Display for DeadPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { port, name, .. } = self;
        if name.is_empty() { write!(f, "{port}") } else { write!(f, "{port} ({name})") }
    }
}

fn list(ports: &[NamedPort]) -> String {
    let texts: Vec<String> = ports.iter().map(NamedPort::to_string).collect();
    if texts.is_empty() { "no named ports".to_owned() } else { texts.join(", ") }
}

pub(super) fn any_of(families: &[IpFamily]) -> String {
    families.iter().map(|family| format!("{family:?}")).collect::<Vec<_>>().join(" or ")
}

/// Returns a message without the full stops and blanks at its end.
fn ended(message: &str) -> &str {
    message.trim_end_matches(['.', ' ', '\n'])
}

/// Appends the reason and the message of a condition or state, if there are any.
pub(super) fn reported(f: &mut fmt::Formatter<'_>, why: &str, message: &str) -> fmt::Result {
    match (why, message) {
        ("", "") => Ok(()),
        (text, "") | ("", text) => write!(f, ": {}", ended(text)),
        (why, message) => write!(f, ": {why}, {}", ended(message)),
    }
}

impl fmt::Display for PodReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodFinished(PodFinished { why, disruption: Some(disruption), .. }) if why.is_empty() => {
                write!(f, "the pod has ended for good: {disruption}")
            }
            Self::PodFinished(PodFinished { why, message, node: Some(node), .. })
                if ending::is_rejected(why, message) =>
            {
                ending::rejected(f, &format!("node {node}"), "the pod", why, message)
            }
            Self::PodFinished(PodFinished { why, message, failed, .. }) => {
                containers::finished(f, why, message, failed.as_ref())
            }
            Self::NoAddress(starting) => starting.fmt(f),
            Self::SomePortsNotFound(SomePortsNotFound { has, dead, .. }) if !dead.is_empty() => {
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
            Self::PortNameNotFound(PortNameNotFound { wanted, has, elsewhere, .. })
            | Self::SomePortsNotFound(SomePortsNotFound { wanted, has, elsewhere, .. }) => {
                let others = if *elsewhere { ", which other pods of the Service have" } else { "" };
                write!(f, "no container port named {}{others}; the pod has {}", list(wanted), list(has))?;
                let only_dns =
                    matches!(self, Self::PortNameNotFound(PortNameNotFound { only_dns: true, .. }));
                f.write_str(if only_dns { "; DNS answers with its address, without this port" } else { "" })
            }
            Self::PodTerminating(PodTerminating {
                serving,
                finalizers,
                disruption,
                silent_node,
                overdue_seconds,
                ..
            }) => {
                let silent = silent_node.as_ref().map(|node| (&*node.name, node.exists));
                ending::terminating(f, *serving, disruption.as_ref(), finalizers, silent, *overdue_seconds)
            }
            Self::NodeNotFound(NodeNotFound { node, .. }) => {
                write!(f, "the pod's node {node:?} does not exist")
            }
            Self::InvalidAddress(InvalidAddress { address }) => {
                write!(f, "the pod's address {address:?} is not an IP address")
            }
            Self::NoAddressOfFamily(NoAddressOfFamily { family, has }) => {
                let has: Vec<String> = has.iter().map(IpAddr::to_string).collect();
                write!(f, "the pod has no {family:?} address, only {}", has.join(", "))
            }
            Self::NotReady(NotReady { disruption: Some(disruption), .. }) => {
                write!(f, "the pod is about to be deleted: {disruption}")
            }
            Self::NotReady(NotReady { stale_on: Some(node), .. }) => {
                write!(
                    f,
                    "the condition Ready is not true, although all containers are ready: another client than the kubelet set it, as the node controller does while a node is not ready, and the kubelet has not corrected it (node {node})"
                )
            }
            Self::NotReady(NotReady { why, message, .. }) => {
                f.write_str("the condition Ready is not true")?;
                reported(f, why, message)
            }
            Self::ReadinessGateNotMet(ReadinessGateNotMet { gate, status, why, message, .. }) => match status
            {
                Some(status) => {
                    write!(f, "readiness gate {gate} is {status}")?;
                    reported(f, why, message)
                }
                None => write!(f, "readiness gate {gate} has no condition: nobody has reported on it"),
            },
            Self::ContainerNotReady(ContainerNotReady { containers, .. }) => {
                containers::unready(f, containers)
            }
            Self::ContainerNotRunning(ContainerNotRunning { .. }) => match self.stopped() {
                Some(stopped) => stopped.fmt(f),
                None => Ok(()),
            },
            Self::InitContainerRuns(InitContainerRuns { container, .. }) => {
                let container = containers::called(ContainerKind::Init, container);
                write!(f, "{container} has not ended, and the containers after it wait for that")
            }
            Self::NodeNotReady(NodeNotReady { node, message, .. }) => {
                write!(f, "the pod's node {node} is not ready, so the pod was marked not ready")?;
                reported(f, "", message)
            }
            Self::NotScheduled(NotScheduled { gates, .. }) if !gates.is_empty() => {
                let (gate, hold) = if gates.len() == 1 { ("gate", "holds") } else { ("gates", "hold") };
                write!(f, "the pod is bound to no node: the scheduling {gate} {} {hold} it", gates.join(", "))
            }
            Self::NotScheduled(NotScheduled { why: None, .. }) => {
                f.write_str("the pod is bound to no node, and no scheduler has reported on it")
            }
            Self::NotScheduled(NotScheduled { message, .. }) => {
                f.write_str("the pod is bound to no node")?;
                reported(f, "", message)
            }
            Self::PortProtocolDiffers(PortProtocolDiffers { wanted, has }) => {
                write!(
                    f,
                    "the container port {} is {}, and the Service asks for {}",
                    wanted.name, has.protocol, wanted.protocol
                )
            }
            Self::OverCapacity(OverCapacity {}) => {
                f.write_str("the Endpoints object holds as many addresses as it may")
            }
            Self::ReadinessUnknown(ReadinessUnknown {}) => {
                f.write_str("the pod has no Ready condition: no kubelet has reported on it")
            }
            Self::SomeFamiliesMissing(SomeFamiliesMissing { missing, has, .. }) => {
                let has: Vec<String> = has.iter().map(IpAddr::to_string).collect();
                write!(f, "the pod has no {} address, only {}", any_of(missing), has.join(", "))
            }
            Self::NotChosen(reason) => reason.fmt(f),
            Self::NotWritten(NotWritten {}) => f.write_str(
                "the pod should receive traffic, and no slice that the Service uses holds it as ready",
            ),
            Self::NoServicePorts(NoServicePorts {}) => f.write_str("the Service has no ports"),
            Self::PublishedNotReady(PublishedNotReady { .. }) => {
                f.write_str("the pod is not ready, and publishNotReadyAddresses publishes it nevertheless")
            }
        }
    }
}
