//! The pod has ended for good.

use kube_endpoint_core_model::LeftOut;

use crate::facts::details::{ContainerKind, ContainerState, Ended, RunState};
use crate::findings::pod::called;
use crate::findings::pod_reason::{Disruption, common, distinct, first_few, reported};
use crate::findings::prelude::*;

about! {
    /// The pod's phase is Succeeded or Failed. Its address may belong to another pod by now, so no
    /// controller publishes it. If the Service has no other pods, the severity is error. The
    /// message names the reason if the pod's status has one, such as `Evicted`, or else who ended
    /// it by the condition `DisruptionTarget`, or else the container that failed and its exit code.
    /// If the kubelet of a node did not take the pod (`UnexpectedAdmissionError`, `OutOfcpu` and
    /// others), the message names the node: a pod in its place may come to the same node, so the
    /// advice is to look at that node first.
    EP010 "pod-finished" Info
    "The pod has ended for good."
}

/// A pod that has ended for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodFinished {
    /// `status.reason`, such as `Evicted`, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub why: Text,
    /// `status.message`, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub message: Text,
    /// The first container that ended with an error, and its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<FailedContainer>,
    /// Who ended it, if its conditions tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption: Option<Disruption>,
    /// Its node, if it was bound to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<Text>,
    /// The Job that it is of, as its labels say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<Text>,
}

/// A container that ended with an error. Prints as `container app: exit code 1, Error`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FailedContainer {
    pub name: Text,
    pub kind: ContainerKind,
    pub end: Ended,
}

/// Reasons of the condition Ready of a pod that ends.
const ENDS: [&str; 2] = ["PodFailed", "PodCompleted"];

impl PodFinding for PodFinished {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        // The kubelet says so in the condition Ready before it writes the phase.
        let ready = pod.condition("Ready").filter(|_| pod.is_unready());
        let ends = ready.map(|ready| &ready.reason).filter(|why| ENDS.contains(&&***why));
        let is_over = pod.left_out() == Some(&LeftOut::Terminal) && !pod.pod.is_terminating();
        if !is_over && ends.is_none() {
            return None;
        }
        let details = pod.details;
        let failed = |container: &ContainerState| match &container.state {
            RunState::Ended(end) if end.exit_code != 0 => {
                Some(FailedContainer { name: container.name.clone(), kind: container.kind, end: end.clone() })
            }
            _ => None,
        };
        let failed = details.and_then(|details| details.containers.iter().find_map(failed));
        let ends = ends.filter(|why| failed.is_none() && ***why == *ENDS[0]);
        let why = details.map(|details| details.reason.clone()).filter(|why| !why.is_empty());
        let labels = &pod.pod.labels;
        let job = labels.get("batch.kubernetes.io/job-name").or_else(|| labels.get("job-name"));
        Some(Self {
            why: why.or(ends.cloned()).unwrap_or_default(),
            message: details.map(|details| details.message.clone()).unwrap_or_default(),
            failed,
            disruption: pod.disruption(),
            node: pod.pod.node_name.clone(),
            job: job.cloned(),
        })
    }

    fn message(all: &[&Self]) -> String {
        let [first, ..] = all else { return String::new() };
        let message = common(all, |one| &one.message);
        let nodes = distinct(all.iter().filter_map(|one| one.node.as_deref()));
        let jobs = distinct(all.iter().filter_map(|one| one.job.as_deref()));
        let the_pod = match &*jobs {
            [] => "the pod".to_owned(),
            jobs => format!("the pod of Job {}", first_few(jobs)),
        };
        match (&first.disruption, &first.failed) {
            (Some(disruption), _) if first.why.is_empty() => {
                format!("the pod has ended for good: {disruption}")
            }
            _ if first.is_rejected() && !nodes.is_empty() => {
                let node = if nodes.len() == 1 { "node" } else { "nodes" };
                let pods = if all.len() == 1 { "the pod" } else { "the pods" };
                let message = message.strip_prefix(REJECTED).unwrap_or(message);
                let reported = reported(&first.why, message);
                format!("{node} {} rejected {pods} for good{reported}", first_few(&nodes))
            }
            (_, Some(failed)) if first.why.is_empty() => format!("{the_pod} has failed for good: {failed}"),
            _ if first.why.is_empty() => format!("{the_pod} has ended for good (phase Succeeded or Failed)"),
            _ => format!("{the_pod} has ended for good{}", reported(&first.why, message)),
        }
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        let ended = self.failed.iter().flat_map(|failed| pod.container_named(&failed.name));
        std::iter::once(pod.phase()).chain(ended).collect()
    }

    fn remedy(all: &[&Self], pods: &PodsOf<'_>) -> Remedy {
        let [Self { why, failed, disruption, node, .. }, ..] = all else { return Remedy::default() };
        let is_rejected = all.iter().any(|one| one.is_rejected());
        let is_alone = pods.is_alone && !is_rejected;
        match (failed, node) {
            (Some(failed), _) if why.is_empty() && disruption.is_none() => {
                let sentence = match is_alone {
                    true => "Look at why the pod ended, and start one in its place".to_owned(),
                    false => format!("Look at why {} failed", called(failed.kind, &failed.name)),
                };
                Remedy::ask(Person::PodOwner, sentence).shown_by([pods.logs(&failed.name)])
            }
            (_, Some(node)) if is_rejected => rejected_remedy(why, node).shown_by([pods.describe()]),
            _ if !why.is_empty() || disruption.is_some() => {
                let (person, sentence) = ended_by(why, disruption.as_ref(), is_alone);
                Remedy::ask(person, sentence).shown_by([pods.describe()])
            }
            _ if is_alone => Remedy::ask(
                Person::ServiceOwner,
                "Start a pod that keeps running; if the work is done, delete the Service",
            ),
            _ => Remedy::ask(
                Person::ServiceOwner,
                "Nothing, if it has done its work; a Service should select pods that keep running",
            ),
        }
    }

    fn group(&self) -> Option<String> {
        let Self { why, failed, disruption, .. } = self;
        let (failed, by) = (failed.as_ref(), disruption.as_ref().map(|it| &it.reason));
        let is_of_job = self.job.is_some();
        Some(format!(
            "{why} {:?} {by:?} {is_of_job}",
            failed.map(|failed| (&failed.name, failed.end.exit_code))
        ))
    }

    fn is_ending(&self) -> bool {
        true
    }
}

impl PodFinished {
    /// Returns true if the kubelet of its node did not take the pod.
    fn is_rejected(&self) -> bool {
        self.message.starts_with(REJECTED)
            || REJECTIONS.iter().any(|(reason, _)| self.why.starts_with(reason))
    }
}

impl fmt::Display for FailedContainer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", called(self.kind, &self.name), self.end)
    }
}

/// Says what to do about a pod that has ended for good, if `status.reason` or the condition
/// `DisruptionTarget` tells why. `is_alone` is true if the Service has only such pods.
fn ended_by(why: &str, disruption: Option<&Disruption>, is_alone: bool) -> (Person, String) {
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

/// Returns the remedy for pods that the kubelet of a node did not take. A pod in their place may
/// come to the same node.
fn rejected_remedy(why: &str, node: &str) -> Remedy {
    let at = REJECTIONS.iter().find(|(reason, _)| why.starts_with(reason));
    let at = at.map_or("what the message names", |(_, at)| *at);
    let sentence = format!(
        "Look at node {node}: at {at}; cordon it until then, so that pods go to other nodes, and start the pod again if no controller does"
    );
    Remedy::ask(ClusterAdministrator, sentence)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_pod_whose_phase_is_final_has_ended() {
        assert_eq!(code_of(json!({"status": {"phase": "Succeeded"}})), Code::PodFinished);
        assert_eq!(code_of(json!({"status": {"phase": "Running"}})), Code::Published);
    }
}
