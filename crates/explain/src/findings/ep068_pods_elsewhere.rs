//! The Service's selector matches no pod, and pods of other namespaces have its labels.

use super::words::pairs;
use crate::facts::across::Elsewhere;
use crate::findings::prelude::*;
use crate::models::selection::Selection;

about! {
    /// A Service selects pods of its own namespace. Many namespaces may have the same programs, so
    /// this is only a hint besides [EP030](#ep030-no-pod-matches),
    /// [EP031](#ep031-pods-nearly-match) or [EP067](#ep067-label-keys-differ), or, of manifests,
    /// [EP001](#ep001-not-known). Pods that have ended do not count. `explain` asks the server for
    /// such pods only if the selector matches none, and says nothing if you may not read pods of
    /// all namespaces. `lint` compares the namespaces that it reads; the overview of the status
    /// page does not.
    EP068 "pods-elsewhere" Info
    "The Service's selector matches no pod, and pods of other namespaces have its labels."
}

/// A selector without pods whose labels pods of other namespaces have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsElsewhere {
    /// The selector, as `key=value` pairs.
    pub selector: String,
    /// The other namespaces with such pods, sorted.
    pub namespaces: Vec<Elsewhere>,
}

impl Finding for PodsElsewhere {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        // Manifests do not tell of pods that an operator makes, but these may be the ones meant.
        let own = match inputs.selection {
            Selection::Own(selector) if inputs.is_selecting() && inputs.pods.is_empty() => Some(selector),
            _ => None,
        };
        let own = own.filter(|_| inputs.options.has_manifests_of_pods(&inputs.service.key.namespace));
        let Some(selector) = inputs.selector_without_pods().or(own) else { return Vec::new() };
        let namespaces = inputs.across.with_labels(selector);
        if namespaces.is_empty() {
            return Vec::new();
        }
        vec![Self { selector: pairs(selector), namespaces: namespaces.to_vec() }]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let (selector, name) = (&self.selector, &service.name);
        let (place, show) = match self.namespaces.as_slice() {
            [Elsewhere { namespace, .. }] => (
                format!("{namespace}: create the Service there, and let clients call {name}.{namespace}"),
                Step::kubectl_in(namespace, ["get", "pods", "-l", selector]),
            ),
            _ => (
                format!("another namespace: create the Service there, and let clients call {name}.NAMESPACE"),
                Step::kubectl(["get", "pods", "-A", "-l", selector]),
            ),
        };
        Remedy::ask(ServiceOwner, format!("Nothing, unless the Service is meant for the pods of {place}"))
            .shown_by([show])
    }
}

impl fmt::Display for PodsElsewhere {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { selector, namespaces } = self;
        let (of, have) = match namespaces.as_slice() {
            [Elsewhere { pods: 1, .. }] => ("a pod of the namespace", "has"),
            [_] => ("pods of the namespace", "have"),
            _ => ("pods of the namespaces", "have"),
        };
        let all: Vec<Text> = namespaces.iter().map(|one| one.namespace.clone()).collect();
        write!(
            f,
            "{of} {} {have} the labels {selector}, and a Service selects pods of its own namespace only",
            names(&all)
        )
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn pods_that_have_ended_are_not_meant() {
        let elsewhere = example("ep068-pods-elsewhere");
        assert!(elsewhere.finds(Code::PodsElsewhere));
        let ended = elsewhere.with("Pod/web-1", json!({"status": {"phase": "Succeeded"}}));
        assert!(!ended.finds(Code::PodsElsewhere));
    }

    #[test]
    fn many_namespaces_may_have_pods_of_the_same_labels() {
        let own = json!({
            "kind": "Pod", "apiVersion": "v1", "metadata": {"name": "web-2", "labels": {"app": "web"}},
        });
        assert!(!example("ep068-pods-elsewhere").and(own).finds(Code::PodsElsewhere));
    }
}
