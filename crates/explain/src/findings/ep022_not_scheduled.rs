//! The pod is bound to no node.

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use serde::Serialize;

use crate::facts::details::write_optional_time;
use crate::facts::remedy::Person::PodOwner;
use crate::facts::remedy::Remedy;
use crate::findings::pod_reason::{PodFinding, describe, reported, scheduling};

about! {
    /// The scheduler has found no node for the pod. Its message says why, and each cause that it
    /// names has its own advice. If the pod has no condition `PodScheduled`, no scheduler has
    /// looked at it. The scheduler ignores a pod with scheduling gates until other programs have
    /// removed them; the message names the gates. Taints that nodes have while something is wrong
    /// with them, such as `node.kubernetes.io/disk-pressure`, are told apart from those that
    /// somebody chose.
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
    /// The gates that keep the scheduler from looking at the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Text>,
    #[serde(serialize_with = "write_optional_time")]
    pub since: Option<Timestamp>,
}

impl PodFinding for NotScheduled {
    fn remedy(&self, service: &ObjectKey, pod: &str) -> Remedy {
        if self.gates.is_empty() {
            return scheduling::remedy(self.why.as_deref(), &self.message, &service.namespace, pod);
        }
        let sentence = format!(
            "Look at the program that removes {} from spec.schedulingGates; the scheduler ignores the pod until then",
            self.gates.join(" and ")
        );
        Remedy::ask(PodOwner, sentence).shown_by([describe(service, pod)])
    }

    fn since(&self) -> Option<Timestamp> {
        self.since
    }
}

impl fmt::Display for NotScheduled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { why, message, gates, .. } = self;
        if !gates.is_empty() {
            let (gate, hold) = if gates.len() == 1 { ("gate", "holds") } else { ("gates", "hold") };
            return write!(
                f,
                "the pod is bound to no node: the scheduling {gate} {} {hold} it",
                gates.join(", ")
            );
        }
        if why.is_none() {
            return f.write_str("the pod is bound to no node, and no scheduler has reported on it");
        }
        f.write_str("the pod is bound to no node")?;
        reported(f, "", message)
    }
}
