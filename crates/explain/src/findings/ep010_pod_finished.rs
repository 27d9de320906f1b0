//! The pod has ended for good.

use std::fmt;

use kube_endpoint_core_model::pod::PodOwner;
use kube_endpoint_core_model::{ObjectKey, Text};
use serde::Serialize;

use crate::facts::remedy::{Person, Remedy};
use crate::findings::pod_reason::{
    Disruption, FailedContainer, PodFinding, containers, describe, ending, finished, is_rejected, rejected,
};

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
    #[serde(skip)]
    pub owner: PodOwner,
}

impl PodFinding for PodFinished {
    fn remedy(&self, service: &ObjectKey, pod: &str) -> Remedy {
        let Self { why, message, failed, disruption, node, .. } = self;
        match (failed, node) {
            (Some(failed), _) if why.is_empty() && disruption.is_none() => {
                let container = containers::called(failed.kind, &failed.name);
                Remedy::ask(Person::PodOwner, format!("Look at why {container} failed"))
                    .shown_by([containers::logs(&service.namespace, pod, &failed.name)])
            }
            (_, Some(node)) if is_rejected(why, message) => {
                ending::rejected_remedy(why, node).shown_by([describe(service, pod)])
            }
            _ if !why.is_empty() || disruption.is_some() => {
                let (person, sentence) = ending::finished_sentence(why, disruption.as_ref(), false);
                Remedy::ask(person, sentence).shown_by([describe(service, pod)])
            }
            _ => Remedy::ask(
                Person::ServiceOwner,
                "Nothing, if it has done its work; a Service should select pods that keep running",
            ),
        }
    }

    fn node(&self) -> Option<&str> {
        self.node.as_deref().filter(|_| is_rejected(&self.why, &self.message))
    }

    fn group(&self) -> Option<String> {
        let Self { why, failed, disruption, .. } = self;
        let (failed, by) = (failed.as_ref(), disruption.as_ref().map(|it| &it.reason));
        Some(format!("{why} {:?} {by:?}", failed.map(|failed| (&failed.name, failed.end.exit_code))))
    }

    fn is_ending(&self) -> bool {
        true
    }
}

impl fmt::Display for PodFinished {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { why, message, failed, disruption, node, .. } = self;
        match (disruption, node) {
            (Some(disruption), _) if why.is_empty() => write!(f, "the pod has ended for good: {disruption}"),
            (_, Some(node)) if is_rejected(why, message) => {
                rejected(f, &format!("node {node}"), "the pod", why, message)
            }
            _ => finished(f, why, message, failed.as_ref()),
        }
    }
}
