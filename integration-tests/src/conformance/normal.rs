//! Makes the normal form: it is equal for two correct runs, although their names, uids and orders
//! differ.
//!
//! It has Endpoints by name, groups of interchangeable slices, and events without their counts. The
//! README beside the recordings lists its rules. [`in_order`] sorts expectations, too, so the order
//! in a file does not matter.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::{Compare, Snapshot};

/// The annotation with the time of the change that caused an output.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The maximum number of endpoints in a slice if a step does not compare the sizes of slices.
const MOST_ENDPOINTS: usize = 100;

/// Returns the normal form of a snapshot of `namespace`, weakened as `compare` says.
pub fn normal_form(snapshot: &Snapshot, namespace: &str, compare: &Compare) -> Value {
    let symbols = Symbols::of(snapshot, namespace);
    let mut endpoints = Map::new();
    for object in &snapshot.endpoints {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        endpoints.insert(name.to_owned(), symbols.endpoints(object, compare));
    }
    let events: Vec<Value> = snapshot.events.iter().filter_map(event).collect();
    let mut form = json!({"endpoints": endpoints, "slices": symbols.groups(&snapshot.slices, compare), "events": events});
    in_order(&mut form);
    form
}

/// Sorts every list of a normal form whose order does not matter, and drops repeated annotations
/// and events.
pub fn in_order(form: &mut Value) {
    for object in form["endpoints"].as_object_mut().into_iter().flat_map(Map::values_mut) {
        for subset in object["subsets"].as_array_mut().into_iter().flatten() {
            for list in ["addresses", "notReadyAddresses", "ports"] {
                sort(subset.get_mut(list));
            }
        }
        sort(object.get_mut("subsets"));
    }
    for group in form["slices"].as_array_mut().into_iter().flatten() {
        for list in ["ports", "owners", "annotations", "endpoints"] {
            sort(group.get_mut(list));
        }
        if let Some(Value::Array(sets)) = group.get_mut("annotations") {
            sets.dedup();
        }
        if let Some(Value::Array(sizes)) = group.get_mut("sizes") {
            sizes.sort_by_key(|size| std::cmp::Reverse(size.as_u64()));
        }
    }
    sort(form.get_mut("slices"));
    sort(form.get_mut("events"));
    if let Some(Value::Array(events)) = form.get_mut("events") {
        events.dedup();
    }
}

/// Symbols for values that differ from run to run.
struct Symbols<'a> {
    /// "Kind/name" by uid.
    uids: HashMap<&'a str, String>,
    /// The creation times of the Services of the namespace.
    service_times: HashSet<&'a str>,
    namespace: &'a str,
}

impl<'a> Symbols<'a> {
    fn of(snapshot: &'a Snapshot, namespace: &'a str) -> Self {
        let mut uids = HashMap::new();
        for (kind, objects) in
            [("Service", &snapshot.services), ("Pod", &snapshot.pods), ("Endpoints", &snapshot.endpoints)]
        {
            for metadata in objects.iter().map(|object| &object["metadata"]) {
                if let (Some(uid), Some(name)) = (metadata["uid"].as_str(), metadata["name"].as_str()) {
                    uids.insert(uid, format!("{kind}/{name}"));
                }
            }
        }
        let created = |service: &'a Value| service["metadata"]["creationTimestamp"].as_str();
        Self { uids, service_times: snapshot.services.iter().filter_map(created).collect(), namespace }
    }

    fn uid(&self, uid: &str) -> String {
        format!("uid:{}", self.uids.get(uid).map_or("gone", String::as_str))
    }

    /// Returns the annotations of an object without empty ones, its trigger time replaced by the
    /// symbol or omitted.
    fn annotations(&self, object: &Value, compare: &Compare) -> Value {
        let mut annotations = object_at(object, &["metadata", "annotations"]);
        if compare.trigger.is_some() {
            annotations.remove(TRIGGER_TIME);
        }
        if let Some(time) = annotations.get_mut(TRIGGER_TIME)
            && time.as_str().is_some_and(|time| self.service_times.contains(time))
        {
            *time = json!("service.creationTimestamp");
        }
        Value::Object(without_empty(annotations))
    }

    /// Returns the symbol for the target of an address or endpoint.
    fn target(&self, reference: &Value) -> Value {
        let Value::Object(reference) = reference else { return Value::Null };
        let mut reference = reference.clone();
        if let Some(uid) = reference.get_mut("uid")
            && let Some(text) = uid.as_str().filter(|text| !text.is_empty())
        {
            *uid = json!(self.uid(text));
        }
        if reference.get("namespace").is_some_and(|namespace| namespace == self.namespace) {
            reference.insert("namespace".to_owned(), json!("$NS"));
        }
        Value::Object(without_empty(reference))
    }

    fn endpoints(&self, object: &Value, compare: &Compare) -> Value {
        let subsets: Vec<Value> =
            items(&object["subsets"]).map(|subset| self.subset(subset, compare)).collect();
        json!({
            "labels": object_at(object, &["metadata", "labels"]),
            "annotations": self.annotations(object, compare),
            "subsets": subsets,
        })
    }

    fn subset(&self, subset: &Value, compare: &Compare) -> Value {
        let mut made = Map::from_iter([("ports".to_owned(), ports(subset))]);
        for list in ["addresses", "notReadyAddresses"] {
            let addresses: Vec<Value> =
                items(&subset[list]).map(|address| self.with_target(address)).collect();
            let kept = match (compare.addresses, addresses.len()) {
                (Some(_), count) if count > 0 => json!(count),
                _ => Value::Array(addresses),
            };
            made.insert(list.to_owned(), kept);
        }
        Value::Object(without_empty(made))
    }

    /// Returns an address or endpoint with symbols in its target and without empty fields.
    fn with_target(&self, value: &Value) -> Value {
        let mut fields = value.as_object().cloned().unwrap_or_default();
        fields.insert("targetRef".to_owned(), self.target(&value["targetRef"]));
        sort(fields.get_mut("addresses"));
        Value::Object(without_empty(fields))
    }

    fn owner(&self, owner: &Value) -> Value {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        // The words are those of the recordings, whose recorder wrote them as Python does.
        let flag = |field: &str| match owner[field].as_bool() {
            Some(true) => "True",
            Some(false) => "False",
            None => "None",
        };
        json!(format!(
            "{}/{}/{} {} controller={} blockOwnerDeletion={}",
            text("apiVersion"),
            text("kind"),
            text("name"),
            self.uid(text("uid")),
            flag("controller"),
            flag("blockOwnerDeletion"),
        ))
    }

    /// Returns groups of interchangeable slices.
    fn groups(&self, slices: &[Value], compare: &Compare) -> Vec<Value> {
        let mut groups: BTreeMap<String, Group> = BTreeMap::new();
        for slice in slices {
            let labels = object_at(slice, &["metadata", "labels"]);
            let mut owners: Vec<Value> =
                items(&slice["metadata"]["ownerReferences"]).map(|owner| self.owner(owner)).collect();
            owners.sort_by_cached_key(sort_key);
            let head = json!({
                "service": labels.get("kubernetes.io/service-name"),
                "addressType": slice["addressType"],
                "ports": ports(slice),
                "labels": labels,
                "owners": owners,
            });
            let group = groups.entry(sort_key(&head)).or_insert_with(|| Group::new(head));
            group.annotations.push(self.annotations(slice, compare));
            let before = group.endpoints.len();
            group.endpoints.extend(items(&slice["endpoints"]).map(|endpoint| self.with_target(endpoint)));
            group.sizes.push(group.endpoints.len() - before);
        }
        groups.into_values().map(|group| group.finish(compare)).collect()
    }
}

/// A group of slices under construction.
struct Group {
    head: Value,
    annotations: Vec<Value>,
    sizes: Vec<usize>,
    endpoints: Vec<Value>,
}

impl Group {
    fn new(head: Value) -> Self {
        Self { head, annotations: Vec::new(), sizes: Vec::new(), endpoints: Vec::new() }
    }

    fn finish(mut self, compare: &Compare) -> Value {
        let mut group = self.head;
        if compare.hints.is_some() {
            group["hintCounts"] = hint_counts(&mut self.endpoints);
        }
        if compare.sizes.is_none() {
            group["sizes"] = json!(self.sizes);
        } else if let Some(size) = self.sizes.iter().max().filter(|size| **size > MOST_ENDPOINTS) {
            // No expectation has this field, so that a slice that is too large never passes.
            group["oversized"] = json!(size);
        }
        group["endpoints"] = match compare.endpoints {
            Some(_) => json!(self.endpoints.len()),
            None => Value::Array(self.endpoints),
        };
        group["annotations"] = Value::Array(self.annotations);
        group
    }
}

/// Removes the hints from `endpoints` and counts them as "zone->hinted zones".
fn hint_counts(endpoints: &mut [Value]) -> Value {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for endpoint in endpoints {
        let hints = endpoint.as_object_mut().and_then(|fields| fields.remove("hints")).unwrap_or_default();
        let zones: Vec<&str> = items(&hints["forZones"]).filter_map(|zone| zone["name"].as_str()).collect();
        let hinted = if zones.is_empty() { "-".to_owned() } else { zones.join(",") };
        *counts.entry(format!("{}->{hinted}", endpoint["zone"].as_str().unwrap_or("-"))).or_default() += 1;
    }
    json!(counts)
}

/// Returns "TYPE REASON KIND/NAME" of an event, if an endpoint controller reports it.
fn event(event: &Value) -> Option<Value> {
    let reporter = event["reportingComponent"].as_str().filter(|name| !name.is_empty());
    let reporter = reporter.or(event["source"]["component"].as_str()).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &event["involvedObject"];
    reporter.starts_with("endpoint").then(|| {
        json!(format!(
            "{} {} {}/{}",
            text(&event["type"]),
            text(&event["reason"]),
            text(&object["kind"]),
            text(&object["name"])
        ))
    })
}

/// Returns the ports of a subset or slice, sorted, without empty fields, each with a name.
fn ports(of: &Value) -> Value {
    let mut ports: Vec<Value> = items(&of["ports"])
        .map(|port| {
            let mut port = without_empty(port.as_object().cloned().unwrap_or_default());
            port.entry("name").or_insert_with(|| json!(""));
            Value::Object(port)
        })
        .collect();
    ports.sort_by_cached_key(sort_key);
    Value::Array(ports)
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn object_at(value: &Value, path: &[&str]) -> Map<String, Value> {
    path.iter().fold(value, |value, key| &value[*key]).as_object().cloned().unwrap_or_default()
}

/// Drops fields whose value is equivalent to an absent field.
fn without_empty(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    });
    fields
}

fn sort(list: Option<&mut Value>) {
    if let Some(Value::Array(items)) = list {
        items.sort_by_cached_key(sort_key);
    }
}

/// Returns the value as JSON with the keys of its objects sorted.
fn sort_key(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}

#[cfg(test)]
#[path = "normal_tests.rs"]
mod tests;
