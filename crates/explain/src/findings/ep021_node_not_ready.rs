//! The pod's node is not ready, so the pod is not either, or should not be.

use crate::facts::age;
use crate::facts::details::write_optional_time;
use crate::findings::pod::Publication;
use crate::findings::pod_reason::{common, distinct, first_few, reported};
use crate::findings::prelude::*;

about! {
    /// The node's Ready condition is not true, so the node lifecycle controller sets the pod's
    /// Ready condition to false. The pod itself may still run. If the pod is still ready half a
    /// minute later, clients are sent to a node that may be gone. The message has what the node's
    /// condition says.
    EP021 "node-not-ready" Warning
    "The pod's node is not ready, so the pod is not either, or should not be."
}

/// The seconds in which the node lifecycle controller marks the pods of a node.
const MARKED_AFTER: i64 = 30;

/// A pod that is not ready because its node is not, or that should not be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeNotReady {
    pub node: Text,
    /// The message of the node's Ready condition, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub message: Text,
    /// True if the pod is ready.
    pub is_ready: bool,
    /// Since when the pod is not ready, or the node of a ready pod.
    #[serde(serialize_with = "write_optional_time")]
    pub since: Option<Timestamp>,
}

impl PodFinding for NodeNotReady {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let node = pod.node.filter(|node| !node.ready && pod.may_not_answer() && pod.pod.ready.is_some())?;
        let (node, message) = (node.name.clone(), pod.node_message());
        Some(Self { node, message, is_ready: false, since: pod.not_ready_since() })
    }

    fn message(all: &[&Self]) -> String {
        let [first, ..] = all else { return String::new() };
        match &*nodes(all) {
            nodes if first.is_ready => {
                let nodes = first_few(nodes);
                format!(
                    "the node is not ready, and clients are still sent to the pod there: {nodes}{}",
                    reported("", &first.message)
                )
            }
            [node] => {
                let reported = reported("", &first.message);
                format!("the pod's node {node} is not ready, so the pod was marked not ready{reported}")
            }
            nodes => {
                let message = match common(all, |one| &one.message) {
                    "" => String::new(),
                    message => format!(" ({})", message.trim_end_matches('.')),
                };
                let nodes = first_few(nodes);
                format!("their nodes are not ready, so the pods were marked not ready: {nodes}{message}")
            }
        }
    }

    fn evidence(&self, pod: &PodRead<'_>) -> Vec<Evidence> {
        vec![pod.of_service.node_ready(&self.node), pod.condition("Ready")]
    }

    fn remedy(all: &[&Self], _: &PodsOf<'_>) -> Remedy {
        let [first, ..] = all else { return Remedy::default() };
        let sentence = match &*nodes(all) {
            [node] => format!("Look at the kubelet of node {node}"),
            nodes => format!("Look at the kubelets of nodes {}", first_few(nodes)),
        };
        Remedy::ask(ClusterAdministrator, sentence).shown_by([Step::kubectl([
            "describe",
            "node",
            &first.node,
        ])])
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }

    fn group(&self) -> Option<String> {
        Some(self.is_ready.to_string())
    }

    fn receives_traffic(&self) -> bool {
        self.is_ready
    }

    fn keeps_from_answering(&self) -> bool {
        !self.is_ready
    }
}

impl NodeNotReady {
    /// Returns the finding about a pod that is published as ready.
    pub(super) fn of_ready_pod(pod: &Judged<'_>) -> Option<Self> {
        let node = pod.node.filter(|node| !node.ready && pod.publication() == Publication::Ready)?;
        let since = pod.node_details?.not_ready_since;
        let lasts = since.is_some_and(|since| age::since(since, pod.now) >= MARKED_AFTER);
        let (node, message) = (node.name.clone(), pod.node_message());
        lasts.then_some(Self { node, message, is_ready: true, since })
    }
}

fn nodes<'a>(all: &[&'a NodeNotReady]) -> Vec<&'a Text> {
    distinct(all.iter().map(|one| &one.node))
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_pod_of_a_ready_node_has_another_reason() {
        let not_ready = example("ep021-node-not-ready");
        assert!(not_ready.finds(Code::NodeNotReady));
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert!(!not_ready.with("Node/node-a", ready).finds(Code::NodeNotReady));
    }
}
