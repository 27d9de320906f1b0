//! The reasons why a pod receives no traffic, or not all of it, from a Service.

mod disruption;
pub(in crate::findings) mod images;
mod ports;
mod text;

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Service, Timestamp};

use crate::facts::remedy::{Remedy, Step};
use crate::findings::PodReason;
use crate::findings::code::Severity;
use crate::findings::evidence::{Evidence, PodRead};
use crate::findings::pod::Judged;
use crate::findings::rank::TrafficLost;

pub use disruption::Disruption;
pub use ports::{DeadPort, NamedPort};
pub(in crate::findings) use ports::{list, name_port, not_found, patch_ports};
pub(in crate::findings) use text::{common, distinct, first_few, reported, shortened, such_as};

/// A reason of pods. It states the properties in which it differs from most reasons.
pub(crate) trait PodFinding {
    /// Returns the reason if it holds for a pod. Reasons that come before it in the order of all do
    /// not hold.
    fn find(pod: &Judged<'_>) -> Option<Self>
    where
        Self: Sized;

    /// Tells the reason of one or several pods as one sentence without a full stop. All of them
    /// have the same [group](Self::group).
    fn message(all: &[&Self]) -> String
    where
        Self: Sized;

    /// Returns the fields that it rests on, with the values that were read.
    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        std::iter::once(pod.condition("Ready")).chain(pod.containers()).collect()
    }

    /// Returns the remedy for these pods.
    fn remedy(all: &[&Self], pods: &PodsOf<'_>) -> Remedy
    where
        Self: Sized;

    /// Returns the severity, or `None` if it is that of the code.
    fn severity(&self) -> Option<Severity> {
        None
    }

    /// Returns the time since which the reason holds, if that is known.
    fn since(&self) -> Option<Timestamp> {
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

    /// Returns the patch that corrects the Service. It is right only if all pods of the Service
    /// have this reason.
    fn patch(&self, _: &Service) -> Option<Step> {
        None
    }
}

/// The pods that a remedy is for.
pub(crate) struct PodsOf<'a> {
    /// The Service that selects them.
    pub(crate) service: &'a ObjectKey,
    /// The name of one of them.
    pub(crate) pod: &'a str,
    /// True if the Service has only pods that have ended or are being deleted.
    pub(crate) is_alone: bool,
}

impl PodsOf<'_> {
    /// Returns the command that describes one of them.
    pub(in crate::findings) fn describe(&self) -> Step {
        Step::kubectl_in(&self.service.namespace, ["describe", "pod", self.pod])
    }

    /// Returns the command that prints one of them, so that somebody can save it.
    pub(in crate::findings) fn save(&self) -> Step {
        Step::kubectl_in(&self.service.namespace, ["get", "pod", self.pod, "-o", "yaml"])
    }

    /// Returns the command that prints the log of a container.
    pub(in crate::findings) fn logs(&self, container: &str) -> Step {
        Step::kubectl_in(&self.service.namespace, ["logs", self.pod, "-c", container])
    }

    /// Returns the command that prints the log of the last run of a container that ended.
    pub(in crate::findings) fn previous_logs(&self, container: &str) -> Step {
        Step::kubectl_in(&self.service.namespace, ["logs", "--previous", self.pod, "-c", container])
    }
}

impl PodReason {
    /// Returns a text that is the same for reasons that one sentence can tell together.
    pub(crate) fn group(&self) -> String {
        self.finding().group().unwrap_or_else(|| self.to_string())
    }
}

impl fmt::Display for PodReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&Self::message(&[self]))
    }
}
