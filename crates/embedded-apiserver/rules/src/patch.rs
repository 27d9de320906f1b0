//! JSON, merge and strategic merge patches, after the apiserver's `endpoints/handlers/patch.go`.

mod definitions;
mod jsonpatch;
mod mergepatch;
mod order;
pub(crate) mod schema;
mod strategic;

pub use definitions::definitions;

use serde_json::Value;

use crate::resource::Resource;
use crate::status::{Details, Status};
use crate::strategy::parse::{Guide, parse};
use crate::value::json_type;

/// The maximum number of operations in one JSON patch, as upstream's.
const MAX_JSON_PATCH_OPERATIONS: usize = 10_000;

/// The format of a patch, as its content type says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchType {
    /// `application/json-patch+json`
    Json,
    /// `application/merge-patch+json`
    Merge,
    /// `application/strategic-merge-patch+json`
    Strategic,
}

impl PatchType {
    /// Returns the patch type of a `Content-Type` header. The error (415) lists the supported
    /// types, which do not include server-side apply.
    pub fn from_content_type(content_type: &str, resource: &Resource) -> Result<Self, Status> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !resource.is_custom() => Ok(Self::Strategic),
            _ => {
                let strategic =
                    if resource.is_custom() { "" } else { ", application/strategic-merge-patch+json" };
                let message = format!(
                    "the body of the request was in an unknown format - accepted media types include: \
                     application/json-patch+json, application/merge-patch+json{strategic}"
                );
                Err(Status::new(415, "UnsupportedMediaType", message))
            }
        }
    }
}

/// Applies `patch` to `current`. Both `current` and the result are JSON objects as sent to clients.
/// The second result names the keys that occur twice in the patch, as strict decoding does.
///
/// Errors: 400 for a malformed patch, 422 for a JSON patch that does not apply (or whose `test`
/// fails), 413 for more than 10,000 operations. The caller has to decode, default and validate the
/// result.
pub fn apply(
    resource: &Resource,
    current: &Value,
    patch_type: PatchType,
    patch: &[u8],
) -> Result<(Value, Vec<String>), Status> {
    match patch_type {
        PatchType::Json => json_patch(current, patch),
        PatchType::Merge => {
            let (patch, duplicates) =
                object(patch).map_err(|why| Status::bad_request(format!("error decoding patch: {why}")))?;
            let mut patched = current.clone();
            json_patch::merge(&mut patched, &Value::Object(patch));
            Ok((patched, duplicates))
        }
        PatchType::Strategic => {
            let (patch, duplicates) = object(patch).map_err(Status::bad_request)?;
            let current = match current {
                Value::Object(current) => current.clone(),
                _ => serde_json::Map::new(),
            };
            let merged = strategic::merge(current, patch, resource.patch_schema)?;
            Ok((Value::Object(merged), duplicates))
        }
    }
}

/// Parses a patch that must be an object. Also returns the keys that occur twice. The error is
/// Go's.
fn object(patch: &[u8]) -> Result<(serde_json::Map<String, Value>, Vec<String>), String> {
    let parsed = parse(Guide::Any, patch).map_err(|error| error.to_string())?;
    match parsed.value {
        Value::Object(patch) => Ok((patch, parsed.strict)),
        Value::Null => Ok((serde_json::Map::new(), parsed.strict)),
        other => Err(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_type(&other)
        )),
    }
}

fn json_patch(current: &Value, patch: &[u8]) -> Result<(Value, Vec<String>), Status> {
    let not_decoded = |why: String| Status::bad_request(format!("error decoding patch: {why}"));
    let parsed = parse(Guide::Any, patch).map_err(|error| not_decoded(error.to_string()))?;
    let Value::Array(operations) = parsed.value else {
        let why = format!("{} into Go value of type []handlers.jsonPatchOp", json_type(&parsed.value));
        return Err(not_decoded(format!("json: cannot unmarshal {why}")));
    };
    if operations.len() > MAX_JSON_PATCH_OPERATIONS {
        return Err(Status::new(
            413,
            "RequestEntityTooLarge",
            format!(
                "Request entity too large: The allowed maximum operations in a JSON patch is \
                 {MAX_JSON_PATCH_OPERATIONS}, got {}",
                operations.len()
            ),
        ));
    }
    for operation in &operations {
        check_operation(operation).map_err(|why| {
            Status::bad_request(format!("error decoding patch: json: cannot unmarshal {why}"))
        })?;
    }
    let mut patched = current.clone();
    jsonpatch::apply(&mut patched, &operations).map_err(|_| unprocessable())?;
    let duplicates = parsed.strict.iter().map(|text| format!("json patch {text}")).collect();
    Ok((patched, duplicates))
}

/// Checks the types of one operation. The error is Go's.
fn check_operation(operation: &Value) -> Result<(), String> {
    if !operation.is_object() && !operation.is_null() {
        return Err(format!("{} into Go value of type handlers.jsonPatchOp", json_type(operation)));
    }
    for field in ["op", "path", "from"] {
        let value = &operation[field];
        if !value.is_string() && !value.is_null() {
            return Err(format!(
                "{} into Go struct field jsonPatchOp.{field} of type string",
                json_type(value)
            ));
        }
    }
    Ok(())
}

/// Returns upstream's error for a well-formed patch that does not apply. It does not give the
/// reason.
fn unprocessable() -> Status {
    let mut status =
        Status::new(422, "Invalid", "the server rejected our request due to an error in our request");
    status.details = Some(Box::new(Details::default()));
    status
}

impl From<mergepatch::Error> for Status {
    fn from(error: mergepatch::Error) -> Self {
        use mergepatch::Error;
        match error {
            Error::PrimitiveList | Error::RetainKeys | Error::ElementOrder => {
                Self::bad_request(error.to_string())
            }
            Error::ListOfLists => unprocessable(),
            // Upstream has no Status for these errors and returns a bare 500.
            _ => Self::new(500, "", error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::resource::by_path;

    fn patched(patch_type: PatchType, current: &Value, patch: &str) -> Result<Value, Status> {
        let services = by_path("", "v1", "services").unwrap();
        apply(services, current, patch_type, patch.as_bytes()).map(|(patched, _)| patched)
    }

    #[test]
    fn invalid_patches_are_rejected() {
        let current = json!({"metadata": {"labels": {"a": "1"}}});
        let check = |patch_type: PatchType, patch: &str, code: u16| {
            let error = patched(patch_type, &current, patch).unwrap_err();
            assert_eq!(error.code, code, "{patch} {error}");
        };
        check(PatchType::Json, "{}", 400);
        check(PatchType::Json, "[1]", 400);
        check(PatchType::Json, "[", 400);
        check(PatchType::Json, r#"[{"op": "add", "path": 1}]"#, 400);
        check(PatchType::Json, r#"[{"op": "grow", "path": "/a"}]"#, 422);
        check(PatchType::Json, r#"[{"op": "test", "path": "/metadata/labels/a", "value": "2"}]"#, 422);
        check(PatchType::Json, r#"[{"op": "remove", "path": "/metadata/labels/b"}]"#, 422);
        check(PatchType::Merge, "[]", 400);
        check(PatchType::Merge, "nonsense", 400);
        check(PatchType::Strategic, "[]", 400);
        check(PatchType::Strategic, r#"{"metadata": {"$retainKeys": "a"}}"#, 400);
        check(PatchType::Strategic, r#"{"metadata": {"$deleteFromPrimitiveList": ["a"]}}"#, 400);
        check(PatchType::Strategic, r#"{"metadata": {"$patch": "grow"}}"#, 500);
        assert_eq!(
            patched(PatchType::Strategic, &current, "\"x\"").unwrap_err().message,
            "json: cannot unmarshal string into Go value of type map[string]interface {}"
        );
        let many: Vec<Value> =
            (0..=MAX_JSON_PATCH_OPERATIONS).map(|_| json!({"op": "remove", "path": "/a"})).collect();
        check(PatchType::Json, &Value::Array(many).to_string(), 413);
        insta::assert_snapshot!(
            patched(PatchType::Json, &current, r#"[{"op": "remove", "path": "/b"}]"#).unwrap_err().to_json(),
            @r#"{"apiVersion":"v1","code":422,"details":{},"kind":"Status","message":"the server rejected our request due to an error in our request","metadata":{},"reason":"Invalid","status":"Failure"}"#
        );
    }

    #[test]
    fn the_content_type_selects_the_patch_type() {
        assert_eq!(
            PatchType::from_content_type(
                "application/merge-patch+json; charset=utf-8",
                &crate::resource::PODS
            ),
            Ok(PatchType::Merge)
        );
        assert_eq!(
            PatchType::from_content_type("application/json", &crate::resource::PODS).unwrap_err().code,
            415
        );
    }
}
