//! JSON patches (RFC 6902) as upstream applies them, after `gopkg.in/evanphx/json-patch.v4`, which
//! is more lenient than the RFC: `replace` adds an absent member, an absent member equals `null`
//! and can be copied as `null`, and a negative index counts from the end of an array.

use serde_json::Value;

use crate::value::{MAX_DEPTH, depth};

/// The maximum size in bytes of all values that one patch copies, as upstream's
/// `JSONPatchMaxCopyBytes`.
const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// The patch does not apply. Upstream does not tell clients why.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotApplicable;

type Applied<T = ()> = Result<T, NotApplicable>;

/// Applies the operations in their order. After an error the document is in an undefined state.
pub(super) fn apply(document: &mut Value, operations: &[Value]) -> Applied {
    let mut copied = 0;
    for operation in operations {
        let field = |name: &str| operation[name].as_str().ok_or(NotApplicable);
        let value = || operation["value"].clone();
        match field("op")? {
            "add" => add(document, field("path")?, value())?,
            "remove" => drop(remove(document, field("path")?)?),
            "replace" => replace(document, field("path")?, value())?,
            "move" => {
                let moved = remove(document, field("from")?)?;
                add(document, field("path")?, moved)?;
            }
            "copy" => {
                let copy = get(document, field("from")?)?.cloned().unwrap_or_default();
                copied += copy.to_string().len();
                if copied > MAX_COPIED_BYTES {
                    return Err(NotApplicable);
                }
                add(document, field("path")?, copy)?;
            }
            "test" => test(document, field("path")?, operation)?,
            _ => return Err(NotApplicable),
        }
    }
    Ok(())
}

/// Returns the parent of the value at `path`, and the value's key or index.
fn parent<'a>(document: &'a mut Value, path: &str) -> Applied<(&'a mut Value, String)> {
    let unescaped = |step: &str| step.replace("~1", "/").replace("~0", "~");
    let (_, steps) = path.split_once('/').ok_or(NotApplicable)?;
    let (parents, last) =
        steps.rsplit_once('/').map_or((None, steps), |(parents, last)| (Some(parents), last));
    let mut value = document;
    for step in parents.into_iter().flat_map(|parents| parents.split('/')) {
        value = match value {
            Value::Object(fields) => fields.get_mut(&unescaped(step)),
            Value::Array(items) => {
                let index = index(step, items.len())?;
                items.get_mut(index)
            }
            _ => None,
        }
        .ok_or(NotApplicable)?;
    }
    Ok((value, unescaped(last)))
}

/// Parses an index into an array of this length. Negative ones count from the end.
fn index(text: &str, length: usize) -> Applied<usize> {
    let index: i64 = text.parse().map_err(|_| NotApplicable)?;
    let index = if index < 0 { index + length as i64 } else { index };
    usize::try_from(index).ok().filter(|index| *index < length).ok_or(NotApplicable)
}

/// Returns the value at `path`, or `None` if its parent is an object that does not have it.
fn get<'a>(document: &'a mut Value, path: &str) -> Applied<Option<&'a Value>> {
    match parent(document, path)? {
        (Value::Object(fields), key) => Ok(fields.get(&key)),
        (Value::Array(items), key) => Ok(items.get(index(&key, items.len())?)),
        _ => Err(NotApplicable),
    }
}

/// Fails if `value` would nest too deeply at `path`. A short patch can move or copy values into one
/// another ten thousand times, and the stack that clones or drops the result is finite.
fn check_depth(path: &str, value: &Value) -> Applied {
    let parents = path.bytes().filter(|byte| *byte == b'/').count();
    if parents + depth(value) > MAX_DEPTH { Err(NotApplicable) } else { Ok(()) }
}

fn add(document: &mut Value, path: &str, value: Value) -> Applied {
    check_depth(path, &value)?;
    match parent(document, path)? {
        (Value::Object(fields), key) => {
            fields.insert(key, value);
        }
        (Value::Array(items), key) if key == "-" => items.push(value),
        (Value::Array(items), key) => items.insert(index(&key, items.len() + 1)?, value),
        _ => return Err(NotApplicable),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Applied<Value> {
    match parent(document, path)? {
        (Value::Object(fields), key) => fields.remove(&key).ok_or(NotApplicable),
        (Value::Array(items), key) => Ok(items.remove(index(&key, items.len())?)),
        _ => Err(NotApplicable),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Applied {
    check_depth(path, &value)?;
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err(NotApplicable);
        }
        *document = value;
        return Ok(());
    }
    match parent(document, path)? {
        (Value::Object(fields), key) => {
            fields.insert(key, value);
        }
        (Value::Array(items), key) => {
            let index = index(&key, items.len())?;
            items[index] = value;
        }
        _ => return Err(NotApplicable),
    }
    Ok(())
}

fn test(document: &mut Value, path: &str, operation: &Value) -> Applied {
    let found = if path.is_empty() { Some(&*document) } else { get(document, path)? };
    let holds = match (found.filter(|value| !value.is_null()), operation.get("value")) {
        (None, expected) => expected.is_none_or(Value::is_null),
        (Some(found), expected) => expected == Some(found),
    };
    if holds { Ok(()) } else { Err(NotApplicable) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(operation: Value, expected: Option<Value>) {
        let mut document = json!({"labels": {"a": "1", "b/c": "2", "n": null}, "ports": [1, 2, 3]});
        let applied = apply(&mut document, &[operation]);
        assert_eq!(applied.ok().map(|()| document), expected);
    }

    #[track_caller]
    fn becomes(operation: Value, labels: Value, ports: Value) {
        check(operation, Some(json!({"labels": labels, "ports": ports})));
    }

    #[test]
    fn negative_indices_count_from_the_end() {
        let labels = || json!({"a": "1", "b/c": "2", "n": null});
        becomes(json!({"op": "add", "path": "/ports/-1", "value": 4}), labels(), json!([1, 2, 3, 4]));
        becomes(json!({"op": "add", "path": "/ports/-4", "value": 0}), labels(), json!([0, 1, 2, 3]));
        becomes(json!({"op": "remove", "path": "/ports/-3"}), labels(), json!([2, 3]));
        becomes(json!({"op": "replace", "path": "/ports/-1", "value": 9}), labels(), json!([1, 2, 9]));
        becomes(json!({"op": "move", "from": "/ports/-1", "path": "/ports/0"}), labels(), json!([3, 1, 2]));
        for index in ["-4", "3", "x", ""] {
            check(json!({"op": "remove", "path": format!("/ports/{index}")}), None);
        }
        check(json!({"op": "add", "path": "/ports/4", "value": 5}), None);
    }

    #[test]
    fn what_a_patch_nests_is_bounded() {
        // Each pair of operations wraps the value in two more objects.
        let wrapped = |times: usize| {
            let mut document = json!({"x": 1});
            let wrap = [
                json!({"op": "add", "path": "/y", "value": {}}),
                json!({"op": "move", "from": "/x", "path": "/y/a"}),
                json!({"op": "add", "path": "/x", "value": {}}),
                json!({"op": "move", "from": "/y", "path": "/x/a"}),
            ];
            apply(&mut document, &vec![wrap; times].concat()).map(|()| depth(&document))
        };
        assert_eq!(wrapped(63), Ok(MAX_DEPTH));
        assert_eq!(wrapped(64), Err(NotApplicable));
        assert_eq!(wrapped(2_500), Err(NotApplicable));
        // Each copy puts a value into its own innermost object, which doubles its depth.
        let mut document = json!({"x": {"a": {}}});
        let double = |times: u32| {
            let path = format!("/x{}", "/a".repeat(1 << times));
            json!({"op": "copy", "from": "/x", "path": path})
        };
        let operations: Vec<Value> = (0..17).map(double).collect();
        assert_eq!(apply(&mut document, &operations), Err(NotApplicable));
    }

    #[test]
    fn what_a_patch_copies_is_bounded() {
        let doubled = |times: usize| {
            let mut document = json!({"a": ["x".repeat(1024)]});
            let double = json!({"op": "copy", "from": "/a", "path": "/a/-"});
            apply(&mut document, &vec![double; times]).map(|()| document.to_string().len())
        };
        // Each copy doubles the document; the copies of twelve operations are about 4 MiB together.
        assert!(doubled(11).unwrap() < 2 * MAX_COPIED_BYTES);
        assert_eq!(doubled(12), Err(NotApplicable));
        assert_eq!(doubled(10_000), Err(NotApplicable));
    }
}
