//! Reviews, which the server answers and does not store, after `pkg/apis/authorization/validation`
//! and `pkg/registry/authentication/tokenreview/storage.go`.

use serde_json::{Value, json};

use crate::status::Status;
use crate::validation::{Errors, Path};
use crate::value::{Fields, spec};

use super::{Families, Strategy};

/// The strategy of reviews whose spec must hold one field, without which they get a 400.
pub(crate) struct RequiredFieldStrategy {
    pub(crate) field: &'static str,
    pub(crate) message: &'static str,
}

impl Strategy for RequiredFieldStrategy {
    fn begin_create(
        &self,
        object: &mut Value,
        _families: Families,
        _errors: &mut Errors,
    ) -> Result<(), Status> {
        if spec(object).text(self.field).is_empty() { Err(Status::bad_request(self.message)) } else { Ok(()) }
    }
}

/// The strategy of SubjectAccessReviews and SelfSubjectAccessReviews.
pub(crate) struct AccessReviewStrategy {
    /// True if the spec names the subject.
    pub(crate) names_subject: bool,
}

/// The strategy of SelfSubjectReviews, which have no input.
pub(crate) struct SelfReviewStrategy;

impl Strategy for SelfReviewStrategy {}

/// The strategy of LocalSubjectAccessReviews, which ask about one namespace.
pub(crate) struct LocalAccessReviewStrategy;

impl Strategy for LocalAccessReviewStrategy {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        let (root, spec) = (Path::Root("spec"), spec(object));
        validate_spec(spec, true, errors);
        if spec.has("resourceAttributes") {
            let asked = spec["resourceAttributes"].text("namespace");
            if asked != object["metadata"].text("namespace") {
                let field = root.child("resourceAttributes");
                errors.invalid(&field.child("namespace"), asked, "must match metadata.namespace");
            }
        }
        if spec.has("nonResourceAttributes") {
            let why = "disallowed on this kind of request";
            errors.invalid(&root.child("nonResourceAttributes"), &internal_path(spec), why);
        }
    }
}

/// Returns the path of a review as the real server prints it: by the names of its internal type.
fn internal_path(spec: &Value) -> Value {
    let given = &spec["nonResourceAttributes"];
    json!({"Path": given.text("path"), "Verb": given.text("verb")})
}

/// Checks the common part of all access reviews.
fn validate_spec(spec: &Value, names_subject: bool, errors: &mut Errors) {
    let root = Path::Root("spec");
    match (spec.has("resourceAttributes"), spec.has("nonResourceAttributes")) {
        (true, true) => {
            let why = "cannot be specified in combination with resourceAttributes";
            errors.invalid(&root.child("nonResourceAttributes"), &internal_path(spec), why);
        }
        (false, false) => {
            let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.invalid(&root.child("resourceAttributes"), &Value::Null, why);
        }
        _ => {}
    }
    if names_subject && spec.text("user").is_empty() && spec.list("groups").is_empty() {
        errors.invalid(&root.child("user"), "", "at least one of user or group must be specified");
    }
}

impl Strategy for AccessReviewStrategy {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        validate_spec(spec(object), self.names_subject, errors);
        let metadata = &object["metadata"];
        if metadata.as_object().is_some_and(|m| m.keys().any(|k| k != "managedFields")) {
            errors.invalid(&Path::Root("metadata"), metadata, "must be empty");
        }
    }
}
