//! The pod's Ready condition is not true.

use std::fmt;

use kube_endpoint_core_model::pod::PodOwner;
use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use serde::Serialize;

use crate::facts::details::write_optional_time;
use crate::facts::remedy::{Person, Remedy};
use crate::findings::pod_reason::{Disruption, PodFinding, describe, ending, owner, reported, save};

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

impl PodFinding for NotReady {
    fn remedy(&self, service: &ObjectKey, pod: &str) -> Remedy {
        match (&self.disruption, &self.stale_on) {
            (Some(disruption), _) => ending::disrupted_remedy(disruption).shown_by([describe(service, pod)]),
            (None, Some(node)) => owner::stale(self.owner, node, save(service, pod)),
            (None, None) => Remedy::ask(Person::PodOwner, "Look at the pod's conditions")
                .shown_by([describe(service, pod)]),
        }
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }

    fn node(&self) -> Option<&str> {
        self.stale_on.as_deref()
    }

    fn group(&self) -> Option<String> {
        self.stale_on.as_ref().map(|_| format!("stale {:?}", self.owner))
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.disruption, &self.stale_on) {
            (Some(disruption), _) => write!(f, "the pod is about to be deleted: {disruption}"),
            (None, Some(node)) => write!(
                f,
                "the condition Ready is not true, although all containers are ready: another client than the kubelet set it, as the node controller does while a node is not ready, and the kubelet has not corrected it (node {node})"
            ),
            (None, None) => {
                f.write_str("the condition Ready is not true")?;
                reported(f, &self.why, &self.message)
            }
        }
    }
}
