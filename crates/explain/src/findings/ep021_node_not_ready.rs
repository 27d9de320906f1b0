//! The pod's node is not ready, so the pod is not either.

use kube_endpoint_core_model::{Text, Timestamp};
use serde::Serialize;

use crate::facts::details::write_optional_time;
use crate::facts::remedy::Person::ClusterAdministrator;
use crate::facts::remedy::{Remedy, Step};
use crate::findings::pod::Judged;
use crate::findings::pod_reason::{PodFinding, PodsOf, common, distinct, first_few, reported};

about! {
    /// The node's Ready condition is not true, so the node lifecycle controller has set the pod's
    /// Ready condition to false. The pod itself may still run. The message has what the node's
    /// condition says.
    EP021 "node-not-ready" Warning
    "The pod's node is not ready, so the pod is not either."
}

/// A pod that is not ready because its node is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeNotReady {
    pub node: Text,
    /// The message of the node's Ready condition, or empty.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub message: Text,
    /// Since when the pod is not ready.
    #[serde(serialize_with = "write_optional_time")]
    pub since: Option<Timestamp>,
}

impl PodFinding for NodeNotReady {
    fn find(pod: &Judged<'_>) -> Option<Self> {
        let node = pod.node.filter(|node| !node.ready && pod.may_not_answer() && pod.pod.ready.is_some())?;
        let (node, message) = (node.name.clone(), pod.node_message());
        Some(Self { node, message, since: pod.not_ready_since() })
    }

    fn message(all: &[&Self]) -> String {
        let [first, ..] = all else { return String::new() };
        match &*nodes(all) {
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
        Some(String::new())
    }

    fn keeps_from_answering(&self) -> bool {
        true
    }
}

fn nodes<'a>(all: &[&'a NodeNotReady]) -> Vec<&'a Text> {
    distinct(all.iter().map(|one| &one.node))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::findings::Code;
    use crate::findings::testing::example;

    #[test]
    fn a_pod_of_a_ready_node_has_another_reason() {
        let not_ready = example("ep021-node-not-ready");
        assert!(not_ready.finds(Code::NodeNotReady));
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert!(!not_ready.with("Node/node-a", ready).finds(Code::NodeNotReady));
    }
}
