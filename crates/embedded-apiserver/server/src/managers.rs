//! The managedFields of Endpoints and EndpointSlices, on a server that tracks them.
//!
//! A client owns the fields that it changes, and others no longer own them; fields that it sends
//! unchanged keep their owner. As a kube-apiserver, the server does not track an object without
//! managedFields after its creation, and the lists of these kinds have an owner as a whole. It
//! tracks labels and annotations one by one, and no other metadata.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube_endpoint_apiserver_rules::resource::{self, Resource};
use serde_json::{Map, Value, json};

use crate::clock::rfc3339;
use crate::metadata::{is_empty, set_list};

/// A field: the map of the metadata that contains it, or the empty string, and its name.
type Field = (&'static str, String);

/// The maps of the metadata whose keys the server tracks.
const MAPS: [&str; 2] = ["labels", "annotations"];

/// Sets the managedFields of an object that `manager` creates, or writes in place of `old`.
pub(crate) fn track(
    resource: &Resource,
    old: Option<&Value>,
    new: &mut Value,
    manager: &str,
    now: Timestamp,
) {
    if ![&resource::ENDPOINTS, &resource::ENDPOINT_SLICES].contains(&resource) {
        return;
    }
    if old.is_some_and(|_| is_empty(&new["metadata"]["managedFields"])) {
        return;
    }
    let before = old.map(values).unwrap_or_default();
    let after = values(new);
    let changed: BTreeSet<Field> = after
        .iter()
        .filter(|(field, value)| before.get(*field) != Some(value))
        .map(|(field, _)| field.clone())
        .collect();
    let is_of_writer = |entry: &Value| entry["manager"] == manager && entry["operation"] == "Update";
    let mut written = changed.clone();
    let mut entries = Vec::new();
    for entry in new["metadata"]["managedFields"].as_array().into_iter().flatten() {
        let mut owned = owned(&entry["fieldsV1"]);
        owned.retain(|field| after.contains_key(field));
        if is_of_writer(entry) && !changed.is_empty() {
            written.append(&mut owned);
            continue;
        }
        owned.retain(|field| !changed.contains(field));
        if !owned.is_empty() {
            let mut entry = entry.clone();
            entry["fieldsV1"] = fields_v1(&owned);
            entries.push(entry);
        }
    }
    if !changed.is_empty() {
        entries.push(json!({
            "manager": manager, "operation": "Update", "apiVersion": new["apiVersion"], "time": rfc3339(now),
            "fieldsType": "FieldsV1", "fieldsV1": fields_v1(&written),
        }));
    }
    set_list(new, "managedFields", entries);
}

/// Returns the tracked fields and their values. An empty one counts as absent.
fn values(object: &Value) -> BTreeMap<Field, Value> {
    let is_some = |value: &Value| !value.is_null() && !value.as_array().is_some_and(Vec::is_empty);
    let content = ["addressType", "endpoints", "ports", "subsets"].into_iter();
    let content = content.map(|name| (("", name.to_owned()), object[name].clone()));
    let of_map = |map: &'static str| {
        let keys = object["metadata"][map].as_object().into_iter().flatten();
        keys.map(move |(key, value)| ((map, key.clone()), value.clone()))
    };
    content.chain(MAPS.into_iter().flat_map(of_map)).filter(|(_, value)| is_some(value)).collect()
}

/// Returns the tracked fields of an entry.
fn owned(fields: &Value) -> BTreeSet<Field> {
    let names = |fields: &Value| {
        let keys = fields.as_object().into_iter().flatten().map(|(key, _)| key);
        keys.filter_map(|key| key.strip_prefix("f:").map(str::to_owned)).collect::<Vec<_>>()
    };
    let content = names(fields).into_iter().filter(|name| name != "metadata").map(|name| ("", name));
    let of_map = |map: &'static str| {
        names(&fields["f:metadata"][format!("f:{map}")]).into_iter().map(move |name| (map, name))
    };
    content.chain(MAPS.into_iter().flat_map(of_map)).collect()
}

fn fields_v1(owned: &BTreeSet<Field>) -> Value {
    let mut fields = Map::new();
    for (map, name) in owned {
        let name = format!("f:{name}");
        if map.is_empty() {
            fields.insert(name, json!({}));
        } else {
            let metadata = fields.entry("f:metadata").or_insert_with(|| json!({}));
            metadata[format!("f:{map}")][name] = json!({});
        }
    }
    fields.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::set;

    const SUBSETS: [&str; 3] = ["a", "b", "c"];

    fn endpoints(ip: &str, labels: Value) -> Value {
        json!({"apiVersion": "v1", "metadata": {"name": "web", "labels": labels}, "subsets": [{"addresses": [{"ip": ip}]}]})
    }

    /// Returns each manager and the fields that it owns, by time.
    fn owners(object: &Value) -> Vec<String> {
        let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
        entries
            .iter()
            .map(|entry| format!("{} {}", entry["manager"].as_str().unwrap(), entry["fieldsV1"]))
            .collect()
    }

    /// Replaces an object, as an update that keeps the managedFields does.
    fn update(old: &Value, mut new: Value, manager: &str, seconds: i64) -> Value {
        if !new["metadata"].as_object().unwrap().contains_key("managedFields") {
            set(&mut new, "managedFields", old["metadata"]["managedFields"].clone());
        }
        let now = Timestamp::from_second(seconds).unwrap();
        track(&resource::ENDPOINTS, Some(old), &mut new, manager, now);
        new
    }

    #[test]
    fn a_field_is_owned_by_who_changed_it_last() {
        let [first, second, third] = SUBSETS;
        let mut made = endpoints(first, json!({"x": "y"}));
        track(&resource::ENDPOINTS, None, &mut made, "one", Timestamp::UNIX_EPOCH);
        let all = r#"{"f:metadata":{"f:labels":{"f:x":{}}},"f:subsets":{}}"#;
        assert_eq!(owners(&made), [format!("one {all}")]);
        let same = update(&made, endpoints(first, json!({"x": "y"})), "two", 1);
        assert_eq!(owners(&same), owners(&made));
        let edited = update(&made, endpoints(second, json!({"x": "y"})), "two", 1);
        let label = r#"{"f:metadata":{"f:labels":{"f:x":{}}}}"#;
        assert_eq!(owners(&edited), [format!("one {label}"), r#"two {"f:subsets":{}}"#.to_owned()]);
        assert_eq!(edited["metadata"]["managedFields"][1]["time"], "1970-01-01T00:00:01Z");
        let back = update(&edited, endpoints(third, json!({"x": "y"})), "one", 2);
        assert_eq!(owners(&back), [format!("one {all}")]);
        let without = update(&back, endpoints(third, json!({})), "two", 3);
        assert_eq!(owners(&without), [r#"one {"f:subsets":{}}"#]);
    }

    #[test]
    fn an_object_without_managed_fields_is_not_tracked() {
        let old = endpoints("a", json!({}));
        assert_eq!(owners(&update(&old, endpoints("b", json!({})), "one", 1)), [""; 0]);
        let mut pod = json!({"metadata": {}, "spec": {}});
        track(&resource::PODS, None, &mut pod, "one", Timestamp::UNIX_EPOCH);
        assert_eq!(owners(&pod), [""; 0]);
    }
}
