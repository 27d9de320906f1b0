//! Message and code of each reason.

use std::fmt;
use std::net::IpAddr;

use kube_endpoint_core_model::IpFamily;

use super::{NamedPort, PodReason};
use crate::Code;
use crate::finding::Problem;

impl fmt::Display for NamedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}={port}/{}", self.name, self.protocol),
            None => write!(f, "{:?} ({})", self.name, self.protocol),
        }
    }
}

fn list(ports: &[NamedPort]) -> String {
    let texts: Vec<String> = ports.iter().map(NamedPort::to_string).collect();
    if texts.is_empty() { "no named ports".to_owned() } else { texts.join(", ") }
}

pub(super) fn any_of(families: &[IpFamily]) -> String {
    families.iter().map(|family| format!("{family:?}")).collect::<Vec<_>>().join(" or ")
}

/// Appends the reason and the message of a condition or state, if there are any.
fn reported(f: &mut fmt::Formatter<'_>, why: &str, message: &str) -> fmt::Result {
    match (why, message) {
        ("", "") => Ok(()),
        (text, "") | ("", text) => write!(f, ": {}", text.trim_end_matches('.')),
        (why, message) => write!(f, ": {why}, {}", message.trim_end_matches('.')),
    }
}

impl fmt::Display for PodReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PodFinished => f.write_str("the pod has ended for good (phase Succeeded or Failed)"),
            Self::NoAddress => f.write_str("the pod has no IP address yet"),
            Self::PortNameNotFound { wanted, has } | Self::SomePortsNotFound { wanted, has } => {
                write!(f, "no container port named {}; the pod has {}", list(wanted), list(has))
            }
            Self::PodTerminating { serving, .. } => {
                f.write_str("the pod is being deleted")?;
                f.write_str(if *serving { " and finishes its requests" } else { "" })
            }
            Self::NodeNotFound { node } => write!(f, "the pod's node {node:?} does not exist"),
            Self::InvalidAddress { address } => {
                write!(f, "the pod's address {address:?} is not an IP address")
            }
            Self::NoAddressOfFamily { family, has } => {
                let has: Vec<String> = has.iter().map(IpAddr::to_string).collect();
                write!(f, "the pod has no {family:?} address, only {}", has.join(", "))
            }
            Self::NotReady { why, message, .. } => {
                f.write_str("the condition Ready is not true")?;
                reported(f, why, message)
            }
            Self::ReadinessGateNotMet { gate, status, .. } => match status {
                Some(status) => write!(f, "readiness gate {gate} is {status}"),
                None => write!(f, "readiness gate {gate} has no condition: nobody has reported on it"),
            },
            Self::ContainerNotReady { containers, .. } => match containers.as_slice() {
                [] => f.write_str("not all containers are ready"),
                [one] => write!(f, "container {one} runs but is not ready: its readiness probe fails"),
                more => {
                    write!(
                        f,
                        "containers {} run but are not ready: their readiness probes fail",
                        more.join(", ")
                    )
                }
            },
            Self::ContainerNotRunning { container, why, message, restarts } => {
                write!(f, "container {container} does not run")?;
                reported(f, why, message)?;
                if *restarts > 0 { write!(f, " (restarted {restarts} times)") } else { Ok(()) }
            }
            Self::NodeNotReady { node, .. } => {
                write!(f, "the pod's node {node} is not ready, so the pod was marked not ready")
            }
            Self::NotScheduled { message, .. } => {
                f.write_str("the pod is bound to no node")?;
                reported(f, "", message)
            }
            Self::PortProtocolDiffers { wanted, has } => {
                write!(
                    f,
                    "the container port {} is {}, and the Service asks for {}",
                    wanted.name, has.protocol, wanted.protocol
                )
            }
            Self::OverCapacity => f.write_str("the Endpoints object holds as many addresses as it may"),
            Self::ReadinessUnknown => {
                f.write_str("the pod has no Ready condition: no kubelet has reported on it")
            }
            Self::SomeFamiliesMissing { missing, has } => {
                let has: Vec<String> = has.iter().map(IpAddr::to_string).collect();
                write!(f, "the pod has no {} address, only {}", any_of(missing), has.join(", "))
            }
            Self::NotWritten => f.write_str(
                "the pod should receive traffic, and no slice that the Service uses holds it as ready",
            ),
            Self::NoServicePorts => f.write_str("the Service has no ports"),
            Self::PublishedNotReady { .. } => {
                f.write_str("the pod is not ready, and publishNotReadyAddresses publishes it nevertheless")
            }
        }
    }
}

impl Problem for PodReason {
    fn code(&self) -> Code {
        match self {
            Self::PodFinished => Code::PodFinished,
            Self::NoAddress => Code::NoAddress,
            Self::PortNameNotFound { .. } => Code::PortNameNotFound,
            Self::PodTerminating { .. } => Code::PodTerminating,
            Self::NodeNotFound { .. } => Code::NodeNotFound,
            Self::InvalidAddress { .. } => Code::InvalidAddress,
            Self::NoAddressOfFamily { .. } => Code::NoAddressOfFamily,
            Self::NotReady { .. } => Code::NotReady,
            Self::ReadinessGateNotMet { .. } => Code::ReadinessGateNotMet,
            Self::ContainerNotReady { .. } => Code::ContainerNotReady,
            Self::ContainerNotRunning { .. } => Code::ContainerNotRunning,
            Self::NodeNotReady { .. } => Code::NodeNotReady,
            Self::NotScheduled { .. } => Code::NotScheduled,
            Self::SomePortsNotFound { .. } => Code::SomePortsNotFound,
            Self::PortProtocolDiffers { .. } => Code::PortProtocolDiffers,
            Self::OverCapacity => Code::OverCapacity,
            Self::ReadinessUnknown => Code::ReadinessUnknown,
            Self::PublishedNotReady { .. } => Code::PublishedNotReady,
            Self::NotWritten => Code::NotWritten,
            Self::SomeFamiliesMissing { .. } => Code::SomeFamiliesMissing,
            Self::NoServicePorts => Code::NoServicePorts,
        }
    }
}
