//! The reasons why a pod receives no traffic, or not all of it, from a Service.

mod containers;
mod patch;
mod remedy;
mod text;
mod together;

use std::net::IpAddr;

use kube_endpoint_core_model::{IpFamily, Text, Timestamp};
use serde::Serialize;

use crate::details::{ContainerKind, Ended, Probe, write_optional_time};

pub(crate) use together::Together;

/// A reason. Serialises with the tag `reason`, which holds the name of the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum PodReason {
    /// [`Code::PodFinished`](crate::Code::PodFinished)
    PodFinished {
        /// `status.reason`, such as `Evicted`, or empty.
        #[serde(skip_serializing_if = "str::is_empty")]
        why: Text,
        /// `status.message`, or empty.
        #[serde(skip_serializing_if = "str::is_empty")]
        message: Text,
        /// The first container that ended with an error, and its end.
        #[serde(skip_serializing_if = "Option::is_none")]
        failed: Option<FailedContainer>,
    },
    /// [`Code::NoAddress`](crate::Code::NoAddress)
    NoAddress,
    /// [`Code::PortNameNotFound`](crate::Code::PortNameNotFound)
    PortNameNotFound {
        /// The ports that the Service asks for by name.
        wanted: Vec<NamedPort>,
        /// The named ports that the pod has.
        has: Vec<NamedPort>,
        /// True if other pods of the Service have one of the wanted ports.
        elsewhere: bool,
        /// True if the Service is headless: DNS lists the pod, whatever its ports are.
        only_dns: bool,
    },
    /// [`Code::PodTerminating`](crate::Code::PodTerminating)
    PodTerminating {
        /// `metadata.deletionTimestamp`: when the grace period ends.
        #[serde(serialize_with = "write_optional_time")]
        until: Option<Timestamp>,
        /// True if it still answers requests.
        serving: bool,
        /// `metadata.finalizers`: the API server keeps the pod as long as it has one.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        finalizers: Vec<Text>,
    },
    /// [`Code::NodeNotFound`](crate::Code::NodeNotFound)
    NodeNotFound {
        /// The node that the pod names.
        node: Text,
    },
    /// [`Code::InvalidAddress`](crate::Code::InvalidAddress)
    InvalidAddress {
        /// The text in place of the address.
        address: Text,
    },
    /// [`Code::NoAddressOfFamily`](crate::Code::NoAddressOfFamily)
    NoAddressOfFamily {
        /// The family that the Service asks for.
        family: IpFamily,
        /// The addresses that the pod has.
        has: Vec<IpAddr>,
    },
    /// [`Code::NotReady`](crate::Code::NotReady)
    NotReady {
        /// The condition's reason, or empty.
        why: Text,
        /// The condition's message, or empty.
        message: Text,
        /// Time of the last change of the condition.
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::ReadinessGateNotMet`](crate::Code::ReadinessGateNotMet)
    ReadinessGateNotMet {
        /// Type of the condition that the gate asks for.
        gate: Text,
        /// Status of that condition, or `None` if the pod has no such condition.
        status: Option<Text>,
        /// Time of the last change of the condition.
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::ContainerNotReady`](crate::Code::ContainerNotReady)
    ContainerNotReady {
        containers: Vec<UnreadyContainer>,
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::ContainerNotRunning`](crate::Code::ContainerNotRunning)
    ContainerNotRunning {
        container: Text,
        kind: ContainerKind,
        /// Reason of its state, such as `CrashLoopBackOff`.
        why: Text,
        /// Message of its state, or empty.
        message: Text,
        /// The exit code, if the container has ended and waits for nothing.
        #[serde(skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// The number of restarts.
        restarts: u32,
        /// The end of its previous run.
        #[serde(skip_serializing_if = "Option::is_none")]
        last: Option<Ended>,
    },
    /// [`Code::ContainerNotRunning`](crate::Code::ContainerNotRunning): an init container has not
    /// ended, so the containers after it do not run.
    InitContainerRuns {
        container: Text,
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::NodeNotReady`](crate::Code::NodeNotReady)
    NodeNotReady {
        node: Text,
        /// Since when the pod is not ready.
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::NotScheduled`](crate::Code::NotScheduled)
    NotScheduled {
        /// The scheduler's message, or empty.
        message: Text,
        /// The gates that keep the scheduler from looking at the pod.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        gates: Vec<Text>,
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::SomePortsNotFound`](crate::Code::SomePortsNotFound)
    SomePortsNotFound {
        /// The ports that the Service asks for and the pod lacks.
        wanted: Vec<NamedPort>,
        /// The named ports that the pod has.
        has: Vec<NamedPort>,
        /// True if other pods of the Service have one of the wanted ports.
        elsewhere: bool,
        /// The ports of the Service that no pod has.
        dead: Vec<DeadPort>,
        /// The names of ports of the pod to which no port of the Service leads.
        free: Vec<Text>,
    },
    /// [`Code::PortProtocolDiffers`](crate::Code::PortProtocolDiffers)
    PortProtocolDiffers {
        /// The port that the Service asks for.
        wanted: NamedPort,
        /// The port of that name that the pod has.
        has: NamedPort,
    },
    /// [`Code::OverCapacity`](crate::Code::OverCapacity)
    OverCapacity,
    /// [`Code::ReadinessUnknown`](crate::Code::ReadinessUnknown)
    ReadinessUnknown,
    /// [`Code::PublishedNotReady`](crate::Code::PublishedNotReady)
    PublishedNotReady {
        /// Since when the pod is not ready.
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::NotWritten`](crate::Code::NotWritten)
    NotWritten,
    /// [`Code::NoServicePorts`](crate::Code::NoServicePorts)
    NoServicePorts,
    /// [`Code::SomeFamiliesMissing`](crate::Code::SomeFamiliesMissing)
    SomeFamiliesMissing {
        /// The families that the Service asks for and the pod lacks.
        missing: Vec<IpFamily>,
        /// The addresses that the pod has.
        has: Vec<IpAddr>,
        /// True if the Service's first family, which never changes, is among the missing ones.
        first_is_missing: bool,
    },
}

/// A port of a Service without any endpoint. Prints as `80 (http)`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadPort {
    pub port: i32,
    /// Its name, or empty.
    pub name: Text,
    /// The name of the container port to which it leads.
    pub target: Text,
}

/// A container that runs and is not ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnreadyContainer {
    pub name: Text,
    pub kind: ContainerKind,
    /// The probe that has not succeeded, or `None` if the container has no such probe.
    pub probe: Option<Probe>,
    /// The number of restarts.
    pub restarts: u32,
    /// True if it has run before, so that its previous log exists.
    #[serde(skip)]
    pub(crate) has_run_before: bool,
}

/// A container that ended with an error. Prints as `container app: exit code 1, Error`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedContainer {
    pub name: Text,
    pub kind: ContainerKind,
    pub end: Ended,
}

/// A port with a name. Prints as `name (TCP)`, with its number if it is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamedPort {
    pub name: Text,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Text,
    /// The number, or `None` for a port that a Service asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

impl PodReason {
    /// Returns the time since which the reason holds, if that is known.
    pub fn since(&self) -> Option<Timestamp> {
        match self {
            Self::NotReady { since, .. }
            | Self::ReadinessGateNotMet { since, .. }
            | Self::ContainerNotReady { since, .. }
            | Self::InitContainerRuns { since, .. }
            | Self::NodeNotReady { since, .. }
            | Self::NotScheduled { since, .. }
            | Self::PublishedNotReady { since } => *since,
            _ => None,
        }
    }

    /// Returns the node that the reason names.
    fn node(&self) -> Option<&str> {
        match self {
            Self::NodeNotFound { node } | Self::NodeNotReady { node, .. } => Some(node),
            _ => None,
        }
    }

    /// Returns the finalizers that keep a pod that is being deleted.
    fn finalizers(&self) -> &[Text] {
        match self {
            Self::PodTerminating { finalizers, .. } => finalizers,
            _ => &[],
        }
    }

    /// Returns the container that does not run.
    fn stopped(&self) -> Option<containers::Stopped<'_>> {
        match self {
            Self::ContainerNotRunning { container, kind, why, message, exit_code, restarts, last } => {
                Some(containers::Stopped {
                    name: container,
                    kind: *kind,
                    why,
                    message,
                    exit_code: *exit_code,
                    restarts: *restarts,
                    last: last.as_ref(),
                })
            }
            _ => None,
        }
    }

    /// Returns a text that is the same for reasons that one sentence can tell together.
    pub(crate) fn group(&self) -> String {
        match self {
            Self::NodeNotFound { .. } | Self::NodeNotReady { .. } | Self::InvalidAddress { .. } => {
                String::new()
            }
            Self::PodTerminating { finalizers, .. } => format!("{finalizers:?}"),
            Self::PodFinished { why, failed, .. } => {
                let failed = failed.as_ref();
                format!("{why} {:?}", failed.map(|failed| (&failed.name, failed.end.exit_code)))
            }
            Self::ContainerNotReady { containers, .. } => {
                let one = |container: &UnreadyContainer| (container.name.clone(), container.probe);
                format!("{:?}", containers.iter().map(one).collect::<Vec<_>>())
            }
            Self::NoAddressOfFamily { family, .. } => format!("{family:?}"),
            Self::SomeFamiliesMissing { missing, .. } => format!("{missing:?}"),
            Self::ContainerNotRunning { container, why, .. } => format!("{container} {why}"),
            reason => reason.to_string(),
        }
    }

    /// Returns true if a pod with this reason receives traffic nevertheless: at some ports, or
    /// although it is not ready.
    pub fn receives_traffic(&self) -> bool {
        matches!(
            self,
            Self::SomePortsNotFound { .. }
                | Self::SomeFamiliesMissing { .. }
                | Self::OverCapacity
                | Self::PublishedNotReady { .. }
        )
    }

    /// Returns true if the reason is only a consequence of a fault of the Service or its slices,
    /// which counts in its place.
    pub(crate) fn is_consequence(&self) -> bool {
        matches!(self, Self::NotWritten | Self::NoServicePorts)
    }

    /// Returns true if nobody expects traffic at a pod with this reason: it has ended, or soon
    /// will.
    pub fn is_ending(&self) -> bool {
        matches!(self, Self::PodFinished { .. } | Self::PodTerminating { .. })
    }
}
