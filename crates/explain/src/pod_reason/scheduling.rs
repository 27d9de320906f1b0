//! The remedy for a pod that is bound to no node.

use crate::Remedy;
use crate::remedy::Person::{ClusterAdministrator, PodOwner};

/// Words of kube-scheduler in lower case, and what to do about each.
const CAUSES: [(&str, &str); 9] = [
    ("insufficient ", "give the cluster more room, or let the pod request less"),
    ("too many pods", "give the cluster more nodes, or let each take more pods"),
    (
        "taint",
        "let the pod tolerate the taints of the nodes for it, or remove those that are there by mistake",
    ),
    (
        "didn't match pod's node affinity/selector",
        "correct the pod's nodeSelector or node affinity, or the labels of the nodes",
    ),
    ("pod affinity rules", "look at the pods that its affinity asks for"),
    ("anti-affinity rules", "give the cluster more nodes for its anti-affinity, or make that a preference"),
    ("topology spread constraints", "give each zone or node of its topologySpreadConstraints room"),
    ("persistentvolumeclaim", "look at its PersistentVolumeClaims, which are not bound or do not exist"),
    ("free ports", "free the host port that the pod asks for, or give the cluster more nodes"),
];

/// Volumes that tie a pod to a zone have words of their own.
const VOLUME: (&str, &str) =
    ("volume node affinity conflict", "give the zone of the pod's volume a node with room");

/// Returns the remedy for the reason and the message of the condition `PodScheduled`. `why` is
/// `None` if the pod has no such condition.
pub(super) fn remedy(why: Option<&str>, message: &str) -> Remedy {
    let Some(why) = why else {
        return Remedy::ask(
            ClusterAdministrator,
            "Start the scheduler that the pod's spec.schedulerName names, or correct the name",
        );
    };
    if why == "SchedulerError" {
        return Remedy::ask(ClusterAdministrator, "Look at the log of the scheduler, which failed");
    }
    // The rest says why preemption would not help.
    let causes = message.split(" preemption: ").next().unwrap_or_default().to_lowercase();
    let told = CAUSES.iter().chain([&VOLUME]).filter(|(words, _)| causes.contains(words));
    let told: Vec<&str> = told.map(|(_, advice)| *advice).collect();
    match told.as_slice() {
        [] => Remedy::ask(PodOwner, "Look at the scheduler's events"),
        told => Remedy::ask(PodOwner, super::capital(&told.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The messages are those of kube-scheduler 1.36.
    #[test]
    fn each_cause_that_the_scheduler_names_has_its_advice() {
        let of = |why: Option<&str>, message: &str| {
            format!("{why:?} {message}\n  {}", remedy(why, message).sentence)
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
        ];
        insta::assert_snapshot!(texts.join("\n"));
    }
}
