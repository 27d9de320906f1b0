//! Who ends a pod, as its conditions tell.

use std::fmt;

use kube_endpoint_core_model::Text;
use serde::Serialize;

use super::reported;
use crate::facts::remedy::Person::{self, ClusterAdministrator};
use crate::facts::remedy::Step;

/// The condition `DisruptionTarget` of a pod, since 1.25: who ends it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Disruption {
    /// Machine-readable reason, such as `EvictionByEvictionAPI`.
    pub reason: Text,
    /// Message for people, or empty.
    pub message: Text,
    /// The node of the pod, if it exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Text>,
}

/// Prints as the end of a sentence about a pod.
impl fmt::Display for Disruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let who = match &*self.reason {
            "EvictionByEvictionAPI" => "a client evicted it, as a drain of its node does",
            "PreemptionByScheduler" => "the scheduler needs its place for a pod of higher priority",
            "DeletionByTaintManager" => "its node has a NoExecute taint that it does not tolerate",
            "DeletionByPodGC" => "its node is gone, or out of service",
            "TerminationByKubelet" => {
                let message = reported("", &self.message);
                return write!(f, "the kubelet of its node stopped it (TerminationByKubelet){message}");
            }
            reason => {
                let reported = reported(reason, &self.message);
                return write!(f, "its condition DisruptionTarget is true{reported}");
            }
        };
        write!(f, "{who} ({})", self.reason)
    }
}

impl Disruption {
    /// Says what to do, as the end of a sentence.
    pub(in crate::findings) fn advice(&self) -> (Person, &'static str) {
        match &*self.reason {
            "EvictionByEvictionAPI" => (
                Person::PodOwner,
                "run several pods and protect them with a PodDisruptionBudget, so that an eviction leaves some",
            ),
            "PreemptionByScheduler" => (
                Person::PodOwner,
                "give the pods a priority class with a higher value, or the cluster more room",
            ),
            "DeletionByTaintManager" => (
                ClusterAdministrator,
                "look at why its node has the taint; pods that may run there nevertheless need a toleration",
            ),
            "DeletionByPodGC" => (ClusterAdministrator, "look at why its node is gone"),
            "TerminationByKubelet" => (
                ClusterAdministrator,
                "look at the conditions of its node: memory, disk or process ids run short, or it shuts down",
            ),
            _ => (Person::PodOwner, "look at the pod's events"),
        }
    }

    /// Returns the command that shows the node, if it tells more.
    pub(in crate::findings) fn shows_node(&self) -> Option<Step> {
        let tells = matches!(&*self.reason, "DeletionByTaintManager" | "TerminationByKubelet");
        let node = self.node.as_ref().filter(|_| tells)?;
        Some(Step::kubectl(["describe", "node", node]))
    }
}
