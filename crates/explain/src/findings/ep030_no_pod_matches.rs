//! The Service's selector matches no pod.

use super::words::{correct_selector, failed_creates, pairs};
use crate::facts::workload::{Idle, IdleWorkload, Workload};
use crate::findings::prelude::*;
use crate::models::near::{NoPods, ROLLOUTS_HASH};

about! {
    /// No pod of the namespace has all labels of the selector. A Service selects pods of its own
    /// namespace. `explain` lists pods that differ in one label. They may belong to another
    /// program, or have another role, as followers do while no leader is elected, so the remedy
    /// sends clients to none of them. It depends on the label: a hash or a chart's version changes
    /// with each rollout; a program sets a role on its own pods, so that the pods without it are
    /// the first place to look at; and some programs have renamed their roles, such as `master` to
    /// `primary`. If the selector matches the pod template of a workload that makes no pods, the
    /// finding says why: it is scaled to zero, paused, suspended or finished, no node matches it,
    /// its template lacks the labels of its selector, or no controller has looked at it. `lint`
    /// reads workloads only from files. If files have manifests alone, an operator may make the
    /// pods, so the code is [EP001](#ep001-not-known) unless a workload is plainly meant. The
    /// private Service of a Knative revision has no pods while nobody sends requests, and so does
    /// the canary Service of Flagger between releases; a global Service of Cilium may have its pods
    /// in other clusters. These are an info, and so is a CronJob between its runs.
    EP030 "no-pod-matches" Error
    "The Service's selector matches no pod."
}

/// A selector without pods.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NoPodMatches {
    /// The selector, as `key=value` pairs or, of an EndpointSelector, as kubectl writes it.
    pub selector: String,
    /// The EndpointSelector, if it selects the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_selector: Option<Text>,
    /// A workload whose pods the selector would select, and that makes none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<IdleWorkload>,
    #[serde(flatten)]
    pub cause: NoPods,
}

impl NoPodMatches {
    /// Returns true if another program serves the Service without pods.
    fn needs_no_pods(&self) -> bool {
        matches!(self.cause, NoPods::ScaledToZero { .. } | NoPods::InOtherClusters { .. })
    }
}

/// Returns a workload that makes no pods, if it and no other one would make those of the Service.
fn idle_workload(inputs: &FaultInputs<'_>) -> Option<IdleWorkload> {
    let selected: Vec<&Workload> = inputs.unselected().selected_workloads().collect();
    // The pods of one that makes some are on their way.
    let all_are_idle = selected.iter().all(|workload| workload.idle.is_some());
    selected.first().filter(|_| all_are_idle)?.why_idle()
}

impl Finding for NoPodMatches {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let own = inputs.selector_without_pods().map(|selector| Self {
            selector: pairs(selector),
            endpoint_selector: None,
            workload: idle_workload(inputs),
            cause: inputs.unselected().why_no_pod(),
        });
        let attached = inputs.endpoint_selector_without_pods().map(|(name, selector)| {
            let nearest = inputs.selected_by.and_then(|by| by.not_selected.first());
            Self {
                selector: selector.to_string(),
                endpoint_selector: Some(name.clone()),
                workload: idle_workload(inputs),
                cause: nearest.map_or(NoPods::NotKnown, |nearest| NoPods::AllBut(nearest.clone())),
            }
        });
        own.into_iter().chain(attached).collect()
    }

    fn explains(&self, other: &Fault) -> bool {
        self.workload.is_some()
            && matches!(
                other,
                Fault::PodsNearlyMatch(_) | Fault::LabelKeysDiffer(_) | Fault::PodsElsewhere(_)
            )
    }

    fn severity(&self) -> Option<Severity> {
        let waits = |workload: &IdleWorkload| matches!(workload.idle, Idle::BetweenRuns { .. });
        (self.needs_no_pods() || self.workload.as_ref().is_some_and(waits)).then_some(Severity::Info)
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let selector = read.selector_of(self.endpoint_selector.as_ref());
        let of = |it: &IdleWorkload| read.of(&it.kind, &it.name, ".spec.replicas", 0);
        let scaled = self.workload.iter().filter(|it| matches!(it.idle, Idle::NoReplicas { .. })).map(of);
        std::iter::once(selector).chain(scaled).collect()
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        if let Some(workload) = self.workload.as_ref().filter(|_| !self.needs_no_pods()) {
            let resource = workload.kind.to_lowercase();
            let show = Step::kubectl_in(&service.namespace, ["describe", &resource, &workload.name]);
            return Remedy::ask(PodOwner, workload.advice()).shown_by([show]);
        }
        if let Some(name) = &self.endpoint_selector {
            let sentence = format!(
                "Start pods that EndpointSelector {name} selects: look for a Deployment or StatefulSet that is scaled to zero or whose pods are refused; if there should be none, correct its spec.selector"
            );
            return correct_selector(service, name, sentence);
        }
        remedy_of(&self.cause, service)
    }
}

/// Returns what to do if no object makes the pods, and no EndpointSelector selects them.
fn remedy_of(cause: &NoPods, service: &ObjectKey) -> Remedy {
    let workloads = Step::kubectl_in(&service.namespace, ["get", "deployments,statefulsets,replicasets"]);
    match cause {
        NoPods::NotKnown | NoPods::AllBut(_) => Remedy::ask(
            ServiceOwner,
            "Start pods with these labels: look for a Deployment or StatefulSet that is scaled to zero or whose pods are refused; if there should be none, correct spec.selector",
        )
        .shown_by([workloads, failed_creates(service)]),
        NoPods::LabelOfRollout { label } if &**label == ROLLOUTS_HASH => Remedy::ask(
            ServiceOwner,
            format!("Look at the Rollout that sets {label} in spec.selector; if none does, remove this label from spec.selector, since it changes with each rollout"),
        ),
        NoPods::LabelOfRollout { label } => Remedy::ask(
            ServiceOwner,
            format!("Remove {label} from spec.selector: this label changes with each rollout"),
        ),
        NoPods::NoPodHasRole { label, wanted, pods, count, none_is_ready: true, .. } => Remedy::ask(
            PodOwner,
            format!(
                "Look first at why {} {} not ready: the program sets {label}={wanted} on the pod that has the role; leave spec.selector as it is",
                some(pods, *count),
                if *count == 1 { "is" } else { "are" }
            ),
        )
        .shown_by(describe(service, pods)),
        NoPods::NoPodHasRole { label, wanted, pods, count, .. } => Remedy::ask(
            PodOwner,
            format!(
                "Look at why the program sets {label}={wanted} on no pod ({}); do not send clients to pods in another role",
                some(pods, *count)
            ),
        )
        .shown_by(describe(service, pods)),
        NoPods::RoleRenamed { label, wanted, found, .. } => Remedy::ask(
            ServiceOwner,
            format!("If the program calls the role {wanted:?} {found:?} now, set {label} in spec.selector to {found:?}, or let the program write {wanted:?}"),
        ),
        NoPods::PodOfStatefulSet { set, ordinal, later: Some(later) } => Remedy::ask(
            ServiceOwner,
            format!(
                "Select a pod that exists, such as {later}, if spec.ordinals.start of StatefulSet {set} is higher than {ordinal}; else look at why it makes no pod {set}-{ordinal}"
            ),
        )
        .shown_by([Step::kubectl_in(&service.namespace, ["describe", "statefulset", set])]),
        NoPods::PodOfStatefulSet { set, ordinal, later: None } => Remedy::ask(
            ServiceOwner,
            format!(
                "Scale StatefulSet {set} to {} or more, if that pod is meant; else delete the Service",
                ordinal.saturating_add(1)
            ),
        )
        .shown_by([workloads]),
        NoPods::ScaledToZero { by } => {
            Remedy::ask(ServiceOwner, format!("Nothing: {by} starts pods when a client needs them"))
        }
        NoPods::InOtherClusters { .. } => {
            Remedy::ask(ServiceOwner, "Nothing, if pods of another cluster serve the Service")
        }
        NoPods::PodsLackLabel { workload, label, wanted, pods, .. } => {
            let sentence = format!(
                "Give the pod template of {workload} the label {label}={wanted}, or remove {label} from spec.selector, if these pods are meant; else start pods with these labels"
            );
            Remedy::ask(ServiceOwner, sentence).shown_by(describe(service, pods))
        }
        NoPods::PodsOfTheName { pods, .. } => {
            let are = if pods.len() == 1 { "is" } else { "are" };
            let show = describe(service, pods);
            Remedy::ask(
                ServiceOwner,
                format!(
                    "Correct spec.selector, if {} {are} meant; else start pods with these labels",
                    some(pods, pods.len())
                ),
            )
            .shown_by(show)
        }
    }
}

impl fmt::Display for NoPodMatches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { selector, endpoint_selector, workload, cause } = self;
        let why = match workload {
            Some(workload) if !self.needs_no_pods() => format!("; {workload}"),
            _ => text(cause),
        };
        match endpoint_selector {
            None => write!(f, "no pod has the labels {selector}{why}"),
            Some(name) => write!(f, "EndpointSelector {name} selects no pod: {selector}{why}"),
        }
    }
}

/// Says what is known about the cause, as the end of a sentence.
fn text(cause: &NoPods) -> String {
    match cause {
        NoPods::NotKnown => String::new(),
        NoPods::AllBut(pods) => {
            let (noun, meet) = if pods.count == 1 { ("pod", "meets") } else { ("pods", "meet") };
            let (count, example, requirement) = (pods.count, pods.example(), &pods.requirement);
            format!("; {count} {noun}, {example}, {meet} all of it but {requirement}")
        }
        NoPods::LabelOfRollout { label } => format!("; the value of {label} changes with each rollout"),
        NoPods::NoPodHasRole { label, pods, count, at_least, none_is_ready, .. } => {
            let (pod, have) = if *count == 1 { ("pod", "has") } else { ("pods", "have") };
            let ready = match (*none_is_ready, *count) {
                (false, _) => "",
                (true, 1) => ", and it is not ready",
                (true, _) => ", and none of them is ready",
            };
            let least = if *at_least { "at least " } else { "" };
            format!("; {least}{pod} {} {have} all of them but {label}{ready}", some(pods, *count))
        }
        NoPods::RoleRenamed { label, found, pods, .. } => {
            let (pod, have) = if pods.len() == 1 { ("pod", "has") } else { ("pods", "have") };
            format!("; {pod} {} {have} {label}={found} instead", names(pods))
        }
        NoPods::PodOfStatefulSet { set, ordinal, later } => {
            let later = later.as_ref().map(|later| format!(", which has pod {later}")).unwrap_or_default();
            format!("; that is pod {set}-{ordinal} of a StatefulSet {set}{later}")
        }
        NoPods::InOtherClusters { by } => {
            format!("; it is a global Service of {by}, which pods of other clusters serve, too")
        }
        NoPods::PodsOfTheName { pods, differ } => {
            let (pod, have) = if pods.len() == 1 { ("pod", "has") } else { ("pods", "have") };
            format!("; {pod} {} {have} {}", some(pods, pods.len()), differ.join(", "))
        }
        NoPods::PodsLackLabel { workload, label, wanted, count, at_least, .. } => {
            let lack = if *count == 1 { "1 pod of" } else { &*format!("{count} pods of") };
            let verb = if *count == 1 { "lacks" } else { "lack" };
            let least = if *at_least { "at least " } else { "" };
            format!("; {least}{lack} {workload} {verb} the label {label}={wanted}")
        }
        NoPods::ScaledToZero { by: by @ "Flagger" } => {
            format!("; {by} scales the pods to zero between releases")
        }
        NoPods::ScaledToZero { by } => {
            format!("; {by} scales the pods to zero while nobody sends requests")
        }
    }
}

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

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn one_pod_with_all_labels_of_the_selector_is_enough() {
        let none = example("ep030-no-pod-matches");
        assert!(none.finds(Code::NoPodMatches));
        let one = none.with("Pod/billing-1", json!({"metadata": {"labels": {"app": "web"}}}));
        assert!(!one.finds(Code::NoPodMatches));
        let canary = example("ep030-of-endpoint-selector");
        assert!(canary.finds(Code::NoPodMatches));
        let stable = canary.with("Pod/web-1", json!({"metadata": {"labels": {"track": "stable"}}}));
        assert!(!stable.finds(Code::NoPodMatches));
    }

    #[test]
    fn a_workload_with_replicas_or_with_other_labels_is_no_cause() {
        let idle = example("ep030-deployment-without-replicas");
        let names_it = |example: &crate::findings::testing::Example| {
            example.says("Deployment web is scaled to zero (by kubectl, 2026-01-01T00:05:00Z)")
        };
        assert!(names_it(&idle));
        assert!(!names_it(&idle.clone().with("Deployment/web", json!({"spec": {"replicas": 2}}))));
        let labels = json!({"spec": {"template": {"metadata": {"labels": {"app": "db"}}}}});
        assert!(!names_it(&idle.with("Deployment/web", labels)));
    }

    #[test]
    fn the_pods_of_one_workload_may_lack_a_label() {
        let none = example("ep030-no-pod-matches");
        let none = none.with("Service/web", json!({"spec": {"selector": {"app": "shop", "tier": "fe"}}}));
        let pod = |name: &str, owner: &str| {
            json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "labels": {"app": "shop"},
                "ownerReferences": [{"kind": "StatefulSet", "name": owner, "controller": true}]}})
        };
        let one = none.and(pod("front-0", "front")).and(pod("front-1", "front"));
        assert!(one.says("2 pods of StatefulSet front lack the label tier=fe"));
        assert!(!one.and(pod("back-0", "back")).says("lack the label"));
    }

    #[test]
    fn a_service_without_a_selector_needs_no_pods() {
        let written = json!({"spec": {"selector": null}});
        assert!(!example("ep030-no-pod-matches").with("Service/web", written).finds(Code::NoPodMatches));
    }
}
