//! Events: conversion between their two versions, core v1 (the stored one) and events.k8s.io v1,
//! and their validation, after `pkg/apis/core/validation/events.go` and
//! `pkg/apis/events/v1/conversion.go`.

use serde_json::Value;

use crate::resource;
use crate::validation::metadata::{self, NameRule};
use crate::validation::names::{dns1123_subdomain, qualified_name};
use crate::validation::{Errors, Path};
use crate::value::Fields;

use super::Strategy;

/// Fields with different names in core v1 and in events.k8s.io v1.
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

/// The strategy of events in one of their two versions.
pub(crate) struct EventStrategy {
    /// True if the version is events.k8s.io/v1, which validates more than core v1.
    pub(crate) events_v1: bool,
}

impl Strategy for EventStrategy {
    fn allow_create_on_update(&self) -> bool {
        true
    }

    fn convert_to_storage(&self, object: Value) -> Value {
        if self.events_v1 { core_from_events_v1(object) } else { object }
    }

    fn convert_from_storage(&self, object: Value) -> Value {
        if self.events_v1 { events_v1_from_core(object) } else { object }
    }

    fn validate(&self, object: &Value, errors: &mut Errors) {
        let event = self.convert_to_storage(object.clone());
        validate_legacy(&event, self.events_v1, errors);
        if self.events_v1 {
            validate_create(&event, errors);
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, errors: &mut Errors) {
        let event = self.convert_to_storage(new.clone());
        validate_legacy(&event, self.events_v1, errors);
        if self.events_v1 {
            validate_change(&event, &self.convert_to_storage(old.clone()), errors);
        }
    }
}

/// Converts an events.k8s.io/v1 Event to core v1.
fn core_from_events_v1(event: Value) -> Value {
    convert(event, CORE, |(core, events)| (events, core))
}

/// Converts a core v1 Event to events.k8s.io/v1.
fn events_v1_from_core(event: Value) -> Value {
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
    // Decoding adds the fields that the target version always has; it accepts every event of the
    // other version.
    match resource::by_kind(target.0, target.1).map(|r| super::decode::decode(r, event.clone())) {
        Some(Ok(decided)) => decided.object,
        _ => event,
    }
}

/// Validates the rules for events of both versions.
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

/// Validates an event created through events.k8s.io/v1.
fn validate_create(event: &Value, errors: &mut Errors) {
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

/// Validates an update through events.k8s.io/v1.
fn validate_change(event: &Value, old: &Value, errors: &mut Errors) {
    metadata::validate_update(&event["metadata"], &old["metadata"], errors);
    if event.get("series") != old.get("series") {
        validate_series(event, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_converts_to_the_other_version_and_back() {
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
