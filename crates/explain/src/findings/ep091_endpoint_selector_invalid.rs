//! The Service names an EndpointSelector that selects nothing, because it is invalid.

use kube_endpoint_core_model::EndpointSelector;
use kube_endpoint_core_model::endpoint_selector::Condition;

use super::words::correct_selector;
use crate::findings::prelude::*;
use crate::models::selection::Selection;

about! {
    /// Endpoints leave and none comes, as for EP090. The schema refuses nearly everything that is
    /// invalid; the message says what it cannot check. The controller writes the same message into
    /// the condition `Accepted` of the EndpointSelector.
    EP091 "endpoint-selector-invalid" Error
    "The Service names an EndpointSelector that selects nothing, because it is invalid."
}

/// An EndpointSelector that no controller accepts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSelectorInvalid {
    pub endpoint_selector: Text,
    pub reason: String,
}

impl Finding for EndpointSelectorInvalid {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let (name, reason) = match inputs.selection {
            Selection::Unusable { name, object: Some(object) } => {
                let reason = object.selector.as_ref().err().map(ToString::to_string);
                (name, Some(reason.unwrap_or_default()))
            }
            Selection::Attached { name, object, .. } => (name, refused(object).map(ToString::to_string)),
            _ => return Vec::new(),
        };
        let found = reason.map(|reason| Self { endpoint_selector: name.clone(), reason });
        found.into_iter().collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.names_selector(&self.endpoint_selector)]
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let name = &self.endpoint_selector;
        let sentence = format!("Correct EndpointSelector {name} as the message says");
        correct_selector(service, name, sentence)
    }
}

impl fmt::Display for EndpointSelectorInvalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { endpoint_selector, reason } = self;
        write!(
            f,
            "EndpointSelector {endpoint_selector} is not accepted, so endpoints leave and none comes: {reason}"
        )
    }
}

/// Returns the reason why a controller does not accept an EndpointSelector that looks valid here.
fn refused(object: &EndpointSelector) -> Option<&Text> {
    let seen = object.status.observed_generation == Some(object.generation);
    let accepted = object.status.conditions.iter().find(|condition| *condition.kind == *"Accepted");
    // Another finding tells about a Lease without a leader.
    let refused = |condition: &&Condition| {
        seen && *condition.status == *"False" && *condition.reason != *"HolderNotRecognised"
    };
    accepted.filter(refused).map(|condition| &condition.message)
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn a_corrected_endpoint_selector_is_accepted() {
        let invalid = example("ep091-endpoint-selector-invalid");
        assert!(invalid.finds(Code::EndpointSelectorInvalid));
        let labels = json!({"the app": null, "app": "web"});
        let selector = json!({"spec": {"selector": {"matchLabels": labels}}});
        let corrected = invalid.with("EndpointSelector/web-stable", selector);
        assert!(!corrected.finds(Code::EndpointSelectorInvalid));
    }

    #[test]
    fn a_controller_refuses_the_generation_that_it_has_seen() {
        let labels = json!({"the app": null, "app": "web"});
        let condition = json!({"type": "Accepted", "status": "False", "reason": "Invalid", "message": "no"});
        let refused = example("ep091-endpoint-selector-invalid").with(
            "EndpointSelector/web-stable",
            json!({
                "metadata": {"generation": 2},
                "spec": {"selector": {"matchLabels": labels}},
                "status": {"observedGeneration": 2, "conditions": [condition]},
            }),
        );
        assert!(refused.finds(Code::EndpointSelectorInvalid));
        let changed = refused.with("EndpointSelector/web-stable", json!({"metadata": {"generation": 3}}));
        assert!(!changed.finds(Code::EndpointSelectorInvalid));
    }
}
