//! Reads and changes single fields of an object's metadata.

use serde_json::{Value, json};

/// The finalizer of an owner that waits for the deletion of its dependents.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// The finalizer of an owner whose dependents the garbage collector will orphan.
pub(crate) const ORPHAN: &str = "orphan";

/// Returns a text of an object's metadata, or an empty one if it is absent.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object["metadata"][field].as_str().unwrap_or_default()
}

/// Sets a field of an object's metadata, which this creates if it is missing.
pub(crate) fn set(object: &mut Value, field: &str, value: impl Into<Value>) {
    if !object.is_object() {
        *object = json!({});
    }
    let metadata = &mut object["metadata"];
    if !metadata.is_object() {
        *metadata = json!({});
    }
    metadata[field] = value.into();
}

/// Removes a field of an object's metadata.
pub(crate) fn unset(object: &mut Value, field: &str) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove(field);
    }
}

/// Returns a list of an object's metadata, or an empty one if it is absent.
pub(crate) fn list(object: &Value, field: &str) -> Vec<Value> {
    object["metadata"][field].as_array().cloned().unwrap_or_default()
}

/// Sets a list of an object's metadata, or removes the field if it is empty. Returns true if the
/// list has elements.
pub(crate) fn set_list(object: &mut Value, field: &str, list: Vec<Value>) -> bool {
    let any = !list.is_empty();
    if any {
        set(object, field, list);
    } else {
        unset(object, field);
    }
    any
}

/// Returns true if a list is absent or has no elements.
pub(crate) fn is_empty(list: &Value) -> bool {
    list.as_array().is_none_or(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_can_be_set_on_anything() {
        for mut object in
            [json!(null), json!(3), json!({}), json!({"metadata": "x"}), json!({"metadata": {"a": 1}})]
        {
            set(&mut object, "name", "n");
            assert_eq!(text(&object, "name"), "n");
            unset(&mut object, "name");
            assert_eq!(text(&object, "name"), "");
        }
    }
}
