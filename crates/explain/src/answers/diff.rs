//! Diff: finds the changes that the controllers would make in the objects of a cluster.

use std::collections::BTreeSet;

use kube_endpoint_core_model::display::PlannedObject;
use kube_endpoint_core_model::well_known::ANNOTATION_TRIGGER_TIME;
use kube_endpoint_core_model::{ObjectKey, Timestamp, Writes};
use serde::Serialize;
use serde_json::{Value, json};

use crate::facts::json::{each, pairs};
use crate::facts::objects::Objects;
use crate::facts::options::Options;
use crate::models::planned::Planned;

/// The kind of change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verb {
    Create,
    Update,
    Delete,
}

/// One write that is due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Change {
    /// The Service of the object.
    pub service: ObjectKey,
    /// `EndpointSlice` or `Endpoints`.
    pub kind: &'static str,
    pub verb: Verb,
    /// The object. Its name ends with `*` if the API server will generate it.
    pub object: ObjectKey,
    /// The fields that differ, by path.
    pub fields: Vec<FieldChange>,
    /// The change as a unified diff of the object in YAML, as it is and as it should be. Items of
    /// lists have the order of the existing object.
    pub unified: String,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FieldChange {
    /// Its path, such as `endpoints[10.1.0.1].conditions.ready`. An item of a list appears by its
    /// address or port, if it has one.
    pub path: String,
    /// The present value, as JSON, or `None` if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// The desired value, as JSON, or `None` if there should be none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// The changes that the controllers would make.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Diff {
    /// The writes, by Service.
    pub changes: Vec<Change>,
    /// Sentences about the kinds that could not be read. The diff lacks the changes that depend on
    /// them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_read: Vec<String>,
}

impl Diff {
    /// Sets [`not_read`](Self::not_read).
    pub fn with_not_read(self, not_read: Vec<String>) -> Self {
        Self { not_read, ..self }
    }

    /// Returns true if nothing would change.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Returns the exit code of a program like diff: 1 if something would change, 2 if nothing
    /// would but some objects could not be read, otherwise 0.
    pub fn exit_code(&self) -> u8 {
        match (self.is_empty(), self.not_read.is_empty()) {
            (false, _) => 1,
            (true, false) => 2,
            (true, true) => 0,
        }
    }

    /// Returns the changes that all of these readings of a cluster have in common. A change in only
    /// some of them was under way.
    pub fn persisting(readings: &[Self]) -> Self {
        let Some((last, earlier)) = readings.split_last() else { return Self::default() };
        let earlier: Vec<BTreeSet<Change>> =
            earlier.iter().map(|diff| diff.changes.iter().map(Change::without_order).collect()).collect();
        let persists = |change: &&Change| earlier.iter().all(|diff| diff.contains(&change.without_order()));
        let not_read: BTreeSet<&String> = readings.iter().flat_map(|diff| &diff.not_read).collect();
        Self {
            changes: last.changes.iter().filter(persists).cloned().collect(),
            not_read: not_read.into_iter().cloned().collect(),
        }
    }
}

impl Change {
    /// Returns a copy to compare with that of another reading.
    fn without_order(&self) -> Self {
        let mut copy = self.clone();
        copy.fields.sort();
        copy.unified.clear();
        copy
    }
}

/// The reason why this cannot show a difference. It does not happen with the objects that this
/// crate makes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DiffError {
    #[error("an object cannot be written as JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("an object cannot be written as YAML: {0}")]
    Yaml(String),
}

/// Returns the changes that the controllers would make now for all Services and Endpoints. It
/// ignores the trigger time, which tells why a controller wrote an object, and is no reason to
/// write one.
///
/// # Errors
///
/// This does not fail: the objects serialise to JSON and YAML.
pub fn diff(objects: &Objects, now: Timestamp, options: &Options) -> Result<Diff, DiffError> {
    let topology = objects.topology();
    let mut keys: BTreeSet<&ObjectKey> = objects.services().collect();
    keys.extend(objects.endpoints.keys());
    keys.extend(objects.slices.keys());
    let mut diff = Diff::default();
    for key in keys {
        let planned = Planned::new(objects, key, &topology, now, options);
        for writes in planned.slice_writes() {
            let existing = |name: &str| {
                objects
                    .slices_of(key)
                    .iter()
                    .find(|slice| *slice.metadata.name == *name)
                    .map(|slice| &**slice)
            };
            add(&mut diff.changes, key, "EndpointSlice", writes, existing)?;
        }
        for writes in planned.endpoints_writes() {
            add(&mut diff.changes, key, "Endpoints", writes, |_| objects.endpoints_of(key))?;
        }
    }
    Ok(diff)
}

fn add<'o, T: PlannedObject + Serialize + 'o>(
    changes: &mut Vec<Change>,
    service: &ObjectKey,
    kind: &'static str,
    writes: &Writes<T>,
    existing: impl Fn(&str) -> Option<&'o T>,
) -> Result<(), DiffError> {
    let mut push = |verb: Verb, object: &T, old: Option<&T>, new: Option<&T>| {
        let metadata = object.metadata();
        let name = if metadata.name.is_empty() {
            format!("{}*", metadata.generate_name).into()
        } else {
            metadata.name.clone()
        };
        let (old, new) = (comparable(old)?, comparable(new)?);
        let mut fields = Vec::new();
        compare("", &old, &new, &mut fields);
        let object = ObjectKey { namespace: metadata.namespace.clone(), name };
        let unified = unified(kind, &object, &old, &new)?;
        changes.push(Change { service: service.clone(), kind, verb, object, fields, unified });
        Ok::<(), DiffError>(())
    };
    for object in &writes.create {
        push(Verb::Create, object, None, Some(object))?;
    }
    for object in &writes.update {
        push(Verb::Update, object, existing(&object.metadata().name), Some(object))?;
    }
    for object in &writes.delete {
        push(Verb::Delete, object, Some(object), None)?;
    }
    Ok(())
}

/// Returns an object as JSON, without the fields that every write changes.
fn comparable<T: Serialize>(object: Option<&T>) -> Result<Value, serde_json::Error> {
    let mut json = object.map(serde_json::to_value).transpose()?.unwrap_or_default();
    if let Some(metadata) = json.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in
            ["name", "generateName", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp"]
        {
            metadata.remove(field);
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(ANNOTATION_TRIGGER_TIME);
        }
        metadata.retain(|_, value| value.as_object().is_none_or(|fields| !fields.is_empty()));
    }
    Ok(json)
}

/// Lines around a change in a unified diff.
const CONTEXT: usize = 3;

/// Returns a unified diff of two versions of an object in YAML.
fn unified(kind: &str, object: &ObjectKey, old: &Value, new: &Value) -> Result<String, DiffError> {
    let ordered = ordered_as(new, old);
    let label = format!("{kind} {object}");
    let side = |value: &Value| -> Result<(String, String), DiffError> {
        if value.is_null() {
            return Ok(("/dev/null".to_owned(), String::new()));
        }
        let yaml = serde_saphyr::to_string(value).map_err(|error| DiffError::Yaml(error.to_string()))?;
        Ok((label.clone(), yaml))
    };
    let ((old_label, old), (new_label, new)) = (side(old)?, side(&ordered)?);
    let diff = similar::TextDiff::from_lines(&old, &new);
    Ok(diff.unified_diff().context_radius(CONTEXT).header(&old_label, &new_label).to_string())
}

/// Returns a value whose lists have the order of another value, with items that the other lacks
/// last. To the controllers, two lists that differ only in their order are equal.
fn ordered_as(value: &Value, other: &Value) -> Value {
    match (value, other) {
        (Value::Object(fields), other) => {
            fields.iter().map(|(key, value)| (key.clone(), ordered_as(value, &other[key.as_str()]))).collect()
        }
        (Value::Array(_), Value::Array(_)) => {
            let other = named(other);
            let position = |name: &String| other.iter().position(|(name_there, _)| name_there == name);
            let mut items: Vec<(usize, Value)> = named(value)
                .into_iter()
                .map(|(name, item)| match position(&name).and_then(|at| Some((at, other.get(at)?))) {
                    Some((at, (_, other))) => (at, ordered_as(&item, other)),
                    None => (usize::MAX, item),
                })
                .collect();
            items.sort_by_key(|(at, _)| *at);
            items.into_iter().map(|(_, item)| item).collect()
        }
        (value, _) => value.clone(),
    }
}

/// Adds the fields in which two values differ.
fn compare(path: &str, old: &Value, new: &Value, changes: &mut Vec<FieldChange>) {
    match (old, new) {
        (Value::Object(_) | Value::Null, Value::Object(_)) | (Value::Object(_), Value::Null) => {
            let keys =
                |value: &Value| -> BTreeSet<String> { pairs(value).map(|(key, _)| key.clone()).collect() };
            for key in keys(old).union(&keys(new)) {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                compare(&path, &old[key.as_str()], &new[key.as_str()], changes);
            }
        }
        (Value::Array(_) | Value::Null, Value::Array(_)) | (Value::Array(_), Value::Null) => {
            let (old, new) = (named(old), named(new));
            let find = |items: &[(String, Value)], name: &str| {
                items
                    .iter()
                    .find(|(other, _)| other == name)
                    .map(|(_, value)| value.clone())
                    .unwrap_or_default()
            };
            let names: BTreeSet<&String> = old.iter().chain(&new).map(|(name, _)| name).collect();
            for name in names {
                let (old, new) = (find(&old, name), find(&new, name));
                // An item that is added or removed is one change.
                if old.is_null() || new.is_null() {
                    leaf(&format!("{path}[{name}]"), &old, &new, changes);
                } else {
                    compare(&format!("{path}[{name}]"), &old, &new, changes);
                }
            }
        }
        (old, new) => leaf(path, old, new, changes),
    }
}

fn leaf(path: &str, old: &Value, new: &Value, changes: &mut Vec<FieldChange>) {
    if old == new {
        return;
    }
    let text = |value: &Value| (!value.is_null()).then(|| value.to_string());
    changes.push(FieldChange { path: path.to_owned(), old: text(old), new: text(new) });
}

/// Returns the items of a list, each with a name that does not depend on the order: address, port,
/// owner. A number distinguishes two items of one name.
fn named(list: &Value) -> Vec<(String, Value)> {
    let mut named: Vec<(String, Value)> = Vec::new();
    for item in each(list) {
        let name = name_of(item);
        let same = named.iter().filter(|(other, _)| other.split('#').next() == Some(&name)).count();
        let name = if same == 0 { name } else { format!("{name}#{}", same + 1) };
        named.push((name, item.clone()));
    }
    named
}

fn name_of(item: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    };
    if let Some(addresses) = item["addresses"].as_array().filter(|list| list.iter().all(Value::is_string)) {
        return addresses.iter().map(text).collect::<Vec<_>>().join(",");
    }
    if item["ip"].is_string() {
        return text(&item["ip"]);
    }
    if item["uid"].is_string() {
        return text(&item["uid"]);
    }
    if item["port"].is_number() {
        let protocol = item.get("protocol").cloned().unwrap_or_else(|| json!("TCP"));
        let name = text(&item["name"]);
        let end = format!("{}/{}", item["port"], text(&protocol));
        return if name.is_empty() { end } else { format!("{name}={end}") };
    }
    if let Some(ports) = item["ports"].as_array() {
        return ports.iter().map(name_of).collect::<Vec<_>>().join(",");
    }
    if item["name"].is_string() {
        return text(&item["name"]);
    }
    text(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &Value, new: &Value, want: &[&str]) {
        let mut changes = Vec::new();
        compare("", old, new, &mut changes);
        let text = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
        let texts =
            changes.into_iter().map(|it| format!("{}: {} -> {}", it.path, text(it.old), text(it.new)));
        assert_eq!(texts.collect::<Vec<_>>(), want);
    }

    #[test]
    fn fields_are_compared_by_path() {
        check(&json!({"a": {"b": 1, "c": 2}}), &json!({"a": {"b": 1, "c": 3}}), &["a.c: 2 -> 3"]);
        check(&json!({"a": 1}), &json!({}), &["a: 1 -> none"]);
        check(&json!({}), &json!({"a": {"b": "x"}}), &["a.b: none -> \"x\""]);
        check(&json!({"a": 1}), &json!({"a": 1}), &[]);
    }

    #[test]
    fn items_are_compared_by_name_and_not_by_position() {
        let endpoint =
            |address: &str, ready: bool| json!({"addresses": [address], "conditions": {"ready": ready}});
        check(
            &json!({"endpoints": [endpoint("10.0.0.1", true), endpoint("10.0.0.2", true)]}),
            &json!({"endpoints": [endpoint("10.0.0.2", false), endpoint("10.0.0.1", true)]}),
            &["endpoints[10.0.0.2].conditions.ready: true -> false"],
        );
        check(
            &json!({"ports": [{"name": "http", "port": 80, "protocol": "TCP"}]}),
            &json!({"ports": [{"name": "http", "port": 81, "protocol": "TCP"}]}),
            &[
                "ports[http=80/TCP]: {\"name\":\"http\",\"port\":80,\"protocol\":\"TCP\"} -> none",
                "ports[http=81/TCP]: none -> {\"name\":\"http\",\"port\":81,\"protocol\":\"TCP\"}",
            ],
        );
    }

    #[test]
    fn items_of_one_name_are_numbered() {
        check(&json!({"f": ["x"]}), &json!({"f": ["x", "x"]}), &["f[x#2]: none -> \"x\""]);
    }

    #[test]
    fn only_what_every_reading_shows_persists() {
        let change = |name: &str| Change {
            service: ObjectKey::new("n", "web"),
            kind: "EndpointSlice",
            verb: Verb::Delete,
            object: ObjectKey::new("n", name),
            fields: Vec::new(),
            unified: format!("of {name}"),
        };
        let reading = |names: &[&str]| Diff {
            changes: names.iter().map(|name| change(name)).collect(),
            not_read: Vec::new(),
        };
        let common = Diff::persisting(&[reading(&["a", "b"]), reading(&["b", "c"]), reading(&["c", "b"])]);
        assert_eq!(common, reading(&["b"]));
        assert_eq!((common.exit_code(), Diff::persisting(&[]).exit_code()), (1, 0));
    }

    #[test]
    fn a_unified_diff_shows_no_change_of_order() {
        let endpoint =
            |address: &str, ready: bool| json!({"addresses": [address], "conditions": {"ready": ready}});
        let old = json!({"endpoints": [endpoint("10.0.0.1", true), endpoint("10.0.0.2", true)]});
        let new = json!({"endpoints": [endpoint("10.0.0.3", true), endpoint("10.0.0.2", false), endpoint("10.0.0.1", true)]});
        let text = unified("EndpointSlice", &ObjectKey::new("n", "web"), &old, &new).unwrap();
        insta::assert_snapshot!(text);
        let text =
            unified("Endpoints", &ObjectKey::new("n", "web"), &Value::Null, &json!({"subsets": []})).unwrap();
        insta::assert_snapshot!(text, @r"
        --- /dev/null
        +++ Endpoints n/web
        @@ -0,0 +1 @@
        +subsets: []
        ");
    }
}
