//! Reviews, which are answered and forgotten: after `pkg/apis/authorization/validation` and
//! `pkg/registry/authentication/tokenreview/storage.go`.

use serde_json::Value;

use crate::resource::Resource;
use crate::status::Status;
use crate::validation::{Errors, Path};
use crate::value::{Fields, spec};

/// Whether a review can be answered.
pub(super) fn validate(resource: &Resource, object: &Value) -> Result<(), Status> {
    if resource.kind == "TokenReview" {
        return if spec(object).text("token").is_empty() {
            Err(Status::bad_request("token is required for TokenReview in authentication"))
        } else {
            Ok(())
        };
    }
    let mut errors = Errors::default();
    let root = Path::Root("spec");
    let spec = spec(object);
    if resource.kind == "SelfSubjectRulesReview" {
        return if spec.text("namespace").is_empty() {
            Err(Status::bad_request("no namespace on request"))
        } else {
            Ok(())
        };
    }
    match (spec.has("resourceAttributes"), spec.has("nonResourceAttributes")) {
        (true, true) => {
            let why = "cannot be specified in combination with resourceAttributes";
            errors.invalid(&root.child("nonResourceAttributes"), &spec["nonResourceAttributes"], why);
        }
        (false, false) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.invalid(&root.child("resourceAttributes"), &Value::Null, why);
        }
        _ => {}
    }
    if resource.kind == "SubjectAccessReview"
        && spec.text("user").is_empty()
        && spec.list("groups").is_empty()
    {
        errors.invalid(&root.child("user"), "", "at least one of user or group must be specified");
    }
    let metadata = &object["metadata"];
    if metadata.as_object().is_some_and(|m| m.keys().any(|k| k != "managedFields")) {
        errors.invalid(&Path::Root("metadata"), metadata, "must be empty");
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(resource, "", errors.into_causes())) }
}
