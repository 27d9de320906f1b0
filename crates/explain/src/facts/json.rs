//! Reads fields of objects that somebody may have written in any form.

use kube_endpoint_core_model::Timestamp;
use serde_json::Value;

/// Returns the items of a list; a value of another kind has no items.
pub(crate) fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns the pairs of an object; a value of another kind has no pairs.
pub(crate) fn pairs(object: &Value) -> impl Iterator<Item = (&String, &Value)> {
    object.as_object().into_iter().flatten()
}

/// Returns a text, or an empty one if it is something else.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns a number, or 0 if it is something else.
pub(crate) fn number(value: &Value) -> i32 {
    value.as_i64().and_then(|number| number.try_into().ok()).unwrap_or_default()
}

/// Returns a time, or `None` if it is something else.
pub(crate) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}
