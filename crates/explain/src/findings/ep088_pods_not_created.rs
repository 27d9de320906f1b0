//! The API server refuses the pods of a workload, and no pod of the Service runs.

use super::words::failed_creates;
use crate::findings::prelude::*;
use crate::models::near::NoPods;
use crate::models::selection::Selection;

about! {
    /// No pod of the Service runs, and the latest event `FailedCreate` of a workload tells why the
    /// API server refuses its pods. The event does not tell their labels, so the name of the
    /// workload has to begin with that of the Service or with a value of its selector, or the
    /// workload owned a pod that has ended. Only `explain` reads events.
    EP088 "pods-not-created" Error
    "The API server refuses the pods of a workload, and no pod of the Service runs."
}

/// A workload whose pods the API server refuses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsNotCreated {
    /// The kind of the workload, such as `ReplicaSet`.
    pub kind: Text,
    pub workload: Text,
    /// The message of its last event `FailedCreate`.
    pub message: Text,
}

impl Finding for PodsNotCreated {
    /// Events tell only the name of the workload, which begins with that of the Service or with a
    /// label of its pods.
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let none_runs = inputs.options.known.pods && inputs.pods.iter().all(|pod| pod.is_terminal());
        let is_meant = || inputs.unselected().why_no_pod() == NoPods::ScaledToZero { by: "Knative" };
        let key = &inputs.service.key;
        if !inputs.is_selecting() || !none_runs || is_meant() {
            return Vec::new();
        }
        let raw = &inputs.objects.raw;
        let values: Vec<&str> = match inputs.selection {
            Selection::Own(selector) => selector.iter().map(|(_, value)| &**value).collect(),
            Selection::Attached { selector, .. } => {
                selector.alternatives().flat_map(|(_, values)| values).map(String::as_str).collect()
            }
            _ => Vec::new(),
        };
        let values = values.into_iter().filter(|value| value.len() > 2);
        let workloads = inputs.unselected().selected_workloads().map(|workload| &*workload.key.name);
        let names: Vec<&str> = std::iter::once(&*key.name).chain(values).chain(workloads).collect();
        let owners = inputs.pods.iter().filter_map(|pod| raw.serving(&pod.key)?.owner.as_ref());
        let owners: Vec<&(Text, Text)> = owners.collect();
        let failed = raw.failed_create(&key.namespace, &names, &owners);
        let found = failed.map(|failed| Self {
            kind: failed.kind.clone(),
            workload: failed.name.clone(),
            message: failed.event.message.clone(),
        });
        found.into_iter().collect()
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let Self { kind, workload, message } = self;
        let has = |words: &str| message.contains(words);
        let (who, sentence) = if has("exceeded quota") {
            let text = "Raise the ResourceQuota that the message names, or free what other pods use of it";
            (ClusterAdministrator, text.to_owned())
        } else if has("failed calling webhook") || has("failed to call webhook") {
            (ClusterAdministrator, self.without_webhook(service).to_owned())
        } else if has("violates PodSecurity") {
            let text = format!(
                "Change the pod template of {kind} {workload} as the message asks, or relax the label pod-security.kubernetes.io/enforce of the namespace"
            );
            (PodOwner, text)
        } else if has("denied the request") || has("ValidatingAdmissionPolicy") {
            let text = format!(
                "Change the pod template of {kind} {workload} as the message asks, or the policy that refuses it"
            );
            (PodOwner, text)
        } else if has("serviceaccount") && has("not found") {
            (PodOwner, "Create the ServiceAccount that the message names".to_owned())
        } else {
            let text =
                format!("Remove the cause that the message names; {kind} {workload} then creates its pods");
            (PodOwner, text)
        };
        Remedy::ask(who, sentence).shown_by([failed_creates(service)])
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

impl PodsNotCreated {
    /// Says what to do about a webhook that does not answer. Its own pods may need it.
    fn without_webhook(&self, service: &ObjectKey) -> &'static str {
        let own = format!("{}.{}.svc", service.name, service.namespace);
        if self.message.contains(&own) || self.message.contains(&format!("service \"{}\"", service.name)) {
            "Let the API server create pods without this webhook, whose own Service this is: set its failurePolicy to Ignore, or exempt the namespace in its namespaceSelector, until a pod runs"
        } else {
            "Repair the webhook that the message names, or let the API server create pods without it: set its failurePolicy to Ignore, or exempt the namespace in its namespaceSelector"
        }
    }
}

impl fmt::Display for PodsNotCreated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, workload, message } = self;
        write!(f, "{kind} {workload} cannot create pods: {}", message.trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn pods_of_another_workload_are_not_those_of_the_service() {
        let refused = example("ep088-pods-not-created");
        assert!(refused.finds(Code::PodsNotCreated));
        assert!(!refused.finds(Code::NoPodMatches));
        let other = refused.with("Event/web-7f.1", json!({"involvedObject": {"name": "website-7f"}}));
        assert!(!other.finds(Code::PodsNotCreated));
        assert!(other.finds(Code::NoPodMatches));
    }

    #[test]
    fn a_workload_may_lack_some_of_its_pods() {
        let pod = json!({
            "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web-1", "labels": {"app": "web"}},
        });
        assert!(!example("ep088-pods-not-created").and(pod).finds(Code::PodsNotCreated));
    }
}
