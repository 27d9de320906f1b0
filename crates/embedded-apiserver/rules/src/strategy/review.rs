//! Reviews, which are answered and not stored, after `pkg/apis/authorization/validation` and
//! `pkg/registry/authentication/tokenreview/storage.go`.

use serde_json::Value;

use crate::status::Status;
use crate::validation::{Errors, Path};
use crate::value::{Fields, spec};

use super::Strategy;

/// The strategy of reviews whose spec must hold one field, without which they get a 400.
pub(crate) struct RequiredFieldStrategy {
    /// The field of the spec.
    pub(crate) field: &'static str,
    /// The message of the error.
    pub(crate) message: &'static str,
}

impl Strategy for RequiredFieldStrategy {
    fn begin_create(&self, object: &mut Value, _errors: &mut Errors) -> Result<(), Status> {
        if spec(object).text(self.field).is_empty() { Err(Status::bad_request(self.message)) } else { Ok(()) }
    }
}

/// The strategy of SubjectAccessReviews and SelfSubjectAccessReviews.
pub(crate) struct AccessReviewStrategy {
    /// Whether the spec names the subject.
    pub(crate) names_subject: bool,
}

impl Strategy for AccessReviewStrategy {
    fn validate(&self, object: &Value, errors: &mut Errors) {
        let root = Path::Root("spec");
        let spec = spec(object);
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
        if self.names_subject && spec.text("user").is_empty() && spec.list("groups").is_empty() {
            errors.invalid(&root.child("user"), "", "at least one of user or group must be specified");
        }
        let metadata = &object["metadata"];
        if metadata.as_object().is_some_and(|m| m.keys().any(|k| k != "managedFields")) {
            errors.invalid(&Path::Root("metadata"), metadata, "must be empty");
        }
    }
}
