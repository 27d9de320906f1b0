//! The pod is bound to no node.

use std::collections::BTreeSet;

use kube_endpoint_core_model::LeftOut;
use serde_json::json;

use crate::facts::details::write_optional_time;
use crate::findings::pod_reason::reported;
use crate::findings::prelude::*;
use crate::findings::words::capital;

about! {
    /// The scheduler has found no node for the pod. Its message says why, and each cause that it
    /// names has its own advice. If the pod has no condition `PodScheduled`, no scheduler has
    /// looked at it. The scheduler ignores a pod with scheduling gates until other programs have
    /// removed them; the message names the gates. Taints that nodes have while something is wrong
    /// with them, such as `node.kubernetes.io/disk-pressure`, are told apart from those that
    /// somebody chose. Since Kubernetes 1.35, the scheduler's message names no taints; the finding
    /// has those of the nodes then.
    EP022 "not-scheduled" Warning
    "The pod is bound to no node."
}

/// A pod that is bound to no node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotScheduled {
    /// The scheduler's reason, such as `Unschedulable`, or `None` if no scheduler has looked at
    /// the pod.
    pub why: Option<Text>,
    /// The scheduler's message, or empty.
    pub message: Text,
    /// `spec.schedulerName`, or empty if it is the default one.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub scheduler: Text,
    /// `spec.nodeSelector`, as `key=value`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_selector: Vec<Text>,
    /// The gates that keep the scheduler from looking at the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Text>,
    /// The PersistentVolumeClaims of the pod.
    #[serde(skip)]
    pub claims: Vec<Text>,
    /// The taints of the nodes, if the message tells of taints and names none.
    #[serde(skip)]
    pub taints: BTreeSet<Text>,
    #[serde(serialize_with = "write_optional_time")]
    pub since: Option<Timestamp>,
}

/// Words of kube-scheduler in lower case, what to do about each, and the command that shows more.
const CAUSES: [(&str, &str, Shows); 13] = [
    ("insufficient ", "give the cluster more room, or let the pod request less", Shows::Room),
    ("too many pods", "give the cluster more nodes, or let each take more pods", Shows::Pod),
    ("were unschedulable", "uncordon the nodes whose maintenance is over", Shows::Taints),
    (
        "didn't match pod's node affinity/selector",
        "correct the pod's nodeSelector or node affinity, or the labels of the nodes",
        Shows::Labels,
    ),
    ("pod affinity rules", "look at the pods that its affinity asks for", Shows::Pod),
    (
        "anti-affinity rules",
        "give the cluster more nodes for its anti-affinity, or make that a preference",
        Shows::Pod,
    ),
    (
        "topology spread constraints",
        "give each zone or node of its topologySpreadConstraints room",
        Shows::Pod,
    ),
    (
        "persistentvolumeclaim",
        "look at its PersistentVolumeClaims, which are not bound or do not exist",
        Shows::Claims,
    ),
    (
        "available persistent volumes to bind",
        "look at the storage class of its PersistentVolumeClaims, which finds no volume",
        Shows::Claims,
    ),
    (
        "volume node affinity conflict",
        "give the zone or the node of the pod's volume room for the pod",
        Shows::Claims,
    ),
    ("exceed max volume count", "give the cluster more nodes, which take more volumes", Shows::Claims),
    (
        "free ports",
        "another pod of that node has the host port, often the one that this pod replaces: give a Deployment of such pods maxSurge 0 and maxUnavailable 1, or the cluster more nodes",
        Shows::Pod,
    ),
    ("untolerated taint", "", Shows::Taints),
];

/// The remedies for taints. The first one of a node that the scheduler names counts.
const TAINTS: [(&str, &str); 9] = [
    (
        "node.kubernetes.io/disk-pressure",
        "free disk space on the nodes with disk pressure: images, logs and emptyDir volumes; the scheduler then takes them again",
    ),
    (
        "node.kubernetes.io/memory-pressure",
        "free memory on the nodes with memory pressure, or let their pods use less",
    ),
    ("node.kubernetes.io/pid-pressure", "end processes on the nodes that run short of process ids"),
    ("node.kubernetes.io/not-ready", "bring the nodes back that are not ready"),
    ("node.kubernetes.io/unreachable", "bring the nodes back whose kubelets do not answer"),
    ("node.kubernetes.io/unschedulable", "uncordon the nodes whose maintenance is over"),
    ("node.kubernetes.io/network-unavailable", "look at the network plugin of the nodes without a network"),
    (
        "node.cloudprovider.kubernetes.io/uninitialized",
        "look at the cloud controller manager, which has not initialised the nodes",
    ),
    ("node-role.kubernetes.io/control-plane", "give the cluster more worker nodes"),
];

/// The advice for taints that somebody chose.
const OTHER_TAINT: &str =
    "let the pod tolerate the taints of the nodes for it, or remove those that are there by mistake";

/// The command that shows more about a cause.
#[derive(Clone, Copy, PartialEq)]
enum Shows {
    Pod,
    Claims,
    Labels,
    Room,
    Taints,
}

impl Shows {
    fn step(self, pods: &PodsOf<'_>) -> Step {
        let columns = |columns| Step::kubectl(["get", "nodes", "-o", columns]);
        match self {
            Self::Pod => pods.describe(),
            Self::Claims => Step::kubectl_in(&pods.service.namespace, ["get", "pvc"]),
            Self::Labels => Step::kubectl(["get", "nodes", "--show-labels"]),
            Self::Room => columns(
                "custom-columns=NAME:.metadata.name,CPU:.status.allocatable.cpu,MEMORY:.status.allocatable.memory",
            ),
            Self::Taints => columns("custom-columns=NAME:.metadata.name,TAINTS:.spec.taints[*].key"),
        }
    }
}

/// Returns true if a message tells of taints and names none, as since Kubernetes 1.35.
fn hides_taints(message: &str) -> bool {
    message.contains("untolerated taint(s)")
}

/// Returns the advice about the taints that a message in lower case names, or else those of the
/// nodes.
fn taints(message: &str, of_nodes: &BTreeSet<Text>) -> Vec<&'static str> {
    let named = message.split('{').skip(1).filter_map(|rest| rest.split([':', '}']).next());
    let named = named.chain(of_nodes.iter().map(|key| &**key));
    let advice = |taint: &str| TAINTS.iter().find(|(key, _)| *key == taint.trim()).map(|(_, advice)| *advice);
    let mut all: Vec<&str> = named.map(|taint| advice(taint).unwrap_or(OTHER_TAINT)).collect();
    all.dedup();
    // Others bear more on the pod than the nodes that are not for pods at all.
    let of_control_plane = TAINTS.last().map_or("", |(_, advice)| *advice);
    if all.iter().any(|advice| *advice != of_control_plane) {
        all.retain(|advice| *advice != of_control_plane);
    }
    if all.is_empty() { vec![OTHER_TAINT] } else { all }
}

impl PodFinding for NotScheduled {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let is_nowhere = match pod.left_out()? {
            LeftOut::NoAddress => pod.pod.node_name.is_none(),
            LeftOut::NodeNotFound { node } => node.is_empty(),
            _ => false,
        };
        let scheduled = pod.condition("PodScheduled");
        let scheduler = pod.details.map(|details| &details.scheduler_name);
        let scheduler = scheduler.filter(|name| ***name != *"default-scheduler");
        is_nowhere.then(|| Self {
            why: scheduled.map(|condition| condition.reason.clone()),
            message: scheduled.map(|condition| condition.message.clone()).unwrap_or_default(),
            scheduler: scheduler.cloned().unwrap_or_default(),
            node_selector: pod.details.map(|details| details.node_selector.clone()).unwrap_or_default(),
            taints: scheduled.filter(|it| hides_taints(&it.message)).map_or_else(BTreeSet::new, |_| {
                pod.nodes.values().flat_map(|node| &node.taints).cloned().collect()
            }),
            claims: pod.details.map(|details| details.claims.clone()).unwrap_or_default(),
            gates: pod.details.map(|details| details.scheduling_gates.clone()).unwrap_or_default(),
            since: scheduled.and_then(|condition| condition.last_transition_time),
        })
    }

    fn message(all: &[&Self]) -> String {
        let [Self { why, message, gates, scheduler, node_selector, taints, .. }, ..] = all else {
            return String::new();
        };
        let of_nodes = match taints.len() {
            0 => String::new(),
            _ => {
                format!("; the nodes have {}", taints.iter().map(|key| &**key).collect::<Vec<_>>().join(", "))
            }
        };
        let why = match (&**gates, why) {
            ([], None) if scheduler.is_empty() => {
                ", and no scheduler has reported on it; default-scheduler should".to_owned()
            }
            ([], None) => format!(", and its scheduler, {scheduler}, has not reported on it"),
            ([], Some(_)) if message.contains("node affinity/selector") && !node_selector.is_empty() => {
                format!("{}; its nodeSelector is {}", reported("", message), node_selector.join(","))
            }
            ([], Some(_)) => reported("", message),
            ([gate], _) => format!(": the scheduling gate {gate} holds it"),
            (gates, _) => format!(": the scheduling gates {} hold it", gates.join(", ")),
        };
        format!("the pod is bound to no node{why}{of_nodes}")
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        let gates = (!self.gates.is_empty()).then(|| pod.field(".spec.schedulingGates", json!(self.gates)));
        std::iter::once(pod.condition("PodScheduled")).chain(gates).collect()
    }

    fn remedy(all: &[&Self], pods: &PodsOf<'_>) -> Remedy {
        let [Self { why, message, gates, scheduler, taints, .. }, ..] = all else { return Remedy::default() };
        if why.is_none() && gates.is_empty() && !scheduler.is_empty() {
            let sentence =
                format!("Start {scheduler}, which the pod's spec.schedulerName names, or correct the name");
            return Remedy::ask(ClusterAdministrator, sentence).shown_by([pods.describe()]);
        }
        if gates.is_empty() {
            let claims: BTreeSet<&Text> = all.iter().flat_map(|one| &one.claims).collect();
            let claims: Vec<Text> = claims.into_iter().cloned().collect();
            return naming(remedy_of(why.as_deref(), message, taints, pods), &claims);
        }
        let sentence = format!(
            "Look at the program that removes {} from spec.schedulingGates; the scheduler ignores the pod until then",
            gates.join(" and ")
        );
        Remedy::ask(PodOwner, sentence).shown_by([pods.describe()])
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }
}

/// Returns a remedy with the names of the claims that it says to look at.
fn naming(remedy: Remedy, claims: &[Text]) -> Remedy {
    const CLAIMS: &str = "its PersistentVolumeClaims";
    if claims.is_empty() || !remedy.sentence.contains(CLAIMS) {
        return remedy;
    }
    let named = match claims {
        [one] => format!("its PersistentVolumeClaim {one}"),
        all => format!("{CLAIMS} {}", names(all)),
    };
    let sentence = remedy.sentence.replace(CLAIMS, &named);
    let sentence = match claims.len() {
        1 => sentence.replace("which are not bound or do not exist", "which is not bound or does not exist"),
        _ => sentence,
    };
    remedy.saying(sentence)
}

/// Returns the remedy for the reason and the message of the condition `PodScheduled`. `why` is
/// `None` if the pod has no such condition.
fn remedy_of(why: Option<&str>, message: &str, of_nodes: &BTreeSet<Text>, pods: &PodsOf<'_>) -> Remedy {
    let Some(why) = why else {
        return Remedy::ask(
            ClusterAdministrator,
            "Look at kube-scheduler, which has not reported on the pod: does it run?",
        )
        .shown_by([pods.describe()]);
    };
    if why == "SchedulerError" {
        return Remedy::ask(ClusterAdministrator, "Look at the log of the scheduler, which failed")
            .shown_by([pods.describe()]);
    }
    // The rest says why preemption would not help.
    let causes = message.split(" preemption: ").next().unwrap_or_default().to_lowercase();
    let (mut advice, mut shows) = (Vec::new(), Vec::new());
    for (_, what, show) in CAUSES.iter().filter(|(words, ..)| causes.contains(words)) {
        match *what {
            "" => advice.extend(taints(&causes, of_nodes)),
            what => advice.push(what),
        }
        if !shows.contains(show) {
            shows.push(*show);
        }
    }
    if advice.is_empty() {
        return Remedy::ask(PodOwner, "Look at the scheduler's events").shown_by([pods.describe()]);
    }
    let person = if shows.contains(&Shows::Taints) { ClusterAdministrator } else { PodOwner };
    let shows = shows.into_iter().map(|shows| shows.step(pods));
    Remedy::ask(person, capital(&advice.join("; "))).shown_by(shows)
}

#[cfg(test)]
mod tests {
    use kube_endpoint_core_model::ObjectKey;

    use super::*;
    use crate::findings::testing::*;

    #[test]
    fn the_taints_of_the_nodes_count_if_the_scheduler_names_none() {
        let of_nodes = BTreeSet::from(["node.kubernetes.io/disk-pressure".into(), TAINTS[8].0.into()]);
        let advice = taints("2 node(s) had untolerated taint(s).", &of_nodes);
        assert_eq!(advice, [TAINTS[0].1]);
    }

    #[test]
    fn a_pod_waits_for_a_node_before_it_waits_for_an_address() {
        let pod = |node: Option<&str>| json!({"spec": {"nodeName": node}, "status": {"podIP": null, "podIPs": null}});
        assert_eq!(code_of(pod(None)), Code::NotScheduled);
        assert_eq!(code_of(pod(Some("a"))), Code::NoAddress);
    }

    #[test]
    fn the_claims_that_keep_a_pod_from_a_node_are_named() {
        let service = ObjectKey::new("default", "web");
        let pods = PodsOf { service: &service, pod: "web-1", is_alone: false };
        let of = |message: &str, claims: &[Text]| {
            naming(remedy_of(Some("Unschedulable"), message, &BTreeSet::new(), &pods), claims).sentence
        };
        let unbound = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.";
        insta::assert_snapshot!(
            [
                of(unbound, &["data".into()]),
                of(unbound, &["data".into(), "logs".into()]),
                of("0/1 nodes are available: 1 Insufficient cpu.", &["data".into()]),
            ]
            .join("\n")
        );
    }

    /// The messages are those of kube-scheduler 1.36.
    #[test]
    fn each_cause_that_the_scheduler_names_has_its_advice() {
        let service = ObjectKey::new("default", "web");
        let pods = PodsOf { service: &service, pod: "web-1", is_alone: false };
        let of = |why: Option<&str>, message: &str| {
            let remedy = remedy_of(why, message, &BTreeSet::new(), &pods);
            let commands: Vec<String> = remedy.commands().collect();
            format!("{why:?} {message}\n  {}\n  {}", remedy.sentence, commands.join("\n  "))
        };
        let unschedulable = |message: &str| of(Some("Unschedulable"), message);
        let texts = [
            of(None, ""),
            of(Some("SchedulerError"), "context deadline exceeded"),
            unschedulable(
                "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) had untolerated taint {key: value}. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            ),
            unschedulable("0/3 nodes are available: 3 Too many pods."),
            unschedulable("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."),
            unschedulable("0/3 nodes are available: 3 node(s) didn't match pod anti-affinity rules."),
            unschedulable("0/3 nodes are available: 3 node(s) didn't match pod affinity rules."),
            unschedulable("0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints."),
            unschedulable(
                "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
            ),
            unschedulable("persistentvolumeclaim \"data\" not found"),
            unschedulable("0/3 nodes are available: 1 node(s) had volume node affinity conflict."),
            unschedulable(
                "0/3 nodes are available: 3 node(s) didn't have free ports for the requested pod ports.",
            ),
            unschedulable("no nodes available to schedule pods"),
            unschedulable(
                "0/2 nodes are available: 2 node(s) had untolerated taint {node.kubernetes.io/disk-pressure: }. preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.",
            ),
            unschedulable(
                "0/3 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }, 2 node(s) had untolerated taint {node.kubernetes.io/unreachable: }.",
            ),
            unschedulable(
                "0/1 nodes are available: 1 node(s) had untolerated taint {node-role.kubernetes.io/control-plane: }.",
            ),
            unschedulable("0/3 nodes are available: 3 node(s) had untolerated taint(s)."),
            unschedulable("0/3 nodes are available: 1 Insufficient memory, 2 node(s) were unschedulable."),
        ];
        insta::assert_snapshot!(texts.join("\n"));
    }
}
