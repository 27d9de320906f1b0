//! The pod's Ready condition is not true.

use crate::facts::details::write_optional_time;
use crate::facts::raw::PodOwner;
use crate::findings::pod_reason::{Disruption, distinct, first_few, reported};
use crate::findings::prelude::*;

about! {
    /// The pod's Ready condition is false, and neither a container, a readiness gate nor the node
    /// explains it. Some client set the condition. The node controller does so while a node is not
    /// ready, without a reason. The kubelet sets it to true again when the node is back; if all
    /// containers are ready and it has not, the advice is to restart it.
    EP017 "not-ready" Warning
    "The pod's Ready condition is not true."
}

/// A pod whose Ready condition is not true.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotReady {
    /// The condition's reason, or empty.
    pub why: Text,
    /// The condition's message, or empty.
    pub message: Text,
    /// Who is about to delete it, if its conditions tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disruption: Option<Disruption>,
    /// The node whose kubelet should set the condition to true, because all containers are
    /// ready and nobody says why the pod is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_on: Option<Text>,
    #[serde(skip)]
    pub owner: PodOwner,
    /// Time of the last change of the condition.
    #[serde(serialize_with = "write_optional_time")]
    pub since: Option<Timestamp>,
}

impl NotReady {
    /// Returns the reason of a pod that is about to be deleted: who does so ends its containers,
    /// too, so it comes before them.
    pub(super) fn about_to_be_deleted(pod: &Judged<'_>) -> Option<Self> {
        Self::find(pod).filter(|reason| reason.disruption.is_some())
    }
}

impl PodFinding for NotReady {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let ready = pod.condition("Ready");
        let is_silent = ready.is_some_and(|ready| ready.reason.is_empty() && ready.message.is_empty());
        let is_stale = is_silent && pod.is_true("ContainersReady");
        (pod.is_unready() && pod.pod.ready.is_some()).then(|| Self {
            why: ready.map(|ready| ready.reason.clone()).unwrap_or_default(),
            message: ready.map(|ready| ready.message.clone()).unwrap_or_default(),
            disruption: pod.disruption(),
            stale_on: pod.node.filter(|_| is_stale).map(|node| node.name.clone()),
            owner: pod.owner,
            since: pod.not_ready_since(),
        })
    }

    fn message(all: &[&Self]) -> String {
        let [first, ..] = all else { return String::new() };
        let nodes = nodes(all);
        match (&first.disruption, &*nodes) {
            (Some(disruption), _) => format!("the pod is about to be deleted: {disruption}"),
            (None, "") => {
                format!("the condition Ready is not true{}", reported(&first.why, &first.message))
            }
            (None, nodes) => format!(
                "the condition Ready is not true, although all containers are ready: another client than the kubelet set it, as the node controller does while a node is not ready, and the kubelet has not corrected it (node {nodes})"
            ),
        }
    }

    fn remedy(all: &[&Self], pods: &PodsOf<'_>) -> Remedy {
        let [first, ..] = all else { return Remedy::default() };
        match (&first.disruption, &*nodes(all)) {
            (Some(disruption), _) => {
                let (person, advice) = disruption.advice();
                Remedy::ask(person, format!("Nothing, if another pod takes its place; else {advice}"))
                    .shown_by([pods.describe()].into_iter().chain(disruption.shows_node()))
            }
            (None, "") => {
                Remedy::ask(Person::PodOwner, "Look at the pod's conditions").shown_by([pods.describe()])
            }
            (None, nodes) => {
                let sentence = format!(
                    "Restart the kubelet (node {nodes}), which sets the condition anew; only if that does not help, {}",
                    replace(first.owner)
                );
                let save = (first.owner == PodOwner::Nobody).then(|| pods.save());
                Remedy::ask(ClusterAdministrator, sentence).shown_by(save)
            }
        }
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }

    fn group(&self) -> Option<String> {
        self.stale_on.as_ref().map(|_| format!("stale {:?}", self.owner))
    }
}

/// Lists the nodes whose kubelets should correct the condition.
fn nodes(all: &[&NotReady]) -> String {
    first_few(&distinct(all.iter().filter_map(|one| one.stale_on.as_deref())))
}

/// Says how to replace a pod, as the end of a sentence.
fn replace(owner: PodOwner) -> &'static str {
    match owner {
        PodOwner::Nobody => "save the pod, which nothing makes again, then delete it and create it anew",
        PodOwner::Node => "restart the container runtime",
        _ => "delete such pods one by one, which their controller makes again",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::testing::*;

    #[test]
    fn a_condition_that_nothing_explains_is_told_itself() {
        assert_eq!(code_of(with_conditions(&[("Ready", "False")])), Code::NotReady);
        let explained = with_conditions(&[("Ready", "False"), ("ContainersReady", "False")]);
        assert_eq!(code_of(explained), Code::ContainerNotReady);
        let gated = json!({"spec": {"readinessGates": [{"conditionType": "lb"}]},
            "status": with_conditions(&[("Ready", "False")])["status"]});
        assert_eq!(code_of(gated), Code::ReadinessGateNotMet);
    }

    #[test]
    fn no_advice_ends_a_pod_without_a_look_at_what_makes_it_again() {
        let told = of_each_owner(|owner, pods| {
            let (why, message, disruption, since) = Default::default();
            let stale = NotReady { why, message, disruption, stale_on: Some("a".into()), owner, since };
            NotReady::remedy(&[&stale], pods)
        });
        insta::assert_snapshot!(told);
    }
}
