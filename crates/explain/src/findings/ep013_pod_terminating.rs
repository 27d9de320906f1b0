//! The pod is being deleted.

use kube_endpoint_core_model::{LeftOut, Verdict};
use serde_json::json;

use crate::facts::age;
use crate::facts::details::write_optional_time;
use crate::facts::raw::PodOwner;
use crate::findings::pod_reason::{Disruption, distinct, first_few, reported, such_as};
use crate::findings::prelude::*;
use crate::findings::words::{capital, held};

about! {
    /// The pod has a deletion timestamp. Its slice lists it as terminating, and as serving while it
    /// is still ready; Endpoints leave it out. kube-proxy sends traffic to serving endpoints if no
    /// endpoint is ready; DNS does not list them for a headless Service. The severity is warning if
    /// only such pods receive traffic: the program may have ended already, and its kubelet reports
    /// that a second or two later. It is error if the Service has no other pods, and none of them
    /// receives traffic. The message names the finalizers, which keep the pod until the programs
    /// that handle them remove them. It names the node, if that is not ready or does not exist,
    /// because then no kubelet ends the pod. The condition `DisruptionTarget` (since Kubernetes
    /// 1.25) tells who ends the pod: a drain, the scheduler, a taint, the pod garbage collector or
    /// the kubelet. Each has its own advice. Deleting a node or a pod by force is a request to a
    /// person: the program may still run there, and its successor would start beside it. The
    /// message tells how long ago the grace period ended, if that is more than two minutes, with
    /// the words of the kubelet if it cannot end the pod, or how long the pod may take. A
    /// StatefulSet makes its pod again only once the old one is gone, so nobody is asked to start
    /// another.
    EP013 "pod-terminating" Info
    "The pod is being deleted."
}

/// A pod that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodTerminating {
    /// `metadata.deletionTimestamp`: when the grace period ends.
    #[serde(serialize_with = "write_optional_time")]
    pub until: Option<Timestamp>,
    /// True if it still answers requests.
    pub serving: bool,
    /// True if its containers have ended.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_ended: bool,
    /// `metadata.finalizers`, once nothing else holds the pod: the API server keeps it as long as
    /// it has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<Text>,
    /// Who ends it, if its conditions tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption: Option<Disruption>,
    /// Its node, if no kubelet there ends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub silent_node: Option<SilentNode>,
    /// Its node, if it is bound to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Text>,
    #[serde(skip)]
    pub owner: PodOwner,
    /// The seconds since the end of the grace period; negative before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overdue_seconds: Option<i64>,
    /// The words of the kubelet that cannot end it, or empty.
    #[serde(skip)]
    pub kill_says: Text,
}

/// The node of a pod that is being deleted, if its kubelet does not end the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SilentNode {
    pub name: Text,
    /// False if the node does not exist, true if it is not ready.
    pub exists: bool,
}

/// The seconds from the end of the grace period on after which a pod should be gone.
const OVERDUE: i64 = 120;

impl PodFinding for PodTerminating {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let serving = match pod.in_slices {
            Verdict::LeftOut(LeftOut::Terminating) => pod.pod.is_ready(),
            Verdict::LeftOut(LeftOut::Terminal) if pod.pod.is_terminating() => false,
            Verdict::Published { ready: false, terminating: true, serving, .. } => *serving,
            _ => return None,
        };
        let silent_node = match (&pod.pod.node_name, pod.node) {
            (_, Some(node)) if !node.ready => Some(SilentNode { name: node.name.clone(), exists: true }),
            (Some(name), None) => Some(SilentNode { name: name.clone(), exists: false }),
            _ => None,
        };
        let until = pod.pod.deletion_timestamp;
        let has_ended = pod.pod.is_terminal();
        // Before that, the kubelet has to end its containers.
        let is_over = has_ended || until.is_none_or(|until| until <= pod.now);
        let finalizers = pod.details.filter(|_| is_over);
        let failed = pod.events.iter().filter(|event| *event.reason == *"FailedKillPod");
        let failed = failed.max_by_key(|event| event.last);
        Some(Self {
            until,
            serving,
            has_ended,
            finalizers: finalizers.map(|details| details.finalizers.clone()).unwrap_or_default(),
            disruption: pod.disruption(),
            silent_node,
            node: pod.pod.node_name.clone(),
            owner: pod.owner,
            overdue_seconds: until.map(|until| age::since(until, pod.now)),
            kill_says: failed.map(|event| event.message.clone()).unwrap_or_default(),
        })
    }

    fn message(all: &[&Self]) -> String {
        let [Self { finalizers, disruption, silent_node, .. }, ..] = all else { return String::new() };
        let serving = all.iter().filter(|one| one.serving).count();
        if silent_node.is_none() && (1..all.len()).contains(&serving) {
            let answer = if serving == 1 { "answers" } else { "answer" };
            return format!("the pods are being deleted, of which {serving} still {answer}");
        }
        let mut message = "the pod is being deleted".to_owned();
        message += match serving {
            0 if all.iter().all(|one| one.has_ended) => ", and its containers have ended",
            0 => "",
            _ => " and finishes its requests",
        };
        if let Some(disruption) = disruption {
            message += &format!(": {disruption}");
        }
        if let Some(silent) = silent_node {
            let what = if silent.exists { "is not ready" } else { "does not exist" };
            message += &format!("; its node {} {what}, so no kubelet ends it", nodes(all));
        }
        let overdue = all.iter().filter_map(|one| one.overdue_seconds).max();
        if let Some(seconds) = overdue.filter(|seconds| *seconds >= OVERDUE) {
            message += &format!("; its grace period ended {} ago", age::seconds(seconds));
            message += &reported("", &such_as(all, |one| &one.kill_says));
        }
        if let Some(rest) = rest(all) {
            message += &format!("; it may take {}", age::seconds(rest));
        }
        match &**finalizers {
            [] => message,
            [one] => format!("{message}; the finalizer {one} holds it"),
            more => format!("{message}; the finalizers {} hold it", more.join(", ")),
        }
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        let deleted =
            pod.field(".metadata.deletionTimestamp", json!(self.until.map(|until| until.to_string())));
        let finalizers =
            (!self.finalizers.is_empty()).then(|| pod.field(".metadata.finalizers", json!(self.finalizers)));
        std::iter::once(deleted).chain(finalizers).collect()
    }

    fn remedy(all: &[&Self], pods: &PodsOf<'_>) -> Remedy {
        let [Self { disruption, finalizers, silent_node, owner, .. }, ..] = all else {
            return Remedy::default();
        };
        let Some((person, advice, shows)) = advice(all, pods) else {
            return Remedy::new("Nothing; if it lasts, look at its node").shown_by([pods.describe()]);
        };
        let sentence = match (pods.is_alone, silent_node, disruption) {
            // It makes the pod again under the same name, once that is free.
            (true, ..) if *owner == PodOwner::StatefulSet => capital(&advice),
            (true, None, None) if *owner == PodOwner::Other && rest(all).is_some() => format!(
                "Wait until it has ended, or end it sooner, if a Deployment with the strategy Recreate makes the next pod only then; else start a pod in its place; {advice}"
            ),
            (true, ..) => format!("Start a pod in its place; {advice}"),
            (false, None, Some(_)) if finalizers.is_empty() => {
                format!("Nothing, if another pod takes its place; else {advice}")
            }
            (false, ..) => capital(&advice),
        };
        let person = if pods.is_alone && silent_node.is_none() { Person::PodOwner } else { person };
        Remedy::ask(person, sentence).shown_by([shows])
    }

    fn group(&self) -> Option<String> {
        let by = self.disruption.as_ref().map(|disruption| &disruption.reason);
        let exists = self.silent_node.as_ref().map(|node| node.exists);
        Some(format!("{:?} {by:?} {exists:?} {}", self.finalizers, self.has_ended))
    }

    fn is_ending(&self) -> bool {
        true
    }
}

/// Returns the seconds until the end of the longest grace period, if clients may notice them.
fn rest(all: &[&PodTerminating]) -> Option<i64> {
    let rest = all.iter().filter_map(|one| Some(-one.overdue_seconds?)).max();
    rest.filter(|seconds| *seconds >= OVERDUE)
}

/// Lists the nodes that keep the pods.
fn nodes(all: &[&PodTerminating]) -> String {
    first_few(&distinct(all.iter().filter_map(|one| Some(&one.silent_node.as_ref()?.name))))
}

/// Returns who can help such a pod go, what to do as the end of a sentence, and the command that
/// shows more; or `None` if nothing keeps it.
fn advice(all: &[&PodTerminating], pods: &PodsOf<'_>) -> Option<(Person, String, Step)> {
    let PodTerminating { disruption, finalizers, silent_node, node, overdue_seconds, .. } = all.first()?;
    Some(match (silent_node, disruption) {
        (Some(node), _) if node.exists => {
            (ClusterAdministrator, not_ready(&nodes(all)), Step::kubectl(["get", "node", &node.name]))
        }
        (Some(_), _) => (
            ClusterAdministrator,
            "wait a minute: the pod garbage collector of kube-controller-manager deletes pods whose node does not exist; if it stays, look at that controller and at the pod's finalizers".to_owned(),
            pods.describe(),
        ),
        (None, _) if !finalizers.is_empty() => {
            let shows = Step::finalizers(&pods.service.namespace, "pod", pods.pod);
            (Person::PodOwner, held(finalizers), shows)
        }
        (None, _) if overdue_seconds.is_some_and(|seconds| seconds >= OVERDUE) => {
            let node = node.as_deref().unwrap_or_default();
            let advice = format!("look at the kubelet and the container runtime of node {node}, which have not ended it");
            (ClusterAdministrator, advice, pods.describe())
        }
        (None, Some(disruption)) => {
            let (person, advice) = disruption.advice();
            (person, advice.to_owned(), disruption.shows_node().unwrap_or(pods.describe()))
        }
        (None, None) if pods.is_alone => {
            (Person::PodOwner, "if it stays, look at its node".to_owned(), pods.describe())
        }
        (None, None) => return None,
    })
}

/// Says what to do about nodes that are not ready. A program may still run on them, so deleting the
/// pod by force is a request to a person.
fn not_ready(nodes: &str) -> String {
    format!(
        "bring node {nodes} back, so that its kubelet ends the pod; delete the node, or the pod with --force, only if the machine is known to be off for good, because a program that still runs there goes on beside its successor"
    )
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_pod_with_a_finalizer_alone_is_not_being_deleted() {
        let mut pod = json!({"metadata": {"finalizers": ["example.com/drain"]}});
        assert_eq!(code_of(pod.clone()), Code::Published);
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:10:30Z");
        assert_eq!(code_of(pod), Code::PodTerminating);
    }
}
