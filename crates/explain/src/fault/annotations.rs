//! Messages and remedies for annotations that have no effect.

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_core_model::retirement::InvalidEndpointsSetting;
use kube_endpoint_core_model::well_known::ANNOTATION_ENDPOINTS;
use serde_json::json;

use crate::remedy::Person::ServiceOwner;
use crate::unviewed::MistypedKey;
use crate::{PatchForm, Remedy, Step};

/// Says why the annotation does not retire the Endpoints of a Service.
pub(super) fn retirement_ignored(value: &str, by: Option<&str>) -> String {
    match by {
        Some(by) => format!(
            "the annotation {ANNOTATION_ENDPOINTS}, {value:?}, has no effect: {by}, which writes the Endpoints, does not know it"
        ),
        None => format!(
            "the annotation {ANNOTATION_ENDPOINTS} has no effect, since its value is {value:?}: {InvalidEndpointsSetting}"
        ),
    }
}

pub(super) fn retirement_remedy(service: &ObjectKey, is_valid: bool) -> Remedy {
    if !is_valid {
        return Remedy::ask(ServiceOwner, "Correct the value of the annotation, or remove it");
    }
    let remove = ["annotate", "service", &service.name, &format!("{ANNOTATION_ENDPOINTS}-")];
    Remedy::ask(
        ServiceOwner,
        "Remove the annotation: a Service can live without Endpoints where kube-endpoint-manager runs the endpoints controller, or if an EndpointSelector selects its pods",
    )
    .then([Step::kubectl_in(&service.namespace, remove)])
}

/// Says which annotation somebody meant.
pub(super) fn mistyped(mistyped: &MistypedKey) -> String {
    let MistypedKey { key, meant, is_label, .. } = mistyped;
    match (is_label, **key == **meant) {
        (true, true) => {
            format!("the label {key} has no effect on a Service: only an annotation of this key has")
        }
        (true, false) => format!("the label {key} has no effect; controllers read the annotation {meant}"),
        (false, _) => format!("the annotation {key} has no effect; controllers read {meant}"),
    }
}

pub(super) fn mistyped_remedy(service: &ObjectKey, mistyped: &MistypedKey) -> Remedy {
    let MistypedKey { key, meant, value, is_label } = mistyped;
    let metadata = if *is_label {
        json!({"annotations": {*meant: value}, "labels": {&**key: null}})
    } else {
        json!({"annotations": {*meant: value, &**key: null}})
    };
    let correct = Step::Patch {
        kind: "service",
        object: service.clone(),
        form: PatchForm::Merge,
        patch: json!({"metadata": metadata}),
    };
    Remedy::ask(ServiceOwner, format!("Write the annotation {meant} instead, if that is meant"))
        .then([correct])
}
