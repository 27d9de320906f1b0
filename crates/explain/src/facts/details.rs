//! Fields of objects that only explanations read: who wrote an object last, and events. All of it
//! is optional: without it, an explanation says less.

use std::collections::BTreeMap;

use kube_endpoint_core_model::{ObjectKey, Text, Timestamp};
use serde::{Deserialize, Deserializer, Serialize};

pub use crate::facts::pod_details::{
    ContainerKind, ContainerState, Ended, PodCondition, PodDetails, Probe, RunState,
};

/// The time and the field manager of the last write of an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LastWrite {
    /// The time, in whole seconds.
    #[serde(serialize_with = "write_time")]
    pub time: Timestamp,
    /// The field manager; by default the name of the client's program.
    pub by: Text,
}

/// An event about an object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RecentEvent {
    /// `Normal` or `Warning`.
    #[serde(rename = "type")]
    pub event_type: Text,
    pub reason: Text,
    pub message: Text,
    pub count: u32,
    #[serde(serialize_with = "write_optional_time", skip_serializing_if = "Option::is_none")]
    pub last: Option<Timestamp>,
    /// The container of a pod that it is about, or empty.
    #[serde(skip)]
    pub container: Text,
}

impl RecentEvent {
    /// Merges events that say the same and adds up their counts: each instance of a controller
    /// reports its own. The latest come first.
    pub(crate) fn summed<'a>(events: impl Iterator<Item = &'a Self>) -> Vec<Self> {
        let mut summed: BTreeMap<(&Text, &Text, &Text), Self> = BTreeMap::new();
        for event in events {
            summed
                .entry((&event.reason, &event.message, &event.event_type))
                .and_modify(|sum| {
                    sum.count = sum.count.saturating_add(event.count);
                    sum.last = sum.last.max(event.last);
                })
                .or_insert_with(|| event.clone());
        }
        let mut events: Vec<Self> = summed.into_values().collect();
        events.sort_by_key(|event| std::cmp::Reverse(event.last));
        events
    }
}

pub(crate) fn write_time<S: serde::Serializer>(time: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(time)
}

pub(crate) fn write_optional_time<S: serde::Serializer>(
    time: &Option<Timestamp>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match time {
        Some(time) => serializer.collect_str(time),
        None => serializer.serialize_none(),
    }
}

/// Deserialises `null` as the default, as Go does.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Deserialises a time. An unreadable time becomes `None`: only a message uses it.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.and_then(|text| text.parse().ok()))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawManagedMeta {
    #[serde(deserialize_with = "or_default")]
    managed_fields: Vec<RawManager>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawManager {
    #[serde(deserialize_with = "or_default")]
    manager: Text,
    #[serde(deserialize_with = "time")]
    time: Option<Timestamp>,
}

/// Reads from `metadata.managedFields` who wrote an object last, or `None` if the object does not
/// say.
pub(crate) fn last_write(object: &serde_json::Value) -> Option<LastWrite> {
    last_write_of(&object["metadata"])
}

/// Reads the same from the metadata of an object.
pub(crate) fn last_write_of(metadata: &serde_json::Value) -> Option<LastWrite> {
    let raw = RawManagedMeta::deserialize(metadata).ok()?;
    let writes = raw.managed_fields.into_iter();
    let writes = writes.filter_map(|entry| Some(LastWrite { time: entry.time?, by: entry.manager }));
    writes.max_by(|one, two| one.time.cmp(&two.time))
}

/// Returns the time at which somebody created an object, or deleted it: the API server adds the
/// grace period to that.
pub(crate) fn last_change(metadata: &serde_json::Value) -> Option<Timestamp> {
    let time = |field: &str| metadata[field].as_str()?.parse::<Timestamp>().ok();
    let grace = metadata["deletionGracePeriodSeconds"].as_i64();
    let deleted = time("deletionTimestamp").zip(grace);
    let deleted =
        deleted.and_then(|(until, grace)| Timestamp::from_second(until.as_second().checked_sub(grace)?).ok());
    deleted.max(time("creationTimestamp"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEvent {
    involved_object: RawInvolved,
    #[serde(rename = "type", default, deserialize_with = "or_default")]
    event_type: Text,
    #[serde(default, deserialize_with = "or_default")]
    reason: Text,
    #[serde(default, deserialize_with = "or_default")]
    message: Text,
    #[serde(default, deserialize_with = "or_default")]
    count: u32,
    #[serde(default, deserialize_with = "time")]
    last_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "time")]
    event_time: Option<Timestamp>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawInvolved {
    #[serde(deserialize_with = "or_default")]
    kind: Text,
    #[serde(deserialize_with = "or_default")]
    namespace: Text,
    #[serde(deserialize_with = "or_default")]
    name: Text,
    #[serde(rename = "fieldPath", deserialize_with = "or_default")]
    field_path: Text,
}

/// Reads a v1 Event: kind and key of the object that it is about, and the event.
///
/// # Errors
///
/// If the value is no event.
pub(crate) fn event(value: &serde_json::Value) -> Result<(Text, ObjectKey, RecentEvent), serde_json::Error> {
    let raw = RawEvent::deserialize(value)?;
    let about = raw.involved_object;
    let event = RecentEvent {
        event_type: raw.event_type,
        reason: raw.reason,
        message: raw.message,
        count: raw.count.max(1),
        last: raw.last_timestamp.or(raw.event_time),
        container: container(&about.field_path).into(),
    };
    let mut key = ObjectKey { namespace: about.namespace, name: about.name };
    if key.namespace.is_empty() {
        key.namespace = named_namespace(&event.message, &key.name).unwrap_or_default();
    }
    Ok((about.kind, key, event))
}

/// Returns the container of a path such as `spec.containers{web}`.
fn container(field_path: &str) -> &str {
    field_path.split_once('{').and_then(|(_, rest)| rest.strip_suffix('}')).unwrap_or_default()
}

/// Returns the namespace that a message names. kube-controller-manager reports that it could not
/// create Endpoints in an event about an object without a namespace.
fn named_namespace(message: &str, name: &str) -> Option<Text> {
    let of = message.strip_prefix("Failed to create endpoint for service ")?;
    let (namespace, rest) = of.split_once('/')?;
    rest.strip_prefix(name)?.starts_with(':').then(|| namespace.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_last_write_is_the_latest_entry() {
        let object = json!({"metadata": {"managedFields": [
            {"manager": "kubectl", "time": "2026-01-01T00:00:02Z"},
            {"manager": "kube-controller-manager", "time": "2026-01-01T00:00:07Z"},
            {"manager": "without a time"},
        ]}});
        let last = last_write(&object).unwrap();
        assert_eq!(
            (&*last.by, last.time.to_string()),
            ("kube-controller-manager", "2026-01-01T00:00:07Z".into())
        );
        assert_eq!(last_write(&json!({"metadata": {}})), None);
    }
}
