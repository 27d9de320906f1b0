//! The workload whose pods the Service selects makes none.

use std::fmt;

use kube_endpoint_core_model::{ObjectKey, Text};
use serde::Serialize;

use super::{Fault, Finding};
use crate::facts::remedy::Person::PodOwner;
use crate::facts::remedy::{Remedy, Step};
use crate::facts::workload::{Idle, Workload};
use crate::findings::inputs::FaultInputs;
use crate::models::near::NoPods;
use crate::models::selection::Selection;

about! {
    /// The selector is right: it matches the pod template of a workload, and this workload makes no
    /// pods. It is scaled to zero (with who did that, if the object says so), paused, suspended or
    /// finished, no node matches it, or the API server refuses its pods. Only `explain` reads
    /// workloads, and only if the Service has no pod.
    EP124 "workload-makes-no-pods" Error
    "The workload whose pods the Service selects makes none."
}

/// A workload that makes no pods for the Service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadMakesNoPods {
    pub kind: Text,
    pub workload: Text,
    #[serde(flatten)]
    pub idle: Idle,
}

impl Finding for WorkloadMakesNoPods {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let none_runs = inputs.options.known.pods && inputs.pods.iter().all(|pod| pod.is_terminal());
        let is_meant = || matches!(inputs.why_no_pod(), NoPods::ScaledToZero { .. });
        if !inputs.is_selecting() || !none_runs || is_meant() {
            return Vec::new();
        }
        let selects = |workload: &&Workload| match inputs.selection {
            Selection::Own(selector) => selector.selects(&workload.labels),
            Selection::Attached { selector, .. } => selector.matches(&workload.labels),
            _ => false,
        };
        let of_namespace = inputs.objects.workloads_of(&inputs.service.key.namespace);
        let mut selected: Vec<&Workload> = of_namespace.filter(selects).collect();
        // If another one makes pods, they are on their way.
        if selected.iter().any(|workload| workload.idle.is_none()) {
            selected.clear();
        }
        let found = selected.into_iter().filter_map(|workload| {
            let Workload { kind, key, idle, .. } = workload;
            Some(Self { kind: kind.clone(), workload: key.name.clone(), idle: idle.clone()? })
        });
        found.collect()
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let Self { kind, workload, idle } = self;
        let of = format!("{kind} {workload}");
        let sentence = match idle {
            Idle::NoReplicas { .. } => format!("Scale {of} up, if clients should get an answer"),
            Idle::Paused => format!("Resume the rollout of {of}"),
            Idle::Suspended => format!("Resume {of}"),
            Idle::Finished { .. } => {
                format!(
                    "Start pods that keep running in place of {of}; if the work is done, delete the Service"
                )
            }
            Idle::NoNode { node_selector } if node_selector.is_empty() => {
                format!("Let {of} tolerate the taints of the nodes, or match their labels")
            }
            Idle::NoNode { node_selector } => {
                format!(
                    "Give the nodes that {of} is for the labels {node_selector}, or correct its nodeSelector"
                )
            }
            Idle::Refused { .. } => {
                format!("Remove the cause that the message names; {of} then creates its pods")
            }
        };
        let resource = kind.to_lowercase();
        let show = Step::kubectl_in(&service.namespace, ["describe", &resource, workload]);
        Remedy::ask(PodOwner, sentence).shown_by([show])
    }

    fn explains(&self, other: &Fault) -> bool {
        matches!(
            other,
            Fault::NoPodMatches(_)
                | Fault::PodsNearlyMatch(_)
                | Fault::LabelKeysDiffer(_)
                | Fault::PodsElsewhere(_)
        )
    }
}

impl fmt::Display for WorkloadMakesNoPods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, workload, idle } = self;
        write!(f, "{kind} {workload}, whose pods the Service selects, ")?;
        match idle {
            Idle::NoReplicas { by: Some(by), at: Some(at) } => {
                write!(f, "is scaled to zero (by {by}, {at})")
            }
            Idle::NoReplicas { .. } => write!(f, "is scaled to zero"),
            Idle::Paused => write!(f, "is paused and makes no pods"),
            Idle::Suspended => write!(f, "is suspended"),
            Idle::Finished { as_failed: true, message } if !message.is_empty() => {
                write!(f, "has failed: {}", message.trim_end_matches('.'))
            }
            Idle::Finished { as_failed: true, .. } => write!(f, "has failed"),
            Idle::Finished { .. } => write!(f, "has completed"),
            Idle::NoNode { node_selector } if node_selector.is_empty() => write!(f, "matches no node"),
            Idle::NoNode { node_selector } => {
                write!(f, "matches no node: its nodeSelector is {node_selector}")
            }
            Idle::Refused { message } => {
                write!(f, "cannot create pods: {}", message.trim_end_matches('.'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::findings::Code;
    use crate::findings::testing::example;

    #[test]
    fn a_workload_with_replicas_or_with_other_labels_is_no_cause() {
        let idle = example("ep124-workload-makes-no-pods");
        assert!(idle.finds(Code::WorkloadMakesNoPods));
        assert!(!idle.finds(Code::NoPodMatches));
        let scaled = idle.clone().with("Deployment/web", json!({"spec": {"replicas": 2}}));
        assert!(!scaled.finds(Code::WorkloadMakesNoPods));
        let labels = json!({"spec": {"template": {"metadata": {"labels": {"app": "db"}}}}});
        let other = idle.with("Deployment/web", labels);
        assert!(!other.finds(Code::WorkloadMakesNoPods));
        assert!(other.finds(Code::NoPodMatches));
    }
}
