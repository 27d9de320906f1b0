//! Messages and remedies for pods that are being deleted or have ended: who ended them, and the
//! node that keeps them from going.

use crate::facts::remedy::Person::{self, ClusterAdministrator};
use crate::facts::remedy::{Remedy, Step};
use crate::findings::PodTerminating;
use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Text};
use serde::Serialize;

use kube_endpoint_core_model::pod::PodOwner;

use super::held;
use super::text::reported;

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
    fn shows_node(&self) -> Option<Step> {
        let tells = matches!(&*self.reason, "DeletionByTaintManager" | "TerminationByKubelet");
        let node = self.node.as_ref().filter(|_| tells)?;
        Some(Step::kubectl(["describe", "node", node]))
    }
}

/// The seconds from the end of the grace period on after which a pod should be gone.
const OVERDUE: i64 = 120;

/// Prints that pods are being deleted. `silent` are the nodes that keep them.
pub(in crate::findings) fn terminating(
    f: &mut fmt::Formatter<'_>,
    serving: bool,
    disruption: Option<&Disruption>,
    finalizers: &[Text],
    silent: Option<(&str, bool)>,
    overdue: Option<i64>,
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
    if let Some(seconds) = overdue.filter(|seconds| *seconds >= OVERDUE) {
        write!(f, "; its grace period ended {} ago", crate::facts::age::seconds(seconds))?;
    }
    match finalizers {
        [] => Ok(()),
        [one] => write!(f, "; the finalizer {one} holds it"),
        more => write!(f, "; the finalizers {} hold it", more.join(", ")),
    }
}

/// Returns the remedy for a pod that is being deleted. `nodes` is a list of the nodes that keep
/// such pods; `is_alone` is true if the Service has only such pods.
pub(in crate::findings) fn terminating_remedy(
    reason: &PodTerminating,
    service: &ObjectKey,
    pod: &str,
    nodes: &str,
    is_alone: bool,
) -> Remedy {
    let PodTerminating { disruption, finalizers, silent_node, node, owner, overdue_seconds, .. } = reason;
    let describe = super::describe(service, pod);
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
            (Person::PodOwner, held(finalizers), Step::finalizers(&service.namespace, "pod", pod))
        }
        (None, _) if overdue_seconds.is_some_and(|seconds| seconds >= OVERDUE) => {
            let node = node.as_deref().unwrap_or_default();
            let advice = format!("look at the kubelet and the container runtime of node {node}, which have not ended it");
            (ClusterAdministrator, advice, describe)
        }
        (None, Some(disruption)) => {
            let (person, advice) = disruption.advice();
            (person, advice.to_owned(), disruption.shows_node().unwrap_or(describe))
        }
        (None, None) if is_alone => (Person::PodOwner, "if it stays, look at its node".to_owned(), describe),
        (None, None) => return Remedy::new("Nothing; if it lasts, look at its node").shown_by([describe]),
    };
    let sentence = match (is_alone, silent_node, disruption) {
        // It makes the pod again under the same name, once that is free.
        (true, ..) if *owner == PodOwner::StatefulSet => capital(&advice),
        (true, ..) => format!("Start a pod in its place; {advice}"),
        (false, None, Some(_)) if finalizers.is_empty() => {
            format!("Nothing, if another pod takes its place; else {advice}")
        }
        (false, ..) => capital(&advice),
    };
    Remedy::ask(if is_alone && silent_node.is_none() { Person::PodOwner } else { person }, sentence)
        .shown_by([shows])
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
pub(in crate::findings) fn finished_sentence(
    why: &str,
    disruption: Option<&Disruption>,
    is_alone: bool,
) -> (Person, String) {
    let (person, advice) = match (why, disruption) {
        ("DeadlineExceeded", _) => (Person::PodOwner, "raise or unset its spec.activeDeadlineSeconds"),
        ("Evicted", _) => (
            Person::PodOwner,
            "let the pods request what they use, because the kubelet evicts first those that use more; its node ran short of what the message names",
        ),
        ("Preempting", _) => (ClusterAdministrator, "give its node more room: a critical pod took its place"),
        ("Terminated" | "NodeShutdown" | "Shutdown", _) => {
            (ClusterAdministrator, "drain nodes before they shut down, so that pods move in time")
        }
        (_, Some(disruption)) => disruption.advice(),
        _ => (Person::PodOwner, "look at its events"),
    };
    let sentence = if is_alone {
        format!("Start a pod in its place, and {advice}")
    } else {
        format!("Nothing, if another pod runs in its place; else start one, and {advice}")
    };
    (person, sentence)
}

/// Reasons of pods that the kubelet did not take, and what to look at.
const REJECTIONS: [(&str, &str); 6] = [
    ("UnexpectedAdmissionError", "the device plugin that the message names, and at its devices"),
    (
        "TopologyAffinityError",
        "its topology manager, which cannot give the pod what it asks for on one NUMA node",
    ),
    ("SMTAlignmentError", "its CPU manager: the pod has to ask for whole cores"),
    ("NodeAffinity", "its labels, which changed after the scheduler had chosen it"),
    ("NodePorts", "the pods there that have the host port, which another scheduler may have bound"),
    ("OutOf", "its pods: a second scheduler, or pods bound without one, may fill it"),
];

/// The start of the message of a pod that the kubelet did not take.
const REJECTED: &str = "Pod was rejected: ";

/// Returns true if the kubelet of its node did not take a pod.
pub(in crate::findings) fn is_rejected(why: &str, message: &str) -> bool {
    message.starts_with(REJECTED) || REJECTIONS.iter().any(|(reason, _)| why.starts_with(reason))
}

/// Prints that `nodes` did not take `pods`.
pub(in crate::findings) fn rejected(
    f: &mut fmt::Formatter<'_>,
    nodes: &str,
    pods: &str,
    why: &str,
    message: &str,
) -> fmt::Result {
    write!(f, "{nodes} rejected {pods} for good")?;
    reported(f, why, message.strip_prefix(REJECTED).unwrap_or(message))
}

/// Returns the remedy for pods that the kubelet of a node did not take. A pod in their place may
/// come to the same node.
pub(in crate::findings) fn rejected_remedy(why: &str, node: &str) -> Remedy {
    let at = REJECTIONS.iter().find(|(reason, _)| why.starts_with(reason));
    let at = at.map_or("what the message names", |(_, at)| *at);
    let sentence = format!(
        "Look at node {node}: at {at}; cordon it until then, so that pods go to other nodes, and start the pod again if no controller does"
    );
    Remedy::ask(ClusterAdministrator, sentence)
}

/// Says what to do about a pod that is about to be deleted.
pub(in crate::findings) fn disrupted_remedy(disruption: &Disruption) -> Remedy {
    let (person, advice) = disruption.advice();
    Remedy::ask(person, format!("Nothing, if another pod takes its place; else {advice}"))
        .shown_by(disruption.shows_node())
}

pub(crate) fn capital(sentence: &str) -> String {
    let mut chars = sentence.chars();
    chars.next().map(|first| first.to_uppercase().chain(chars).collect()).unwrap_or_default()
}
