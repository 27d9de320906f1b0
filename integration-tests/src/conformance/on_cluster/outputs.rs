//! The Endpoints and EndpointSlices of several namespaces, and who changed them between two
//! readings.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::time::{Instant, sleep};

use super::ConformanceError;
use super::cluster::name_of;
use crate::conformance::normal::TRIGGER_TIME;
use crate::conformance::report::Written;
use crate::conformance::{Api, Kind, unified_diff};

/// How long outputs that nobody writes any more stay the same.
const QUIET: Duration = Duration::from_secs(5);
/// How often to read them.
const POLL: Duration = Duration::from_secs(1);

/// The outputs by kind, namespace and name.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Outputs(BTreeMap<String, Output>);

#[derive(Debug, PartialEq)]
struct Output {
    /// The version that the last write produced.
    version: String,
    content: Value,
}

impl Outputs {
    /// Reads the outputs in the namespaces of these clients.
    async fn read(apis: &[Api]) -> Result<Self, ConformanceError> {
        let mut found = BTreeMap::new();
        for api in apis {
            for kind in [Kind::Endpoints, Kind::EndpointSlice] {
                for object in api.list(kind).await? {
                    let name = format!("{kind:?} {}/{}", api.namespace(), name_of(&object));
                    found.insert(name, Output::of(object));
                }
            }
        }
        Ok(Self(found))
    }

    /// Reads the outputs until they have not changed for a while, or `patience` is over.
    pub(super) async fn quiet(apis: &[Api], patience: Duration) -> Result<Self, ConformanceError> {
        let start = Instant::now();
        let (mut last, mut since) = (Self::read(apis).await?, Instant::now());
        while since.elapsed() < QUIET && start.elapsed() < patience {
            sleep(POLL).await;
            let now = Self::read(apis).await?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok(last)
    }

    /// Returns the number of outputs.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the outputs that somebody has created, changed or deleted since `before`.
    pub(super) fn written_since(&self, before: &Self) -> Vec<Written> {
        let version = |output: Option<&Output>| output.map(|output| output.version.clone());
        let content = |output: Option<&Output>| output.map_or(Value::Null, |output| output.content.clone());
        let names = before.0.keys().chain(self.0.keys().filter(|name| !before.0.contains_key(*name)));
        let pairs = names.map(|name| (name, before.0.get(name), self.0.get(name)));
        pairs
            .filter(|(_, old, new)| version(*old) != version(*new))
            .map(|(name, old, new)| Written {
                object: name.clone(),
                change: unified_diff(&content(old), &content(new)),
                is_trigger_time_alone: without_trigger_time(content(old))
                    == without_trigger_time(content(new)),
            })
            .collect()
    }
}

impl Output {
    fn of(mut object: Value) -> Self {
        let version = object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        if let Some(metadata) = object["metadata"].as_object_mut() {
            for of_every_write in ["resourceVersion", "generation", "managedFields"] {
                Map::remove(metadata, of_every_write);
            }
        }
        Self { version, content: json!(object) }
    }
}

/// Returns an output without the annotation that tells why it was written.
fn without_trigger_time(mut content: Value) -> Value {
    let annotations = content.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    let is_empty = annotations.is_some_and(|annotations| {
        Map::remove(annotations, TRIGGER_TIME);
        annotations.is_empty()
    });
    if is_empty && let Some(metadata) = content["metadata"].as_object_mut() {
        Map::remove(metadata, "annotations");
    }
    content
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs(objects: Value) -> Outputs {
        let of = |object: &Value| (name_of(object).to_owned(), Output::of(object.clone()));
        Outputs(objects.as_array().unwrap().iter().map(of).collect())
    }

    #[test]
    fn a_write_is_a_new_version() {
        let object = |name: &str, version: &str, labels: Value| json!({"metadata": {"name": name, "resourceVersion": version, "labels": labels}});
        let before = outputs(json!([
            object("kept", "1", json!({})),
            object("changed", "2", json!({})),
            object("same", "3", json!({})),
            object("deleted", "4", json!({}))
        ]));
        let after = outputs(json!([
            object("kept", "1", json!({})),
            object("changed", "5", json!({"a": "b"})),
            object("same", "6", json!({})),
            object("created", "7", json!({}))
        ]));
        let written: Vec<(String, bool)> = after
            .written_since(&before)
            .into_iter()
            .map(|written| (written.object, written.change.is_empty()))
            .collect();
        let want = [("changed", false), ("deleted", false), ("same", true), ("created", false)];
        assert_eq!(written, want.map(|(name, is_empty)| (name.to_owned(), is_empty)));
        assert!(before.written_since(&before).is_empty());
        let stamped = |version: &str, annotations: Value| {
            outputs(
                json!([{"metadata": {"name": "x", "resourceVersion": version, "annotations": annotations}}]),
            )
        };
        let before = stamped("1", json!({TRIGGER_TIME: "2026-01-01T00:00:00Z"}));
        let is_alone =
            |annotations| stamped("2", annotations).written_since(&before)[0].is_trigger_time_alone;
        assert!(is_alone(json!({TRIGGER_TIME: "2026-01-01T00:00:01Z"})));
        assert!(is_alone(json!({})) && !is_alone(json!({"other": "annotation"})));
    }
}
