//! The differences between two versions of an object, for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::writable::Writable;

/// How many lines are printed at most.
const MOST_LINES: usize = 20;

/// The fields that the server sets; a controller sends them back unchanged.
const OF_THE_SERVER: [&str; 5] =
    ["creationTimestamp", "generation", "managedFields", "resourceVersion", "uid"];

/// One line per difference: `+` for what `after` adds, `-` for what it lacks, `~` for what it
/// changes. The order does not depend on the order of lists.
pub(super) fn between<T: Writable>(before: Option<&T>, after: Option<&T>) -> String {
    let mut lines = Vec::new();
    compare(&mut lines, "", &content(before), &content(after));
    let hidden = lines.len().saturating_sub(MOST_LINES);
    lines.truncate(MOST_LINES);
    let mut text = lines.join("\n");
    if hidden > 0 {
        let _ = write!(text, "\n  and {hidden} more");
    }
    text
}

fn content<T: Writable>(object: Option<&T>) -> Value {
    let mut value = object.and_then(|object| serde_json::to_value(object).ok()).unwrap_or(Value::Null);
    if let Some(Value::Object(metadata)) = value.get_mut("metadata") {
        metadata.retain(|name, _| !OF_THE_SERVER.contains(&name.as_str()));
    }
    // So that the lists of a new object are printed item by item.
    if value.is_null() { Value::Object(Map::new()) } else { value }
}

fn compare(lines: &mut Vec<String>, path: &str, before: &Value, after: &Value) {
    if before == after {
        return;
    }
    match (parts(before), parts(after)) {
        (Some(before), Some(after)) => {
            let names: BTreeMap<&String, ()> =
                before.keys().chain(after.keys()).map(|name| (name, ())).collect();
            for name in names.into_keys() {
                let path = if path.is_empty() {
                    name.trim_start_matches('.').to_owned()
                } else {
                    format!("{path}{name}")
                };
                match (before.get(name), after.get(name)) {
                    (Some(before), Some(after)) => compare(lines, &path, before, after),
                    (Some(before), None) => one_sided(lines, '-', &path, before),
                    (None, Some(after)) => one_sided(lines, '+', &path, after),
                    (None, None) => {}
                }
            }
        }
        _ => lines.push(format!("~ {path}: {before} -> {after}")),
    }
}

/// A value that is there in one version only. The items of lists of objects have a line each.
fn one_sided(lines: &mut Vec<String>, sign: char, path: &str, value: &Value) {
    let of_objects = |items: &Vec<Value>| items.iter().any(Value::is_object);
    match value {
        Value::Null => {}
        Value::Array(items) if of_objects(items) => {
            for (name, item) in parts(value).unwrap_or_default() {
                one_sided(lines, sign, &format!("{path}{name}"), item);
            }
        }
        Value::Object(fields) if path == "metadata" => {
            for (name, field) in fields {
                one_sided(lines, sign, &format!("{path}.{name}"), field);
            }
        }
        Value::Object(fields) if fields.is_empty() => {}
        value => lines.push(format!("{sign} {path}: {value}")),
    }
}

/// The fields of an object as `.name`, or the items of a list as `[key]`; `None` for other values.
/// The key of an item is its address, its name and port, or its place.
fn parts(value: &Value) -> Option<BTreeMap<String, &Value>> {
    match value {
        Value::Object(fields) => {
            Some(fields.iter().map(|(name, field)| (format!(".{name}"), field)).collect())
        }
        Value::Array(items) if items.iter().all(Value::is_object) => {
            let mut named = BTreeMap::new();
            for (place, item) in items.iter().enumerate() {
                let key = key(item).unwrap_or_else(|| place.to_string());
                let mut name = format!("[{key}]");
                let mut copy = 1;
                while named.contains_key(&name) {
                    copy += 1;
                    name = format!("[{key}#{copy}]");
                }
                named.insert(name, item);
            }
            Some(named)
        }
        _ => None,
    }
}

fn key(item: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(addresses) =
        item["addresses"].as_array().filter(|addresses| addresses.iter().all(Value::is_string))
    {
        return Some(addresses.iter().filter_map(text).collect::<Vec<_>>().join(","));
    }
    if let Some(address) = text(&item["ip"]) {
        return Some(address);
    }
    let port = item.get("port")?;
    Some(format!(
        "{}:{port}/{}",
        text(&item["name"]).unwrap_or_default(),
        text(&item["protocol"]).unwrap_or_default()
    ))
}
