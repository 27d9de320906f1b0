//! The errors of strategic merge patches, after apimachinery's `util/mergepatch`.

use serde_json::{Map, Value};

/// The key of a directive that replaces, merges or deletes an object.
pub(super) const PATCH: &str = "$patch";

/// The reason why a patch does not apply, in the words of apimachinery's `util/mergepatch`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Error {
    #[error("invalid patch format of primitive list")]
    PrimitiveList,
    #[error("invalid patch format of retainKeys")]
    RetainKeys,
    #[error("invalid patch format of setElementOrder list")]
    ElementOrder,
    #[error("the order in the patch list doesn't match the $setElementOrder list")]
    OrderMismatch,
    #[error("lists of lists are not supported")]
    ListOfLists,
    #[error("list element types are not identical")]
    MixedList,
    #[error("map: {object} does not contain declared merge key: {merge_key}")]
    NoMergeKey { object: String, merge_key: String },
    #[error("unknown patch type: {directive} in map: {object}")]
    UnknownDirective { directive: String, object: String },
    #[error("merging lists cannot yet be specified in the patch")]
    MergeDirectiveInList,
    #[error("cannot merge lists without merge key")]
    NoDeclaredMergeKey,
}

/// Returns an object as Go prints a map; upstream's messages contain it.
pub(super) fn go_format(object: &Map<String, Value>) -> String {
    fn text(value: &Value) -> String {
        match value {
            Value::Null => "<nil>".to_owned(),
            Value::String(string) => string.clone(),
            Value::Array(list) => format!("[{}]", list.iter().map(text).collect::<Vec<_>>().join(" ")),
            Value::Object(object) => go_format(object),
            other => other.to_string(),
        }
    }
    let fields: Vec<String> = object.iter().map(|(key, one)| format!("{key}:{}", text(one))).collect();
    format!("map[{}]", fields.join(" "))
}
