//! The reasons why a pod receives no traffic, or not all of it, from a Service.

pub(in crate::findings) mod containers;
pub(in crate::findings) mod ending;
pub(in crate::findings) mod gates;
pub(in crate::findings) mod owner;
mod patch;
mod remedy;
pub(in crate::findings) mod scheduling;
mod starting;
mod text;
mod together;

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Service, Text, Timestamp};
use serde::Serialize;

use crate::facts::details::{ContainerKind, Ended, Probe};
use crate::facts::remedy::{Remedy, Step};
use crate::findings::PodReason;
use crate::findings::code::Severity;
use crate::findings::rank::TrafficLost;

pub(in crate::findings) use containers::{Stopped, called, finished, unready};
pub(crate) use ending::capital;
pub use ending::{Disruption, SilentNode};
pub(in crate::findings) use ending::{is_rejected, rejected, terminating};
pub(in crate::findings) use patch::patch_ports;
pub(crate) use remedy::held;
pub(in crate::findings) use remedy::{describe, name_port, save};
pub use starting::NoAddress;
pub(in crate::findings) use text::{any_of, list, not_found, reported};
pub(crate) use together::Together;

/// The properties of a reason. It states those in which it differs from most reasons.
pub(crate) trait PodFinding: fmt::Display {
    /// Returns the severity, or `None` if it is that of the code.
    fn severity(&self) -> Option<Severity> {
        None
    }

    /// Returns the time since which the reason holds, if that is known.
    fn since(&self) -> Option<Timestamp> {
        None
    }

    /// Returns the node that the reason names.
    fn node(&self) -> Option<&str> {
        None
    }

    /// Returns a text that is the same for reasons that one sentence can tell together, or `None`
    /// if that is the sentence itself.
    fn group(&self) -> Option<String> {
        None
    }

    /// Returns true if a pod with this reason receives traffic nevertheless: at some ports, or
    /// although it is not ready.
    fn receives_traffic(&self) -> bool {
        false
    }

    /// Returns true if nothing answers at the address of a pod with this reason, or perhaps not at
    /// all ports.
    fn keeps_from_answering(&self) -> bool {
        false
    }

    /// Returns true if the reason goes away by itself: no probe has run yet that could have failed.
    fn passes(&self) -> bool {
        false
    }

    /// Returns true if peers may wait for the pod to be ready, as it waits for them.
    fn peers_wait(&self) -> bool {
        false
    }

    /// Returns true if the reason is only a consequence of a fault of the Service or its slices,
    /// which counts in its place.
    fn is_consequence(&self) -> bool {
        false
    }

    /// Returns true if nobody expects traffic at a pod with this reason: it has ended, or soon
    /// will.
    fn is_ending(&self) -> bool {
        false
    }

    /// Returns the traffic that clients lose because of it while other endpoints answer.
    fn traffic_lost(&self) -> TrafficLost {
        TrafficLost::None
    }

    /// Returns the remedy for the pod with this name, which the Service selects.
    fn remedy(&self, service: &ObjectKey, pod: &str) -> Remedy;

    /// Returns the patch that corrects the Service. It is right only if all pods of the Service
    /// have this reason.
    fn patch(&self, _: &Service) -> Option<Step> {
        None
    }
}

impl PodReason {
    /// Returns the time since which the reason holds, if that is known.
    pub fn since(&self) -> Option<Timestamp> {
        self.finding().since()
    }

    fn node(&self) -> Option<&str> {
        self.finding().node()
    }

    /// Returns a text that is the same for reasons that one sentence can tell together.
    pub(crate) fn group(&self) -> String {
        self.finding().group().unwrap_or_else(|| self.to_string())
    }

    /// Returns true if a pod with this reason receives traffic nevertheless.
    pub fn receives_traffic(&self) -> bool {
        self.finding().receives_traffic()
    }

    pub(crate) fn keeps_from_answering(&self) -> bool {
        self.finding().keeps_from_answering()
    }

    pub(crate) fn passes(&self) -> bool {
        self.finding().passes()
    }

    pub(crate) fn peers_wait(&self) -> bool {
        self.finding().peers_wait()
    }

    pub(crate) fn is_consequence(&self) -> bool {
        self.finding().is_consequence()
    }

    /// Returns true if nobody expects traffic at a pod with this reason.
    pub fn is_ending(&self) -> bool {
        self.finding().is_ending()
    }

    pub(crate) fn patch(&self, service: &Service) -> Option<Step> {
        self.finding().patch(service)
    }

    /// Returns the remedy for the pod with this name, which the Service selects.
    pub fn remedy(&self, service: &ObjectKey, pod: &str) -> Remedy {
        self.finding().remedy(service, pod)
    }

    /// Returns the container that does not run.
    fn stopped(&self) -> Option<Stopped<'_>> {
        match self {
            Self::ContainerNotRunning(reason) => Some(reason.stopped()),
            _ => None,
        }
    }
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
