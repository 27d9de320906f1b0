//! The EndpointSelector of the Service selects pods without any label, too.

use kube_endpoint_core_model::StringMap;

use super::words::correct_selector;
use crate::findings::prelude::*;
use crate::models::selection::Selection;

about! {
    /// All requirements are negative (`NotIn`, `DoesNotExist`), and a pod without the label meets
    /// these. So each new pod of the namespace that lacks it gets traffic of the Service.
    EP095 "selects-unlabelled" Info
    "The EndpointSelector of the Service selects pods without any label, too."
}

/// An EndpointSelector that selects pods without any label, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SelectsUnlabelled {
    pub endpoint_selector: Text,
    /// The selector, as kubectl writes it.
    pub selector: String,
}

impl Finding for SelectsUnlabelled {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        match inputs.selection {
            Selection::Attached { name, selector, .. } if selector.matches(&StringMap::default()) => {
                vec![Self { endpoint_selector: name.clone(), selector: selector.to_string() }]
            }
            _ => Vec::new(),
        }
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.selector_of(Some(&self.endpoint_selector))]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let name = &self.endpoint_selector;
        let sentence = format!(
            "Nothing, if all other pods of the namespace are meant; else add a label of the pods to spec.selector.matchLabels of EndpointSelector {name}"
        );
        correct_selector(service, name, sentence)
    }
}

impl fmt::Display for SelectsUnlabelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint_selector, selector } = self;
        write!(f, "EndpointSelector {endpoint_selector} selects pods without any label, too: {selector}")
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_label_besides_the_negative_requirement_is_enough() {
        let negative = example("ep095-selects-unlabelled");
        assert!(negative.finds(Code::SelectsUnlabelled));
        let selector = json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}});
        let labelled = negative.with("EndpointSelector/web-stable", selector);
        assert!(!labelled.finds(Code::SelectsUnlabelled));
    }
}
