//! Rows of events of the core group and of events.k8s.io, whose fields have different names.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::view::{number, text, text_or};

/// Returns the cells of an event.
pub(super) fn cells(event: &Value, name: Value, now: Timestamp) -> Vec<Value> {
    let either = |core: &str, events: &str| text_or(event, core, text(event, events)).to_owned();
    let since = |time: String| age::since(&time, now);

    let first_time = either("/firstTimestamp", "/deprecatedFirstTimestamp");
    let first = since(if first_time.is_empty() { text(event, "/eventTime").to_owned() } else { first_time });
    let last_time = either("/lastTimestamp", "/deprecatedLastTimestamp");
    let mut last = if last_time.is_empty() { first.clone() } else { since(last_time) };
    let mut count = number(event, "/count") + number(event, "/deprecatedCount");
    if event.get("series").is_some_and(Value::is_object) {
        last = since(text(event, "/series/lastObservedTime").to_owned());
        count = number(event, "/series/count");
    } else if count == 0 {
        // An event that occurred once may have no count.
        count = 1;
    }

    let mut object = either("/involvedObject/kind", "/regarding/kind").to_lowercase();
    let object_name = either("/involvedObject/name", "/regarding/name");
    if !object_name.is_empty() {
        object = format!("{object}/{object_name}");
    }
    vec![
        json!(last),
        json!(text(event, "/type")),
        json!(text(event, "/reason")),
        json!(object),
        json!(either("/involvedObject/fieldPath", "/regarding/fieldPath")),
        json!(source(event)),
        json!(either("/message", "/note").trim()),
        json!(first),
        json!(count),
        name,
    ]
}

/// Returns the reporting component and its host or instance.
fn source(event: &Value) -> String {
    let first = |pointers: [&str; 3]| {
        pointers.into_iter().map(|pointer| text(event, pointer)).find(|text| !text.is_empty())
    };
    let component = first(["/source/component", "/deprecatedSource/component", "/reportingComponent"])
        .unwrap_or_else(|| text(event, "/reportingController"));
    match first(["/source/host", "/deprecatedSource/host", "/reportingInstance"]) {
        Some(instance) => format!("{component}, {instance}"),
        None => component.to_owned(),
    }
}
