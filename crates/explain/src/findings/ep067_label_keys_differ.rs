//! The Service's selector matches no pod, and pods have its values under other labels.

use crate::findings::prelude::*;
use crate::models::near::{OtherKey, OtherKeys};

about! {
    /// The pods have each value of the selector, some of them under another label that means the
    /// same: `app`, `k8s-app`, `name`, `run` and `app.kubernetes.io/name` name a program, `release`
    /// and `app.kubernetes.io/instance` an installation of it; two labels that differ in their
    /// prefix only mean the same, and so does a mistyped one. It is no finding if the pods have the
    /// label of the selector with another value, or if they are several parts of one program
    /// (`component`, `role`, `tier`). If a value is likely mistyped, the code is
    /// [EP031](#ep031-pods-nearly-match).
    EP067 "label-keys-differ" Error
    "The Service's selector matches no pod, and pods have its values under other labels."
}

/// A selector without pods whose values pods have under other labels.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LabelKeysDiffer(pub OtherKeys);

impl Finding for LabelKeysDiffer {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let other_keys = inputs.selector_without_pods().and(inputs.nearly_matching.other_keys.as_ref());
        other_keys.cloned().map(Self).into_iter().collect()
    }

    /// The pods that are meant may only be missing, so they come first.
    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let pairs = |key: fn(&OtherKey) -> &Text| {
            let pairs = self.0.keys.iter().map(|one| format!("{}={}", key(one), one.value));
            pairs.collect::<Vec<_>>().join(",")
        };
        let (wanted, found) = (pairs(|key| &key.wanted), pairs(|key| &key.found));
        let ask = format!(
            "Start pods with {wanted} if they are missing; if all pods with {found} are meant, ask for that in spec.selector in place of {wanted}"
        );
        Remedy::ask(ServiceOwner, ask)
            .shown_by([Step::kubectl_in(&service.namespace, ["get", "pods", "-l", &found])])
    }

    fn explains(&self, other: &Fault) -> bool {
        matches!(other, Fault::NoPodMatches(_))
    }
}

impl fmt::Display for LabelKeysDiffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OtherKeys { keys, count, pods, .. } = &self.0;
        let listed: Vec<&str> = pods.iter().take(2).map(|name| &**name).collect();
        let more = count.saturating_sub(listed.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let (pods, have) = if *count == 1 { ("pod", "has") } else { ("pods", "have") };
        let in_place_of = keys.iter().map(|key| {
            let OtherKey { wanted, found, value } = key;
            format!("{found}={value} in place of {wanted}={value}")
        });
        let in_place_of = in_place_of.collect::<Vec<_>>().join(" and ");
        write!(f, "no pod matches the selector, but {pods} {}{more} {have} {in_place_of}", listed.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_pod_with_another_value_of_the_label_is_another_program() {
        let other_key = example("ep067-label-keys-differ");
        assert!(other_key.finds(Code::LabelKeysDiffer));
        assert!(!other_key.finds(Code::NoPodMatches));
        let both = other_key.with("Pod/web-1", json!({"metadata": {"labels": {"app": "worker"}}}));
        assert!(!both.finds(Code::LabelKeysDiffer));
        assert!(both.finds(Code::NoPodMatches));
    }
}
