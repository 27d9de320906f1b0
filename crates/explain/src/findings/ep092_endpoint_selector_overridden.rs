//! The Service names an EndpointSelector and has a selector, which wins.

use kube_endpoint_core_model::well_known::ANNOTATION_ENDPOINT_SELECTOR;
use serde_json::json;

use crate::facts::answer::Answer;
use crate::facts::remedy::PatchForm;
use crate::findings::prelude::*;
use crate::models::rehearsal::Rehearsal;
use crate::models::selection::{RESOURCE, Selection};

about! {
    /// `spec.selector` wins, so kube-controller-manager serves the Service. The finding rehearses
    /// the [hand-over](endpoint-selectors.md#attach-a-service): it says *ready to attach* or why
    /// not, how many pods the EndpointSelector selects, and which would come and go. It looks at
    /// the EndpointSelector and its status, the pods, and who wrote the present slices and
    /// Endpoints.
    EP092 "endpoint-selector-overridden" Info
    "The Service names an EndpointSelector and has a selector, which wins."
}

/// An EndpointSelector that the selector of the Service overrides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointSelectorOverridden {
    pub endpoint_selector: Text,
    #[serde(flatten)]
    pub rehearsal: Rehearsal,
}

impl Finding for EndpointSelectorOverridden {
    fn find(inputs: &FaultInputs<'_>) -> Vec<Self> {
        let FaultInputs { objects, service, now, options, .. } = *inputs;
        let is_own = matches!(inputs.selection, Selection::Own(_));
        let named = service.rehearsed_selector().filter(|_| is_own);
        let rehearsed = named.map(|name| Self {
            endpoint_selector: name.clone(),
            rehearsal: Rehearsal::of(objects, service, name, now, options),
        });
        rehearsed.into_iter().collect()
    }

    fn evidence(&self, read: &Read<'_>) -> Vec<Evidence> {
        vec![read.names_selector(&self.endpoint_selector), read.selector()]
    }

    /// Says how to attach a Service that has a selector, or what to look at before.
    fn remedy(&self, service: &ObjectKey) -> Remedy {
        let name = &self.endpoint_selector;
        if self.rehearsal.is_ready_to_attach != Answer::Yes {
            let sentence = format!(
                "Leave spec.selector as it is until that is mended, or remove the annotation {ANNOTATION_ENDPOINT_SELECTOR}"
            );
            let all = Step::kubectl_in(&service.namespace, ["get", RESOURCE]);
            return Remedy::ask(ServiceOwner, sentence).shown_by([all]);
        }
        let path = ANNOTATION_ENDPOINT_SELECTOR.replace('/', "~1");
        let attach = Step::Patch {
            kind: "service",
            object: service.clone(),
            form: PatchForm::Json,
            patch: json!([
                {"op": "test", "path": format!("/metadata/annotations/{path}"), "value": name},
                {"op": "remove", "path": "/spec/selector"},
            ]),
        };
        Remedy::ask(
            ServiceOwner,
            format!(
                "Remove spec.selector if EndpointSelector {name} should select the pods; otherwise remove the annotation {ANNOTATION_ENDPOINT_SELECTOR}, or leave both"
            ),
        )
        .then([attach])
    }
}

impl fmt::Display for EndpointSelectorOverridden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rehearsal { pods, ready, coming, going, obstacles, .. } = &self.rehearsal;
        let obstacles = obstacles.join("; ");
        f.write_str("the Service has a selector, which wins, and ")?;
        match self.rehearsal.is_ready_to_attach {
            Answer::No => write!(f, "is not ready to attach: {obstacles}"),
            Answer::NotKnown => write!(f, "may be ready to attach: {obstacles}"),
            Answer::Yes => {
                let noun = if *pods == 1 { "pod" } else { "pods" };
                let moves = [("come", coming), ("go", going)].map(|(verb, moving)| match moving.count {
                    0 => format!("none would {verb}"),
                    _ => format!("{} would {verb}", moving.names()),
                });
                let moves = match (coming.count, going.count) {
                    (0, 0) => ", the same that the Service selects now".to_owned(),
                    _ => format!("; {}", moves.join(", and ")),
                };
                write!(
                    f,
                    "is ready to attach: EndpointSelector {} selects {pods} {noun}, {ready} ready{moves}",
                    self.endpoint_selector
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::testing::*;

    #[test]
    fn without_a_selector_of_its_own_the_service_is_attached() {
        let both = example("ep092-endpoint-selector-overridden");
        assert!(both.finds(Code::EndpointSelectorOverridden));
        let attached = both.with("Service/web", json!({"spec": {"selector": null}}));
        assert!(!attached.finds(Code::EndpointSelectorOverridden));
    }
}
