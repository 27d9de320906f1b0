//! Messages and remedies for selectors that match no pod.

use kube_endpoint_core_model::{ObjectKey, Text};
use serde::Serialize;

use super::text::names;
use crate::remedy::Person::{ClusterAdministrator, PodOwner, ServiceOwner};
use crate::{NotSelected, Remedy, Step};

/// The likely reason why no pod has the labels of a selector. Serialises with the tag `cause`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "cause", rename_all = "kebab-case", rename_all_fields = "camelCase")]
#[non_exhaustive]
pub enum NoPods {
    NotKnown,
    /// The selector asks for a label whose value changes with each rollout.
    LabelOfRollout {
        label: Text,
    },
    /// A program sets this label on the pod that has a role, and pods with the other labels exist.
    NoPodHasRole {
        label: Text,
        wanted: Text,
        /// Some of the pods with the other labels.
        pods: Vec<Text>,
        count: usize,
        /// True if none of them is ready.
        none_is_ready: bool,
    },
    /// Pods have the role under another value of the label.
    RoleRenamed {
        label: Text,
        wanted: Text,
        found: Text,
        pods: Vec<Text>,
    },
    /// The selector asks for one pod of a StatefulSet.
    PodOfStatefulSet {
        set: Text,
        ordinal: u32,
    },
    /// Pods meet all requirements of an EndpointSelector but one.
    AllBut(NotSelected),
    /// A program scales the pods to zero while no client sends requests, and answers instead.
    ScaledToZero {
        by: &'static str,
    },
}

impl NoPods {
    /// Says what is known about the cause, as the end of a sentence.
    pub(super) fn text(&self) -> String {
        match self {
            Self::NotKnown => String::new(),
            Self::AllBut(pods) => {
                let (noun, meet) = if pods.count == 1 { ("pod", "meets") } else { ("pods", "meet") };
                format!(
                    "; {} {noun}, {}, {meet} all of it but {}",
                    pods.count,
                    pods.example(),
                    pods.requirement
                )
            }
            Self::LabelOfRollout { label } => format!("; the value of {label} changes with each rollout"),
            Self::NoPodHasRole { label, pods, count, none_is_ready, .. } => {
                let (pod, have) = if *count == 1 { ("pod", "has") } else { ("pods", "have") };
                let ready = match (*none_is_ready, *count) {
                    (false, _) => "",
                    (true, 1) => ", and it is not ready",
                    (true, _) => ", and none of them is ready",
                };
                format!("; {pod} {} {have} all of them but {label}{ready}", some(pods, *count))
            }
            Self::RoleRenamed { label, found, pods, .. } => {
                let (pod, have) = if pods.len() == 1 { ("pod", "has") } else { ("pods", "have") };
                format!("; {pod} {} {have} {label}={found} instead", names(pods))
            }
            Self::PodOfStatefulSet { set, ordinal } => {
                format!("; that is pod {set}-{ordinal} of a StatefulSet {set}")
            }
            Self::ScaledToZero { by } => {
                format!("; {by} scales the pods to zero while nobody sends requests")
            }
        }
    }

    pub(super) fn remedy(&self, service: &ObjectKey) -> Remedy {
        let workloads = Step::kubectl_in(&service.namespace, ["get", "deployments,statefulsets,replicasets"]);
        match self {
            Self::NotKnown | Self::AllBut(_) => Remedy::ask(
                ServiceOwner,
                "Start pods with these labels: look for a Deployment or StatefulSet that is scaled to zero or whose pods are refused; if there should be none, correct spec.selector",
            )
            .shown_by([workloads, failed_creates(service)]),
            Self::LabelOfRollout { label } if &**label == ROLLOUTS_HASH => Remedy::ask(
                ServiceOwner,
                format!("Look at the Rollout that sets {label} in spec.selector; if none does, remove this label from spec.selector, since it changes with each rollout"),
            ),
            Self::LabelOfRollout { label } => Remedy::ask(
                ServiceOwner,
                format!("Remove {label} from spec.selector: this label changes with each rollout"),
            ),
            Self::NoPodHasRole { label, wanted, pods, count, none_is_ready: true } => Remedy::ask(
                PodOwner,
                format!(
                    "Look first at why {} {} not ready: the program sets {label}={wanted} on the pod that has the role; leave spec.selector as it is",
                    some(pods, *count),
                    if *count == 1 { "is" } else { "are" }
                ),
            )
            .shown_by(describe(service, pods)),
            Self::NoPodHasRole { label, wanted, pods, count, .. } => Remedy::ask(
                PodOwner,
                format!(
                    "Look at why the program sets {label}={wanted} on no pod ({}); do not send clients to pods in another role",
                    some(pods, *count)
                ),
            )
            .shown_by(describe(service, pods)),
            Self::RoleRenamed { label, wanted, found, .. } => Remedy::ask(
                ServiceOwner,
                format!("If the program calls the role {wanted:?} {found:?} now, set {label} in spec.selector to {found:?}, or let the program write {wanted:?}"),
            ),
            Self::PodOfStatefulSet { set, ordinal } => Remedy::ask(
                ServiceOwner,
                format!(
                    "Scale StatefulSet {set} to {} or more, if that pod is meant; else delete the Service",
                    ordinal.saturating_add(1)
                ),
            )
            .shown_by([workloads]),
            Self::ScaledToZero { by } => {
                Remedy::ask(ServiceOwner, format!("Nothing: {by} starts pods when a client needs them"))
            }
        }
    }
}

/// The label of Argo Rollouts, which sets it in selectors, too.
pub(crate) const ROLLOUTS_HASH: &str = "rollouts-pod-template-hash";

/// Returns the first names and the number of the others.
fn some(pods: &[Text], count: usize) -> String {
    let listed: Vec<&str> = pods.iter().take(3).map(|name| &**name).collect();
    match count.saturating_sub(listed.len()) {
        0 => listed.join(", "),
        more => format!("{} and {more} more", listed.join(", ")),
    }
}

fn describe(service: &ObjectKey, pods: &[Text]) -> Option<Step> {
    let pod = pods.first()?;
    Some(Step::kubectl_in(&service.namespace, ["describe", "pod", pod]))
}

/// Returns the command that prints why pods of a namespace could not be created.
fn failed_creates(service: &ObjectKey) -> Step {
    Step::kubectl_in(&service.namespace, ["get", "events", "--field-selector", "reason=FailedCreate"])
}

/// Says that the API server refuses the pods of a workload.
pub(super) fn refused(kind: &str, name: &str, message: &str) -> String {
    format!("{kind} {name} cannot create pods: {}", message.trim_end_matches('.'))
}

/// Says what to do about the message with which the API server refuses pods.
pub(super) fn refused_remedy(service: &ObjectKey, kind: &str, name: &str, message: &str) -> Remedy {
    let has = |words: &str| message.contains(words);
    let (who, sentence) = if has("exceeded quota") {
        (
            ClusterAdministrator,
            "Raise the ResourceQuota that the message names, or free what other pods use of it".to_owned(),
        )
    } else if has("failed calling webhook") || has("failed to call webhook") {
        let own = format!("{}.{}.svc", service.name, service.namespace);
        let text = if has(&own) || has(&format!("service \"{}\"", service.name)) {
            "Let the API server create pods without this webhook, whose own Service this is: set its failurePolicy to Ignore, or exempt the namespace in its namespaceSelector, until a pod runs"
        } else {
            "Repair the webhook that the message names, or let the API server create pods without it: set its failurePolicy to Ignore, or exempt the namespace in its namespaceSelector"
        };
        (ClusterAdministrator, text.to_owned())
    } else if has("violates PodSecurity") {
        (
            PodOwner,
            format!(
                "Change the pod template of {kind} {name} as the message asks, or relax the label pod-security.kubernetes.io/enforce of the namespace"
            ),
        )
    } else if has("denied the request") || has("ValidatingAdmissionPolicy") {
        (
            PodOwner,
            format!(
                "Change the pod template of {kind} {name} as the message asks, or the policy that refuses it"
            ),
        )
    } else if has("serviceaccount") && has("not found") {
        (PodOwner, "Create the ServiceAccount that the message names".to_owned())
    } else {
        (PodOwner, format!("Remove the cause that the message names; {kind} {name} then creates its pods"))
    };
    Remedy::ask(who, sentence).shown_by([failed_creates(service)])
}
