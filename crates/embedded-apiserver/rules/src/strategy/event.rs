//! Validation of events, after `pkg/apis/core/validation/events.go`.

use serde_json::Value;

use crate::validation::names::{dns1123_subdomain, qualified_name};
use crate::validation::{Errors, Path};
use crate::value::Fields;

use super::Strategy;

/// The strategy of events.
pub(crate) struct EventStrategy;

impl Strategy for EventStrategy {
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn validate(&self, event: &Value, errors: &mut Errors) {
        validate(event, errors);
    }

    fn validate_update(&self, new: &Value, _old: &Value, errors: &mut Errors) {
        validate(new, errors);
    }
}

fn validate(event: &Value, errors: &mut Errors) {
    let namespace = event["metadata"].text("namespace");
    let of_object = event["involvedObject"].text("namespace");
    let at = Path::Root("involvedObject.namespace");
    let mismatch = "does not match event.namespace";
    if !event.has("eventTime") {
        let matches =
            if of_object.is_empty() { matches!(namespace, "" | "default") } else { namespace == of_object };
        if !matches {
            errors.invalid(&at, of_object, mismatch);
        }
    } else {
        if of_object.is_empty() && !matches!(namespace, "default" | "kube-system") {
            errors.invalid(&at, of_object, mismatch);
        }
        let controller = event.text("reportingComponent");
        let at = Path::Root("reportingComponent");
        if controller.is_empty() {
            errors.required(&at, "");
        }
        errors.invalid_each(&at, controller, qualified_name(controller));
        for (field, required, limit) in [
            ("reportingInstance", true, 128),
            ("action", true, 128),
            ("reason", true, 128),
            ("message", false, 1024),
        ] {
            let at = Path::Root(field);
            let length = event.text(field).len();
            if required && length == 0 {
                errors.required(&at, "");
            }
            if length > limit {
                errors.invalid(&at, "", &format!("can have at most {limit} characters"));
            }
        }
    }
    errors.invalid_each(&Path::Root("namespace"), namespace, dns1123_subdomain(namespace));
}
