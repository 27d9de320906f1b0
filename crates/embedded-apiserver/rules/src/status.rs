//! Status errors as a kube-apiserver returns them: code, reason, message, details and causes.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::resource::Resource;
use crate::validation::Errors;

/// One invalid field, or one further reason, inside [`Details`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// Machine-readable, such as `FieldValueInvalid` or `NamespaceTerminating`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    pub message: String,
    /// The path of the field, such as `spec.ports[0].port`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

/// The object or resource that a Status error concerns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Details {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The plural resource name (or, for validation errors, the kind), as upstream has it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Seconds after which to retry; also sent as the `Retry-After` header.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

fn is_zero(seconds: &u32) -> bool {
    *seconds == 0
}

/// An error response: `kind: Status`, `status: Failure`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable, such as `NotFound`.
    pub reason: &'static str,
    /// For people, in upstream's words.
    pub message: String,
    /// The object or resource that it concerns.
    pub details: Option<Box<Details>>,
}

impl Status {
    /// Returns an error with no details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: None }
    }

    fn about(mut self, resource: &Resource, name: &str) -> Self {
        self.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: resource.group.to_owned(),
            kind: resource.plural.to_owned(),
            ..Details::default()
        }));
        self
    }

    /// Returns 400 BadRequest.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Returns 403 Forbidden of one object.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", resource.group_resource());
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// Returns 404 NotFound of one object.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", resource.group_resource()))
            .about(resource, name)
    }

    /// Returns 409 AlreadyExists of one object.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {name:?} already exists", resource.group_resource()))
            .about(resource, name)
    }

    /// Returns 409 Conflict: optimistic concurrency or a precondition.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {} {name:?}: {why}", resource.group_resource()),
        )
        .about(resource, name)
    }

    /// Returns 422 Invalid of an object of a resource.
    pub fn invalid(resource: &Resource, name: &str, errors: Errors) -> Self {
        // The real server has lost the kind of a review by then.
        let kind = if resource.is_stored() { resource.kind } else { "" };
        Self::invalid_object(resource.group, kind, name, errors)
    }

    /// Returns 422 Invalid, with a cause for each field. As upstream's, the message lists each text
    /// once.
    pub fn invalid_object(group: &str, kind: &str, name: &str, errors: Errors) -> Self {
        let causes = errors.into_causes();
        let mut known = BTreeSet::new();
        let texts = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message));
        let each: Vec<String> = texts.filter(|text| known.insert(text.clone())).collect();
        let listed = match each.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut status = Self::new(422, "Invalid", format!("{qualified} {name:?} is invalid: {listed}"));
        status.details = Some(Box::new(Details {
            name: name.to_owned(),
            group: group.to_owned(),
            kind: kind.to_owned(),
            causes,
            ..Details::default()
        }));
        status
    }

    /// Returns the body of the response.
    pub fn to_json(&self) -> serde_json::Value {
        let mut body = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "reason": self.reason, "code": self.code,
        });
        if self.reason.is_empty() {
            body.as_object_mut().and_then(|fields| fields.remove("reason"));
        }
        if let Some(details) = &self.details {
            body["details"] = serde_json::to_value(details).unwrap_or_default();
        }
        body
    }
}
