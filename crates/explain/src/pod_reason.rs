//! The reasons why a pod receives no traffic, or not all of it, from a Service.

mod patch;
mod remedy;
mod text;
mod together;

use std::net::IpAddr;

use kube_endpoint_core_model::{IpFamily, Text, Timestamp};
use serde::Serialize;

use crate::details::write_optional_time;

pub(crate) use together::Together;

/// A reason. Serialises with the tag `reason`, which holds the name of the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum PodReason {
    /// [`Code::PodFinished`](crate::Code::PodFinished)
    PodFinished,
    /// [`Code::NoAddress`](crate::Code::NoAddress)
    NoAddress,
    /// [`Code::PortNameNotFound`](crate::Code::PortNameNotFound)
    PortNameNotFound {
        /// The ports that the Service asks for by name.
        wanted: Vec<NamedPort>,
        /// The named ports that the pod has.
        has: Vec<NamedPort>,
    },
    /// [`Code::PodTerminating`](crate::Code::PodTerminating)
    PodTerminating {
        /// `metadata.deletionTimestamp`: when the grace period ends.
        #[serde(serialize_with = "write_optional_time")]
        until: Option<Timestamp>,
        /// True if it still answers requests.
        serving: bool,
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
        containers: Vec<Text>,
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::ContainerNotRunning`](crate::Code::ContainerNotRunning)
    ContainerNotRunning {
        container: Text,
        /// Reason of its state, such as `CrashLoopBackOff`.
        why: Text,
        /// Message of its state, or empty.
        message: Text,
        /// The number of restarts.
        restarts: u32,
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
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::SomePortsNotFound`](crate::Code::SomePortsNotFound)
    SomePortsNotFound {
        /// The ports that the Service asks for and the pod lacks.
        wanted: Vec<NamedPort>,
        /// The named ports that the pod has.
        has: Vec<NamedPort>,
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
    },
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

    /// Returns a text that is the same for reasons that one sentence can tell together.
    pub(crate) fn group(&self) -> String {
        match self {
            Self::NodeNotFound { .. }
            | Self::NodeNotReady { .. }
            | Self::InvalidAddress { .. }
            | Self::PodTerminating { .. } => String::new(),
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
        matches!(self, Self::PodFinished | Self::PodTerminating { .. })
    }
}
