//! Rows of events.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age;
use super::view::{number, text, text_or};

/// Returns the cells of an event.
pub(super) fn cells(event: &Value, name: Value, now: Timestamp) -> Vec<Value> {
    let since = |time: &str| age::since(time, now);
    let first = since(text_or(event, "/firstTimestamp", text(event, "/eventTime")));
    let last_time = text(event, "/lastTimestamp");
    let mut last = if last_time.is_empty() { first.clone() } else { since(last_time) };
    let mut count = number(event, "/count");
    if event.get("series").is_some_and(Value::is_object) {
        last = since(text(event, "/series/lastObservedTime"));
        count = number(event, "/series/count");
    } else if count == 0 {
        // An event that occurred once may have no count.
        count = 1;
    }

    let mut object = text(event, "/involvedObject/kind").to_lowercase();
    let object_name = text(event, "/involvedObject/name");
    if !object_name.is_empty() {
        object = format!("{object}/{object_name}");
    }
    vec![
        json!(last),
        json!(text(event, "/type")),
        json!(text(event, "/reason")),
        json!(object),
        json!(text(event, "/involvedObject/fieldPath")),
        json!(source(event)),
        json!(text(event, "/message").trim()),
        json!(first),
        json!(count),
        name,
    ]
}

/// Returns the reporting component and its host or instance.
fn source(event: &Value) -> String {
    let component = text_or(event, "/source/component", text(event, "/reportingComponent"));
    match text_or(event, "/source/host", text(event, "/reportingInstance")) {
        "" => component.to_owned(),
        instance => format!("{component}, {instance}"),
    }
}
