//! The pod's node is not ready, so the pod is not either.

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use serde::Serialize;

use crate::facts::details::write_optional_time;
use crate::facts::remedy::Person::ClusterAdministrator;
use crate::facts::remedy::{Remedy, Step};
use crate::findings::pod_reason::{PodFinding, reported};

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
    fn remedy(&self, _: &ObjectKey, _: &str) -> Remedy {
        Remedy::ask(ClusterAdministrator, format!("Look at the kubelet of node {}", self.node))
            .shown_by([Step::kubectl(["describe", "node", &self.node])])
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }

    fn node(&self) -> Option<&str> {
        Some(&self.node)
    }

    fn group(&self) -> Option<String> {
        Some(String::new())
    }

    fn keeps_from_answering(&self) -> bool {
        true
    }
}

impl fmt::Display for NodeNotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the pod's node {} is not ready, so the pod was marked not ready", self.node)?;
        reported(f, "", &self.message)
    }
}
