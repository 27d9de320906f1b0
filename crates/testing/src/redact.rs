//! Prepares values for snapshots: orders them, and replaces everything that differs from run to
//! run.

use std::collections::BTreeMap;
use std::fmt;

use kube_endpoint_core_model::Timestamp;
use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::describe;

const GENERATED_SUFFIX: usize = 5;
/// The characters of the suffixes that the API server and client-go generate.
const GENERATED_ALPHABET: &str = "bcdfghjklmnpqrstvwxz2456789";

/// A value for snapshots.
///
/// - It sorts a list of objects by kind, namespace, Service, address type, prefix of the name, and
///   content. Lists further inside, such as the writes of a plan, keep their order.
/// - A generated name becomes its prefix and a number in brackets, `web-[1]`; a uid becomes
///   `[uid-1]`. The numbers count in the order of the output, and one name or uid has one number,
///   wherever it appears.
/// - Resource versions become `[version]`, times `[time]`. `managedFields` are dropped.
///
/// `Display`, for `insta::assert_snapshot!`, has some lines for each slice, Endpoints and Event,
/// and YAML for anything else. `Serialize`, for `insta::assert_yaml_snapshot!`, has everything.
#[derive(Clone, Debug, PartialEq)]
pub struct Redacted(Value);

impl Redacted {
    /// Redacts a plan, an object or a list of objects.
    ///
    /// # Panics
    ///
    /// If the value cannot be serialized as JSON.
    #[track_caller]
    pub fn new(value: impl Serialize) -> Self {
        let mut value = match serde_json::to_value(value) {
            Ok(value) => value,
            Err(error) => panic!("a value that cannot be serialized: {error}"),
        };
        let mut names = BTreeMap::new();
        find_generated_names(&value, &mut names);
        clean(&mut value);
        sort_objects(&mut value, &names);
        let mut numbers = Numbers { prefixes: names, ..Numbers::default() };
        numbers.find(&value);
        numbers.replace(&mut value, "");
        Self(value)
    }
}

impl fmt::Display for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe::write(f, &self.0)
    }
}

impl Serialize for Redacted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

/// The generated names in a value, with their prefixes.
fn find_generated_names(value: &Value, names: &mut BTreeMap<String, String>) {
    if let Some((name, prefix)) = generated_name(&value["metadata"]) {
        names.insert(name.to_owned(), prefix.to_owned());
    }
    each_child(value, &mut |child| find_generated_names(child, names));
}

/// Returns a name that the server or a client generated, and its prefix. If the object has no
/// `generateName`, its suffix must look generated.
fn generated_name(metadata: &Value) -> Option<(&str, &str)> {
    let name = metadata["name"].as_str()?;
    if let Some(prefix) = metadata["generateName"].as_str().filter(|prefix| !prefix.is_empty()) {
        return name.starts_with(prefix).then_some((name, prefix));
    }
    metadata["labels"]["kubernetes.io/service-name"].as_str()?;
    let (prefix, suffix) = name.split_at_checked(name.len().checked_sub(GENERATED_SUFFIX)?)?;
    let generated = prefix.ends_with('-') && suffix.chars().all(|c| GENERATED_ALPHABET.contains(c));
    generated.then_some((name, prefix))
}

/// Replaces times and versions, and drops managed fields.
fn clean(value: &mut Value) {
    if let Some(fields) = value.as_object_mut() {
        fields.remove("managedFields");
        if let Some(version) = fields.get_mut("resourceVersion").filter(|version| version.is_string()) {
            *version = "[version]".into();
        }
    }
    match value {
        Value::String(text) if text.contains('T') && text.parse::<Timestamp>().is_ok() => {
            *text = "[time]".to_owned();
        }
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(fields) => fields.values_mut().for_each(clean),
        _ => {}
    }
}

/// Sorts a list of objects. Nested lists keep their order, which is that of writes or of endpoints.
fn sort_objects(value: &mut Value, names: &BTreeMap<String, String>) {
    if let Value::Array(items) = value
        && items.iter().all(|item| item["metadata"].is_object())
    {
        items.sort_by_cached_key(|object| sort_key(object, names));
    }
}

/// Returns the sort key of an object, without generated names and uids.
fn sort_key(object: &Value, names: &BTreeMap<String, String>) -> Vec<String> {
    let metadata = &object["metadata"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&metadata["name"]);
    let mut content = object.clone();
    let anonymous = Numbers { prefixes: names.clone(), ..Numbers::default() };
    anonymous.replace(&mut content, "");
    vec![
        text(&object["kind"]),
        text(&metadata["namespace"]),
        text(&metadata["labels"]["kubernetes.io/service-name"]),
        text(&object["addressType"]),
        names.get(&name).cloned().unwrap_or(name),
        content.to_string(),
    ]
}

/// The numbers of generated names and of uids. A text without a number replaces a name or uid that
/// has none.
#[derive(Default)]
struct Numbers {
    /// Prefix by generated name.
    prefixes: BTreeMap<String, String>,
    names: BTreeMap<String, usize>,
    names_of_prefix: BTreeMap<String, usize>,
    uids: BTreeMap<String, usize>,
}

impl Numbers {
    /// Numbers names and uids in the order of the output, in which the metadata of an object comes
    /// first.
    fn find(&mut self, value: &Value) {
        if let Some(name) = value["metadata"]["name"].as_str() {
            self.number_name(name);
        }
        if let Some(uid) = value["uid"].as_str() {
            self.number_uid(uid);
        }
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.find(item)),
            Value::Object(fields) => {
                fields.get("metadata").into_iter().for_each(|metadata| self.find(metadata));
                let others = fields.iter().filter(|(key, _)| *key != "metadata");
                others.for_each(|(_, field)| self.find(field));
            }
            _ => {}
        }
    }

    fn number_name(&mut self, name: &str) {
        let Some(prefix) = self.prefixes.get(name) else { return };
        if !self.names.contains_key(name) {
            let number = self.names_of_prefix.entry(prefix.clone()).or_default();
            *number += 1;
            self.names.insert(name.to_owned(), *number);
        }
    }

    fn number_uid(&mut self, uid: &str) {
        let next = self.uids.len() + 1;
        self.uids.entry(uid.to_owned()).or_insert(next);
    }

    fn replace(&self, value: &mut Value, key: &str) {
        match value {
            Value::String(text) if key == "uid" => {
                *text = match self.uids.get(text) {
                    Some(number) => format!("[uid-{number}]"),
                    None => "[uid]".to_owned(),
                };
            }
            Value::String(text) => self.replace_names(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.replace(item, "")),
            Value::Object(fields) => {
                for (key, field) in fields {
                    self.replace(field, key);
                }
            }
            _ => {}
        }
    }

    /// Replaces the generated names in a text. If one is a prefix of another, it replaces the
    /// longer one.
    fn replace_names(&self, text: &mut String) {
        for (name, prefix) in self.prefixes.iter().rev() {
            if text.contains(name.as_str()) {
                let number = self.names.get(name).map(usize::to_string).unwrap_or_default();
                *text = text.replace(name.as_str(), &format!("{prefix}[{number}]"));
            }
        }
    }
}

fn each_child(value: &Value, visit: &mut dyn FnMut(&Value)) {
    match value {
        Value::Array(items) => items.iter().for_each(visit),
        Value::Object(fields) => fields.values().for_each(visit),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn slice(name: &str, uid: &str, address: &str) -> Value {
        json!({
            "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "generateName": "web-", "uid": uid, "resourceVersion": uid,
                "labels": {"kubernetes.io/service-name": "web"}, "creationTimestamp": "2026-01-01T00:00:00Z",
                "managedFields": [{"manager": name}]},
            "endpoints": [{"addresses": [address], "targetRef": {"kind": "Pod", "name": "web-1", "uid": "pod-uid"}}],
        })
    }

    #[test]
    fn two_runs_look_the_same_whatever_was_generated() {
        let one = Redacted::new([slice("web-xk2lp", "7", "10.0.0.1"), slice("web-bbbbb", "8", "10.0.0.2")]);
        let two = Redacted::new([slice("web-aaaaa", "11", "10.0.0.2"), slice("web-zzzzz", "5", "10.0.0.1")]);
        assert_eq!(one, two);
        let other = Redacted::new([slice("web-xk2lp", "7", "10.0.0.1"), slice("web-bbbbb", "8", "10.0.0.3")]);
        assert_ne!(one, other);
    }

    #[test]
    fn one_uid_and_one_name_have_one_number_wherever_they_are() {
        let event = json!({"kind": "Event", "metadata": {"name": "e"}, "message": "slice web-xk2lp is full",
            "involvedObject": {"uid": "7", "name": "web-xk2lp"}});
        let redacted = Redacted::new([event, slice("web-xk2lp", "7", "10.0.0.1")]);
        let [slice, event] = redacted.0.as_array().unwrap().as_slice() else { panic!("two objects") };
        assert_eq!(slice["metadata"]["name"], "web-[1]");
        assert_eq!(event["message"], "slice web-[1] is full");
        assert_eq!(event["involvedObject"]["uid"], slice["metadata"]["uid"]);
        assert_ne!(slice["endpoints"][0]["targetRef"]["uid"], slice["metadata"]["uid"]);
        assert_eq!(slice["endpoints"][0]["targetRef"]["name"], "web-1");
        assert!(slice["metadata"]["managedFields"].is_null());
    }

    #[test]
    fn given_names_are_kept() {
        let check = |name: &str, want: &str| {
            let object = json!({"metadata": {"name": name, "labels": {"kubernetes.io/service-name": "web"}}});
            assert_eq!(Redacted::new(object).0["metadata"]["name"], want);
        };
        check("web-xk2lp", "web-[1]");
        check("web-extra", "web-extra");
        check("web", "web");
        check("xk2lp", "xk2lp");
        check("wéb-é", "wéb-é");
    }
}
