//! The reasons why a pod receives no traffic, or not all of it, from a Service.

mod containers;
mod ending;
mod gates;
mod owner;
mod patch;
mod remedy;
mod scheduling;
mod starting;
mod text;
mod together;

use std::net::IpAddr;

use kube_endpoint_core_model::pod::PodOwner;
use kube_endpoint_core_model::{IpFamily, Text, Timestamp};
use serde::Serialize;

use crate::facts::details::{ContainerKind, Ended, Probe, write_optional_time};
use crate::models::leader::NotChosen;

pub(crate) use ending::capital;
pub use ending::{Disruption, SilentNode};
pub(crate) use remedy::held;
pub use starting::Starting;
pub(crate) use together::Together;

/// A reason. Serialises with the tag `reason`, which holds the name of the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum PodReason {
    /// [`Code::PodFinished`](crate::findings::Code::PodFinished)
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
        /// Who ended it, if its conditions tell.
        #[serde(skip_serializing_if = "Option::is_none")]
        disruption: Option<Disruption>,
        /// Its node, if it was bound to one.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<Text>,
        #[serde(skip)]
        owner: PodOwner,
    },
    /// [`Code::NoAddress`](crate::findings::Code::NoAddress)
    NoAddress(Starting),
    /// [`Code::PortNameNotFound`](crate::findings::Code::PortNameNotFound)
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
    /// [`Code::PodTerminating`](crate::findings::Code::PodTerminating)
    PodTerminating {
        /// `metadata.deletionTimestamp`: when the grace period ends.
        #[serde(serialize_with = "write_optional_time")]
        until: Option<Timestamp>,
        /// True if it still answers requests.
        serving: bool,
        /// `metadata.finalizers`: the API server keeps the pod as long as it has one.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        finalizers: Vec<Text>,
        /// Who ends it, if its conditions tell.
        #[serde(skip_serializing_if = "Option::is_none")]
        disruption: Option<Disruption>,
        /// Its node, if no kubelet there ends it.
        #[serde(skip_serializing_if = "Option::is_none")]
        silent_node: Option<SilentNode>,
        /// Its node, if it is bound to one.
        #[serde(skip_serializing_if = "Option::is_none")]
        node: Option<Text>,
        #[serde(skip)]
        owner: PodOwner,
        /// The seconds since the end of the grace period; negative before.
        #[serde(skip_serializing_if = "Option::is_none")]
        overdue_seconds: Option<i64>,
    },
    /// [`Code::NodeNotFound`](crate::findings::Code::NodeNotFound)
    NodeNotFound {
        /// The node that the pod names.
        node: Text,
        #[serde(skip)]
        owner: PodOwner,
    },
    /// [`Code::InvalidAddress`](crate::findings::Code::InvalidAddress)
    InvalidAddress {
        /// The text in place of the address.
        address: Text,
    },
    /// [`Code::NoAddressOfFamily`](crate::findings::Code::NoAddressOfFamily)
    NoAddressOfFamily {
        /// The family that the Service asks for.
        family: IpFamily,
        /// The addresses that the pod has.
        has: Vec<IpAddr>,
    },
    /// [`Code::NotReady`](crate::findings::Code::NotReady)
    NotReady {
        /// The condition's reason, or empty.
        why: Text,
        /// The condition's message, or empty.
        message: Text,
        /// Who is about to delete it, if its conditions tell.
        #[serde(skip_serializing_if = "Option::is_none")]
        disruption: Option<Disruption>,
        /// The node whose kubelet should set the condition to true, because all containers are
        /// ready and nobody says why the pod is not.
        #[serde(skip_serializing_if = "Option::is_none")]
        stale_on: Option<Text>,
        #[serde(skip)]
        owner: PodOwner,
        /// Time of the last change of the condition.
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::ReadinessGateNotMet`](crate::findings::Code::ReadinessGateNotMet)
    ReadinessGateNotMet {
        /// Type of the condition that the gate asks for.
        gate: Text,
        /// Status of that condition, or `None` if the pod has no such condition.
        status: Option<Text>,
        /// The condition's reason, or empty.
        #[serde(skip_serializing_if = "str::is_empty")]
        why: Text,
        /// The condition's message, or empty.
        #[serde(skip_serializing_if = "str::is_empty")]
        message: Text,
        /// Time of the last change of the condition.
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::ContainerNotReady`](crate::findings::Code::ContainerNotReady)
    ContainerNotReady {
        containers: Vec<UnreadyContainer>,
        /// True if peers look for the pod by its own DNS name, which exists only while it is ready.
        #[serde(skip)]
        peers: bool,
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::ContainerNotRunning`](crate::findings::Code::ContainerNotRunning)
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
        /// True if the kubelet ends it when its liveness or startup probe fails.
        #[serde(skip)]
        has_liveness_probe: bool,
        #[serde(skip)]
        has_post_start_hook: bool,
    },
    /// [`Code::ContainerNotRunning`](crate::findings::Code::ContainerNotRunning): an init container has not
    /// ended, so the containers after it do not run.
    InitContainerRuns {
        container: Text,
        /// The seconds since its start, if they are known.
        #[serde(skip_serializing_if = "Option::is_none")]
        seconds: Option<i64>,
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::NodeNotReady`](crate::findings::Code::NodeNotReady)
    NodeNotReady {
        node: Text,
        /// The message of the node's Ready condition, or empty.
        #[serde(skip_serializing_if = "str::is_empty")]
        message: Text,
        /// Since when the pod is not ready.
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::NotScheduled`](crate::findings::Code::NotScheduled)
    NotScheduled {
        /// The scheduler's reason, such as `Unschedulable`, or `None` if no scheduler has looked at
        /// the pod.
        why: Option<Text>,
        /// The scheduler's message, or empty.
        message: Text,
        /// The gates that keep the scheduler from looking at the pod.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        gates: Vec<Text>,
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::SomePortsNotFound`](crate::findings::Code::SomePortsNotFound)
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
    /// [`Code::PortProtocolDiffers`](crate::findings::Code::PortProtocolDiffers)
    PortProtocolDiffers {
        /// The port that the Service asks for.
        wanted: NamedPort,
        /// The port of that name that the pod has.
        has: NamedPort,
    },
    /// [`Code::OverCapacity`](crate::findings::Code::OverCapacity)
    OverCapacity,
    /// [`Code::ReadinessUnknown`](crate::findings::Code::ReadinessUnknown)
    ReadinessUnknown,
    /// [`Code::PublishedNotReady`](crate::findings::Code::PublishedNotReady)
    PublishedNotReady {
        /// Since when the pod is not ready.
        #[serde(serialize_with = "write_optional_time")]
        since: Option<Timestamp>,
    },
    /// [`Code::NotChosen`](crate::findings::Code::NotChosen)
    NotChosen(NotChosen),
    /// [`Code::NotWritten`](crate::findings::Code::NotWritten)
    NotWritten,
    /// [`Code::NoServicePorts`](crate::findings::Code::NoServicePorts)
    NoServicePorts,
    /// [`Code::SomeFamiliesMissing`](crate::findings::Code::SomeFamiliesMissing)
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
    /// The initial delay of that probe, if it is not over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_delay_seconds: Option<i32>,
    /// The seconds until the kubelet runs that probe for the first time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_probe_in_seconds: Option<i64>,
    /// The port that the probe asks, if no container of the pod declares it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undeclared_port: Option<UndeclaredPort>,
    /// The number of restarts.
    pub restarts: u32,
    /// The end of its previous run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<Ended>,
    #[serde(skip)]
    pub(crate) has_liveness_probe: bool,
    /// True if it has run before, so that its previous log exists.
    #[serde(skip)]
    pub(crate) has_run_before: bool,
}

/// A port that a probe asks and that no container of the pod declares.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UndeclaredPort {
    /// Its number, or its name in quotes.
    pub asked: String,
    /// The numbers of the ports that the containers of the pod declare.
    pub declared: Vec<i32>,
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
            Self::NoAddress(starting) => starting.since,
            _ => None,
        }
    }

    /// Returns the node that the reason names.
    fn node(&self) -> Option<&str> {
        match self {
            Self::NodeNotFound { node, .. }
            | Self::NodeNotReady { node, .. }
            | Self::PodTerminating { silent_node: Some(SilentNode { name: node, .. }), .. } => Some(node),
            Self::PodFinished { why, message, node, .. } if ending::is_rejected(why, message) => {
                node.as_deref()
            }
            Self::PodTerminating { node, .. } => node.as_deref(),
            Self::NotReady { stale_on, .. } => stale_on.as_deref(),
            Self::NoAddress(starting) => starting.silent.as_ref().map(|_| &*starting.node),
            _ => None,
        }
    }

    /// Returns the container that does not run.
    fn stopped(&self) -> Option<containers::Stopped<'_>> {
        match self {
            Self::ContainerNotRunning {
                container,
                kind,
                why,
                message,
                exit_code,
                restarts,
                last,
                has_liveness_probe,
                has_post_start_hook,
            } => Some(containers::Stopped {
                name: container,
                kind: *kind,
                why,
                message,
                exit_code: *exit_code,
                restarts: (*restarts, *restarts),
                last: last.as_ref(),
                has_liveness_probe: *has_liveness_probe,
                has_post_start_hook: *has_post_start_hook,
            }),
            _ => None,
        }
    }

    /// Returns a text that is the same for reasons that one sentence can tell together.
    pub(crate) fn group(&self) -> String {
        match self {
            Self::NodeNotReady { .. } | Self::InvalidAddress { .. } => String::new(),
            Self::NodeNotFound { owner, .. } => format!("{owner:?}"),
            Self::NotReady { stale_on: Some(_), owner, .. } => format!("stale {owner:?}"),
            Self::NoAddress(starting) => starting.group(),
            Self::ReadinessGateNotMet { gate, status, why, .. } => format!("{gate} {status:?} {why}"),
            Self::PodTerminating { finalizers, disruption, silent_node, .. } => {
                let by = disruption.as_ref().map(|disruption| &disruption.reason);
                format!("{finalizers:?} {by:?} {:?}", silent_node.as_ref().map(|node| node.exists))
            }
            Self::PodFinished { why, failed, disruption, .. } => {
                let (failed, by) = (failed.as_ref(), disruption.as_ref().map(|it| &it.reason));
                format!("{why} {:?} {by:?}", failed.map(|failed| (&failed.name, failed.end.exit_code)))
            }
            Self::ContainerNotReady { containers, .. } => {
                let one = |container: &UnreadyContainer| {
                    let waits = container.first_probe_in_seconds.is_some();
                    (container.name.clone(), container.probe, waits, container.undeclared_port.clone())
                };
                format!("{:?}", containers.iter().map(one).collect::<Vec<_>>())
            }
            Self::NoAddressOfFamily { family, .. } => format!("{family:?}"),
            Self::SomeFamiliesMissing { missing, .. } => format!("{missing:?}"),
            Self::ContainerNotRunning { container, why, exit_code, last, .. } => {
                let last = last.as_ref().map(|last| (&last.reason, last.exit_code));
                format!("{container} {why} {exit_code:?} {last:?}")
            }
            Self::InitContainerRuns { container, .. } => container.to_string(),
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

    /// Returns true if nothing answers at the address of a pod with this reason, or perhaps not at
    /// all ports.
    pub(crate) fn keeps_from_answering(&self) -> bool {
        matches!(
            self,
            Self::ContainerNotRunning { .. } | Self::InitContainerRuns { .. } | Self::NodeNotReady { .. }
        )
    }

    /// Returns true if the reason goes away by itself: no probe has run yet that could have failed.
    pub(crate) fn passes(&self) -> bool {
        match self {
            Self::ContainerNotReady { containers, .. } => {
                !containers.is_empty() && containers.iter().all(|one| one.first_probe_in_seconds.is_some())
            }
            _ => false,
        }
    }

    /// Returns true if peers may wait for the pod to be ready, as it waits for them.
    pub(crate) fn peers_wait(&self) -> bool {
        matches!(self, Self::ContainerNotReady { peers: true, .. })
    }

    /// Returns true if the reason is only a consequence of a fault of the Service or its slices,
    /// which counts in its place.
    pub(crate) fn is_consequence(&self) -> bool {
        matches!(self, Self::NotWritten | Self::NotChosen(_) | Self::NoServicePorts)
    }

    /// Returns true if nobody expects traffic at a pod with this reason: it has ended, or soon
    /// will.
    pub fn is_ending(&self) -> bool {
        matches!(self, Self::PodFinished { .. } | Self::PodTerminating { .. })
    }
}
