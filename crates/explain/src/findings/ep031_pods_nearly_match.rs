//! The Service's selector matches no pod, and one of its labels is likely mistyped.

use crate::findings::prelude::*;
use crate::models::near::NearMatch;

about! {
    /// One label of the selector has almost the same value in these pods: two letters are swapped,
    /// or one is wrong, missing or additional. Values that differ in a number, a word or a final
    /// `s`, such as `web` and `web-worker`, name different things; then the code is
    /// [EP030](#ep030-no-pod-matches). The pods that are meant may also be missing, so the remedy
    /// begins with them.
    EP031 "pods-nearly-match" Error
    "The Service's selector matches no pod, and one of its labels is likely mistyped."
}

/// A selector without pods that has a mistyped label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodsNearlyMatch {
    /// The EndpointSelector, if it selects the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_selector: Option<Text>,
    /// The mistyped label of most of these pods.
    pub nearest: NearMatch,
    /// Number of pods that differ in one mistyped label.
    pub count: usize,
}

impl Finding for PodsNearlyMatch {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let name = inputs.endpoint_selector_without_pods().map(|(name, _)| name);
        if name.is_none() && inputs.selector_without_pods().is_none() {
            return Vec::new();
        }
        let near = inputs.nearly_matching;
        let nearest = near.typos().next().map(|nearest| Self {
            endpoint_selector: name.cloned(),
            nearest: nearest.clone(),
            count: near.typos().map(|group| group.count).sum(),
        });
        nearest.into_iter().collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let NearMatch { label, found, pods, .. } = &self.nearest;
        let selector = read.selector_of(self.endpoint_selector.as_ref());
        let labels = read.label_of_pods(pods, label, found.as_ref());
        std::iter::once(selector).chain(labels).collect()
    }

    /// The pods that are meant may only be missing, so they come first.
    fn remedy(&self, _: &ObjectKey) -> Remedy {
        let of = self.endpoint_selector.as_ref().map(|name| format!(" of EndpointSelector {name}"));
        let of = of.unwrap_or_default();
        let NearMatch { label, wanted, found, .. } = &self.nearest;
        let found = found.as_deref().unwrap_or_default();
        let sentence = format!(
            "Start pods with {label}={wanted} if they are missing; if one of {wanted:?} and {found:?} is mistyped, correct it, in spec.selector{of} or in the labels of the pods"
        );
        Remedy::ask(ServiceOwner, sentence)
    }

    fn explains(&self, other: &Fault) -> bool {
        matches!(other, Fault::NoPodMatches(_) | Fault::LabelKeysDiffer(_))
    }
}

impl fmt::Display for PodsNearlyMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.endpoint_selector {
            Some(name) => write!(f, "EndpointSelector {name} selects no pod")?,
            None => f.write_str("no pod matches the selector")?,
        }
        let least = if self.nearest.at_least { "at least " } else { "" };
        match self.count {
            1 => write!(f, ", but {least}1 pod differs")?,
            count => write!(f, ", but {least}{count} pods differ")?,
        }
        write!(f, " in one label only: {}", self.nearest)
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn two_words_are_no_mistyped_one() {
        let mistyped = example("ep031-pods-nearly-match");
        assert!(mistyped.finds(Code::PodsNearlyMatch));
        assert!(!mistyped.finds(Code::NoPodMatches));
        let other = mistyped.with("Pod/web-1", json!({"metadata": {"labels": {"tier": "backend"}}}));
        assert!(!other.finds(Code::PodsNearlyMatch));
        assert!(other.finds(Code::NoPodMatches));
    }

    #[test]
    fn pods_that_nearly_match_are_others_if_some_match() {
        let ready = json!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": "web-2", "labels": {"app": "web", "tier": "frontned"}},
        });
        assert!(!example("ep031-pods-nearly-match").and(ready).finds(Code::PodsNearlyMatch));
    }

    /// A list of pods may be too long to be read to its end, and a few pods of a group are read.
    #[test]
    fn pods_that_were_not_read_are_not_counted_as_not_ready() {
        use kube_endpoint_core_model::ObjectKey;
        use serde_json::Value;

        use crate::facts::objects::Objects;
        use crate::facts::options::Options;
        use crate::findings::testing::explain;

        let said = |pods: usize, has_more: bool| {
            let service = json!({"kind": "Service", "metadata": {"name": "web"},
                "spec": {"selector": {"app": "frontend"}, "ports": [{"port": 80}]}});
            let pod = |at| json!({"kind": "Pod", "metadata": {"name": format!("a-{at}"), "labels": {"app": "frontned"}}});
            let all: Vec<Value> = (0..pods).map(pod).chain([service]).collect();
            let mut objects = Objects::read(all).unwrap();
            if has_more {
                objects.note_more_pods();
            }
            let (now, web) = ("2026-01-01T00:00:00Z".parse().unwrap(), ObjectKey::new("default", "web"));
            let topology = objects.topology();
            explain(&objects, &web, &topology, now, None, &Options::default()).unwrap().verdict.message
        };
        let (few, many, more) = (said(3, false), said(9, false), said(9, true));
        assert!(few.contains("3 pods differ") && few.contains("and 1 more, none of them ready"), "{few}");
        assert!(many.contains("9 pods differ") && many.ends_with("and 7 more)"), "{many}");
        assert!(more.contains("at least 9 pods differ") && more.ends_with("and at least 7 more)"), "{more}");
    }
}
