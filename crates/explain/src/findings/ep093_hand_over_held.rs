//! The slices of the controller that the Service has left stay, because those of the new one lack
//! ready endpoints.

use std::sync::Arc;

use kube_endpoint_core_model::EndpointSlice;

use super::words::{correct_selector, doctor};
use crate::findings::prelude::*;
use crate::models::selection::Selection;

about! {
    /// A hand-over deletes the slices of the other controller when the new ones have a ready
    /// endpoint, and has no time limit: a mistyped label must not take a Service down. Until then
    /// endpoints whose pod is gone leave the old slices, those whose pod is not ready are unready,
    /// and none comes.
    EP093 "hand-over-held" Warning
    "The slices of the controller that the Service has left stay, because those of the new one lack ready endpoints."
}

/// Slices that stay until those of the new controller have ready endpoints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HandOverHeld {
    /// The EndpointSelector that takes the Service over, or `None` if its selector does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_selector: Option<Text>,
    /// The slices that stay.
    pub slices: Vec<Text>,
}

impl Finding for HandOverHeld {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let held = &inputs.planned.hand_over.held;
        let endpoint_selector = match inputs.selection {
            _ if held.is_empty() => return Vec::new(),
            Selection::Own(_) => None,
            Selection::Attached { name, .. } => Some(name.clone()),
            _ => return Vec::new(),
        };
        let name = |slice: &Arc<EndpointSlice>| slice.metadata.name.clone();
        vec![Self { endpoint_selector, slices: held.iter().map(name).collect() }]
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        let name = self.endpoint_selector.iter().map(|name| read.names_selector(name));
        name.chain(read.slices_named(&self.slices)).collect()
    }

    fn remedy(&self, service: &ObjectKey) -> Remedy {
        match &self.endpoint_selector {
            Some(name) => correct_selector(
                service,
                name,
                format!(
                    "Correct spec.selector of EndpointSelector {name}, or make its pods ready; nobody adds endpoints to the slices that stay"
                ),
            ),
            None => Remedy::ask(
                ClusterAdministrator,
                "Look at the EndpointSlice controller of kube-controller-manager, whose slices lack endpoints: does it run, and does it log errors?",
            )
            .shown_by([doctor()]),
        }
    }
}

impl fmt::Display for HandOverHeld {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (noun, stay) = if self.slices.len() == 1 { ("slice", "stays") } else { ("slices", "stay") };
        let slices = names(&self.slices);
        match &self.endpoint_selector {
            Some(name) => write!(
                f,
                "EndpointSelector {name} selects no ready pod, so clients use {noun} {slices} of kube-controller-manager, which {stay}"
            ),
            None => write!(
                f,
                "{noun} {slices} of an EndpointSelector {stay} until the slices of spec.selector have the same ready endpoints"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn an_endpoint_selector_with_a_ready_pod_takes_the_service_over() {
        let held = example("ep093-hand-over-held");
        assert!(held.finds(Code::HandOverHeld));
        let selector = json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}});
        let taken = held.with("EndpointSelector/web-stable", selector);
        assert!(!taken.finds(Code::HandOverHeld));
    }

    #[test]
    fn a_controller_that_runs_takes_the_service_back() {
        let held = example("ep093-handing-back");
        assert!(held.finds(Code::HandOverHeld));
        assert!(!held.served().finds(Code::HandOverHeld));
    }
}
