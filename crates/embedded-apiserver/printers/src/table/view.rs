//! Reads single fields of an object. A field that is absent or of another type reads as empty,
//! since any object can have a table.

use serde_json::Value;

/// Returns the string at a JSON pointer, or the empty string.
pub(super) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the string at a JSON pointer, or `default` if there is none or an empty one.
pub(super) fn text_or<'a>(object: &'a Value, pointer: &str, default: &'a str) -> &'a str {
    match text(object, pointer) {
        "" => default,
        text => text,
    }
}

/// Returns the integer at a JSON pointer, or 0.
pub(super) fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// Returns the boolean at a JSON pointer, or false.
pub(super) fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

/// Returns the list at a JSON pointer, or an empty one.
pub(super) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns true if there is an object at a JSON pointer.
pub(super) fn has(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).is_some_and(Value::is_object)
}

/// Returns the status of the condition of a type, in `/status/conditions`.
pub(super) fn condition<'a>(object: &'a Value, condition_type: &str) -> Option<&'a str> {
    list(object, "/status/conditions")
        .iter()
        .find(|condition| text(condition, "/type") == condition_type)
        .map(|condition| text(condition, "/status"))
}

/// Returns the first few of `all` and the number of the others, as upstream shortens lists.
pub(super) fn shortened(all: &[String], empty: &str) -> String {
    const SHOWN: usize = 3;
    match all {
        [] => empty.to_owned(),
        few if few.len() <= SHOWN => few.join(","),
        many => format!("{} + {} more...", many[..SHOWN].join(","), many.len() - SHOWN),
    }
}
