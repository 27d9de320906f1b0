//! Events: two views, core v1 and events.k8s.io v1, of one stored object, and their validation, after
//! `pkg/apis/core/validation/events.go` and `pkg/apis/events/v1/conversion.go`. What is stored is the core v1 view.

use serde_json::Value;

use crate::resource::{self, Resource};
use crate::validation::metadata::{self, NameRule};
use crate::validation::names::{dns1123_subdomain, qualified_name};
use crate::validation::{Errors, Path};
use crate::value::Fields;

/// Names in core v1 and in events.k8s.io v1 of what the two views call differently.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("source", "deprecatedSource"),
    ("message", "note"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];
const CORE: (&str, &str) = ("v1", "Event");
const EVENTS: (&str, &str) = ("events.k8s.io/v1", "Event");

/// The object as it is stored, from the view that `resource` gives of it. All but events are stored as they are.
pub fn to_stored(resource: &Resource, object: Value) -> Value {
    if resource.group == "events.k8s.io" { core_from_events_v1(object) } else { object }
}

/// The view that `resource` gives of a stored object. All but events are shown as they are stored.
pub fn from_stored(resource: &Resource, object: Value) -> Value {
    if resource.group == "events.k8s.io" { events_v1_from_core(object) } else { object }
}

/// The core v1 view of an events.k8s.io/v1 Event.
pub fn core_from_events_v1(event: Value) -> Value {
    convert(event, CORE, |(core, events)| (events, core))
}

/// The events.k8s.io/v1 view of a core v1 Event.
pub fn events_v1_from_core(event: Value) -> Value {
    convert(event, EVENTS, |(core, events)| (core, events))
}

type Names = (&'static str, &'static str);

fn convert(mut event: Value, target: Names, from_to: impl Fn(Names) -> Names) -> Value {
    let Some(map) = event.as_object_mut() else { return event };
    for names in RENAMED {
        let (from, to) = from_to(names);
        if let Some(value) = map.remove(from) {
            map.insert(to.to_owned(), value);
        }
    }
    map.insert("apiVersion".to_owned(), target.0.into());
    // The walk gives each view the fields that it always prints; it takes any event that the other view took.
    match resource::by_kind(target.0, target.1).map(|r| super::decode::decode(r, event.clone())) {
        Some(Ok(decided)) => decided.object,
        _ => event,
    }
}

pub(super) fn validate(resource: &Resource, object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let strict = resource.group == "events.k8s.io";
    let event = to_stored(resource, object.clone());
    validate_legacy(&event, strict, errors);
    if !strict {
        return;
    }
    match old {
        None => validate_new(&event, errors),
        Some(old) => validate_change(&event, &to_stored(resource, old.clone()), errors),
    }
}

/// What every event must keep to.
fn validate_legacy(event: &Value, strict: bool, errors: &mut Errors) {
    let namespace = event["metadata"].text("namespace");
    let of_object = event["involvedObject"].text("namespace");
    let at = Path::Root("involvedObject.namespace");
    let mismatch = "does not match event.namespace";
    if !event.has("eventTime") {
        let matches =
            if of_object.is_empty() { matches!(namespace, "" | "default") } else { namespace == of_object };
        if !matches {
            errors.invalid(&at, of_object, mismatch);
        }
    } else {
        if of_object.is_empty() && !matches!(namespace, "default" | "kube-system") {
            errors.invalid(&at, of_object, mismatch);
        }
        let controller = event.text("reportingComponent");
        let at = Path::Root(if strict { "reportingController" } else { "reportingComponent" });
        if controller.is_empty() {
            errors.required(&at, "");
        }
        errors.invalid_each(&at, controller, qualified_name(controller));
        for (field, required, limit) in [
            ("reportingInstance", true, 128),
            ("action", true, 128),
            ("reason", true, 128),
            ("message", false, 1024),
        ] {
            let at = Path::Root(field);
            let length = event.text(field).len();
            if required && length == 0 {
                errors.required(&at, "");
            }
            if length > limit {
                errors.invalid(&at, "", &format!("can have at most {limit} characters"));
            }
        }
    }
    errors.invalid_each(&Path::Root("namespace"), namespace, dns1123_subdomain(namespace));
}

/// What an event created through events.k8s.io/v1 must keep to.
fn validate_new(event: &Value, errors: &mut Errors) {
    metadata::validate(&event["metadata"], true, NameRule::Subdomain, errors);
    validate_series(event, errors);
    if !event.has("eventTime") {
        errors.required(&Path::Root("eventTime"), "");
    }
    let kind = event.text("type");
    if !matches!(kind, "Normal" | "Warning") {
        errors.invalid(&Path::Root("type"), "", &format!("has invalid value: {kind}"));
    }
    let source = &event["source"];
    let given = [
        ("firstTimestamp", event.has("firstTimestamp")),
        ("lastTimestamp", event.has("lastTimestamp")),
        ("count", event.int("count") != 0),
        ("source", !source.text("component").is_empty() || !source.text("host").is_empty()),
    ];
    for (field, given) in given {
        if given {
            errors.invalid(&Path::Root(field), "", "needs to be unset");
        }
    }
}

fn validate_series(event: &Value, errors: &mut Errors) {
    if let Some(series) = event.get("series").filter(|s| !s.is_null()) {
        if series.int("count") < 2 {
            errors.invalid(&Path::Root("series.count"), "", "should be at least 2");
        }
        if !series.has("lastObservedTime") {
            errors.required(&Path::Root("series.lastObservedTime"), "");
        }
    }
}

/// What an update through events.k8s.io/v1 must keep to: only the series may change.
fn validate_change(event: &Value, old: &Value, errors: &mut Errors) {
    metadata::validate_update(&event["metadata"], &old["metadata"], errors);
    if event.get("series") != old.get("series") {
        validate_series(event, errors);
    }
    for field in [
        "involvedObject",
        "reason",
        "message",
        "source",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "reason",
        "type",
        "eventTime",
        "action",
        "related",
        "reportingComponent",
        "reportingInstance",
    ] {
        let (now, before) = (&event[field], &old[field]);
        if now != before {
            let shown = if field == "reportingComponent" { "reportingController" } else { field };
            errors.invalid(&Path::Root(shown), now, "field is immutable");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_views_show_one_event() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "n"},
            "involvedObject": {"kind": "Service", "name": "s", "namespace": "n"},
            "reason": "Why", "message": "text", "type": "Warning", "count": 3,
            "source": {"component": "c"}, "firstTimestamp": "2024-01-01T00:00:00Z", "lastTimestamp": null,
            "eventTime": null, "reportingComponent": "c", "reportingInstance": ""
        });
        let shown = events_v1_from_core(core.clone());
        assert_eq!(
            shown,
            json!({
                "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e", "namespace": "n"},
                "regarding": {"kind": "Service", "name": "s", "namespace": "n"},
                "reason": "Why", "note": "text", "type": "Warning", "deprecatedCount": 3,
                "deprecatedSource": {"component": "c"}, "deprecatedFirstTimestamp": "2024-01-01T00:00:00Z",
                "deprecatedLastTimestamp": null, "eventTime": null, "reportingController": "c"
            })
        );
        assert_eq!(core_from_events_v1(shown), core);
    }
}
