//! Messages and remedies for pods that are being deleted or have ended: who ended them, and the
//! node that keeps them from going.

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Text};
use serde::Serialize;

use super::text::reported;
use super::{PodReason, held};
use crate::remedy::Person::{ClusterAdministrator, PodOwner};
use crate::{Person, Remedy, Step};

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

/// The node of a pod that is being deleted, if its kubelet does not end the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SilentNode {
    pub name: Text,
    /// False if the node does not exist, true if it is not ready.
    pub exists: bool,
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
                f.write_str("the kubelet of its node stopped it (TerminationByKubelet)")?;
                return reported(f, "", &self.message);
            }
            reason => {
                f.write_str("its condition DisruptionTarget is true")?;
                return reported(f, reason, &self.message);
            }
        };
        write!(f, "{who} ({})", self.reason)
    }
}

impl Disruption {
    /// Says what to do, as the end of a sentence.
    fn advice(&self) -> (Person, &'static str) {
        match &*self.reason {
            "EvictionByEvictionAPI" => (
                PodOwner,
                "run several pods and protect them with a PodDisruptionBudget, so that an eviction leaves some",
            ),
            "PreemptionByScheduler" => {
                (PodOwner, "give the pods a priority class with a higher value, or the cluster more room")
            }
            "DeletionByTaintManager" => (
                ClusterAdministrator,
                "look at why its node has the taint; pods that may run there nevertheless need a toleration",
            ),
            "DeletionByPodGC" => (ClusterAdministrator, "look at why its node is gone"),
            "TerminationByKubelet" => (
                ClusterAdministrator,
                "look at the conditions of its node: memory, disk or process ids run short, or it shuts down",
            ),
            _ => (PodOwner, "look at the pod's events"),
        }
    }

    /// Returns the command that shows the node, if it tells more.
    fn shows_node(&self) -> Option<Step> {
        let tells = matches!(&*self.reason, "DeletionByTaintManager" | "TerminationByKubelet");
        let node = self.node.as_ref().filter(|_| tells)?;
        Some(Step::kubectl(["describe", "node", node]))
    }
}

/// Prints that pods are being deleted. `silent` are the nodes that keep them.
pub(super) fn terminating(
    f: &mut fmt::Formatter<'_>,
    serving: bool,
    disruption: Option<&Disruption>,
    finalizers: &[Text],
    silent: Option<(&str, bool)>,
) -> fmt::Result {
    f.write_str("the pod is being deleted")?;
    f.write_str(if serving { " and finishes its requests" } else { "" })?;
    if let Some(disruption) = disruption {
        write!(f, ": {disruption}")?;
    }
    match silent {
        Some((node, true)) => write!(f, "; its node {node} is not ready, so no kubelet ends it")?,
        Some((node, false)) => write!(f, "; its node {node} does not exist, so no kubelet ends it")?,
        None => {}
    }
    match finalizers {
        [] => Ok(()),
        [one] => write!(f, "; the finalizer {one} holds it"),
        more => write!(f, "; the finalizers {} hold it", more.join(", ")),
    }
}

/// Returns the remedy for a pod that is being deleted. `nodes` is a list of the nodes that keep
/// such pods; `is_alone` is true if the Service has only such pods.
pub(super) fn terminating_remedy(
    reason: &PodReason,
    service: &ObjectKey,
    pod: &str,
    nodes: &str,
    is_alone: bool,
) -> Remedy {
    let PodReason::PodTerminating { disruption, finalizers, silent_node, .. } = reason else {
        return Remedy::default();
    };
    let describe = Step::kubectl_in(&service.namespace, ["describe", "pod", pod]);
    let (person, advice, shows) = match (silent_node, disruption) {
        (Some(node), _) if node.exists => {
            (ClusterAdministrator, not_ready(nodes), Step::kubectl(["get", "node", &node.name]))
        }
        (Some(_), _) => (
            ClusterAdministrator,
            "wait a minute: the pod garbage collector of kube-controller-manager deletes pods whose node does not exist; if it stays, look at that controller and at the pod's finalizers".to_owned(),
            describe,
        ),
        (None, _) if !finalizers.is_empty() => {
            (PodOwner, held(finalizers), Step::finalizers(&service.namespace, "pod", pod))
        }
        (None, Some(disruption)) => {
            let (person, advice) = disruption.advice();
            (person, advice.to_owned(), disruption.shows_node().unwrap_or(describe))
        }
        (None, None) if is_alone => (PodOwner, "if it stays, look at its node".to_owned(), describe),
        (None, None) => return Remedy::new("Nothing; if it lasts, look at its node").shown_by([describe]),
    };
    let sentence = match (is_alone, silent_node, disruption) {
        (true, ..) => format!("Start a pod in its place; {advice}"),
        (false, None, Some(_)) if finalizers.is_empty() => {
            format!("Nothing, if another pod takes its place; else {advice}")
        }
        (false, ..) => capital(&advice),
    };
    Remedy::ask(if is_alone && silent_node.is_none() { PodOwner } else { person }, sentence).shown_by([shows])
}

/// Says what to do about nodes that are not ready. A program may still run on them, so deleting the
/// pod by force is a request to a person.
fn not_ready(nodes: &str) -> String {
    format!(
        "bring node {nodes} back, so that its kubelet ends the pod; delete the node, or the pod with --force, only if the machine is known to be off for good, because a program that still runs there goes on beside its successor"
    )
}

/// Says what to do about a pod that has ended for good, if `status.reason` or the condition
/// `DisruptionTarget` tells why. `is_alone` is true if the Service has only such pods.
pub(super) fn finished_sentence(
    why: &str,
    disruption: Option<&Disruption>,
    is_alone: bool,
) -> (Person, String) {
    let (person, advice) = match (why, disruption) {
        ("DeadlineExceeded", _) => (PodOwner, "raise or unset its spec.activeDeadlineSeconds"),
        ("Evicted", _) => (
            PodOwner,
            "let the pods request what they use, because the kubelet evicts first those that use more; its node ran short of what the message names",
        ),
        (
            "NodeAffinity" | "NodeName" | "NodePorts" | "UnexpectedAdmissionError" | "TopologyAffinityError",
            _,
        ) => (
            ClusterAdministrator,
            "look at its node, whose kubelet did not take it: the message names what did not fit",
        ),
        (why, _) if why.starts_with("OutOf") => (
            ClusterAdministrator,
            "look at its node, which had no room for it any more; a second scheduler, or pods bound without one, may fill nodes",
        ),
        ("Preempting", _) => (ClusterAdministrator, "give its node more room: a critical pod took its place"),
        ("Terminated" | "NodeShutdown" | "Shutdown", _) => {
            (ClusterAdministrator, "drain nodes before they shut down, so that pods move in time")
        }
        (_, Some(disruption)) => disruption.advice(),
        _ => (PodOwner, "look at its events"),
    };
    let sentence = if is_alone {
        format!("Start a pod in its place, and {advice}")
    } else {
        format!("Nothing, if another pod runs in its place; else start one, and {advice}")
    };
    (person, sentence)
}

/// Says what to do about a pod that is about to be deleted.
pub(super) fn disrupted_remedy(disruption: &Disruption) -> Remedy {
    let (person, advice) = disruption.advice();
    Remedy::ask(person, format!("Nothing, if another pod takes its place; else {advice}"))
        .shown_by(disruption.shows_node())
}

pub(crate) fn capital(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
