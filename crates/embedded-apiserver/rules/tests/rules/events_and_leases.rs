//! Tests which events and leases are invalid, and the results of the others.

use kube_endpoint_apiserver_rules::strategy::{convert_from_storage, convert_to_storage};

use super::{assert_invalid, create, resource};

#[test]
fn core_v1_events() {
    assert_invalid(
        "Event",
        r#"{"involvedObject": {"namespace": "other"}}"#,
        &[r#"Invalid involvedObject.namespace: Invalid value: "other": does not match event.namespace"#],
    );
    assert_invalid(
        "Event",
        r#"{"involvedObject": {"namespace": null}}"#,
        &[r#"Invalid involvedObject.namespace: Invalid value: "": does not match event.namespace"#],
    );
    assert_invalid(
        "Event",
        r#"{"eventTime": "2024-01-01T00:00:00.000000Z", "reportingComponent": "c", "action": "a"}"#,
        &["Required reportingInstance: Required value", "Required reason: Required value"],
    );
    let default = r#"{"metadata": {"namespace": "default"}, "involvedObject": {"namespace": null}}"#;
    assert!(create("Event", default).is_ok());
}

#[test]
fn events_v1() {
    let new = |patch: &str, want: &[&str]| assert_invalid("EventsV1Event", patch, want);
    new(r#"{"eventTime": null}"#, &["Required eventTime: Required value"]);
    new(r#"{"type": "Odd"}"#, &[r#"Invalid type: Invalid value: "": has invalid value: Odd"#]);
    new(
        r#"{"series": {"count": 1, "lastObservedTime": "2024-01-01T00:00:00.000000Z"}}"#,
        &[r#"Invalid series.count: Invalid value: "": should be at least 2"#],
    );
    new(r#"{"deprecatedCount": 1}"#, &[r#"Invalid count: Invalid value: "": needs to be unset"#]);
    new(
        r#"{"reportingController": "-"}"#,
        &[r#"Invalid reportingController: Invalid value: "-": name part must consist of..."#],
    );
    let long = "x".repeat(1025);
    new(
        &format!(r#"{{"note": "{long}"}}"#),
        &[r#"Invalid message: Invalid value: "": can have at most 1024 characters"#],
    );
}

#[test]
fn the_error_of_an_events_v1_event_names_the_kind_without_its_group() {
    let status = create("EventsV1Event", r#"{"eventTime": null}"#).unwrap_err();
    assert_eq!(status.message, "Event \"name\" is invalid: eventTime: Required value");
}

#[test]
fn an_event_is_stored_as_core_v1() {
    let created = create("EventsV1Event", "{}").unwrap().object;
    let stored = convert_to_storage(resource("EventsV1Event"), created.clone());
    assert_eq!(stored["apiVersion"], "v1");
    assert_eq!(stored["involvedObject"]["name"], "p");
    assert_eq!(convert_from_storage(resource("EventsV1Event"), stored.clone()), created);
    assert_eq!(convert_from_storage(resource("Event"), stored.clone()), stored);
}

#[test]
fn leases() {
    assert_invalid(
        "Lease",
        r#"{"spec": {"leaseDurationSeconds": 0}}"#,
        &["Invalid spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"],
    );
    assert_invalid(
        "Lease",
        r#"{"spec": {"leaseTransitions": -1}}"#,
        &["Invalid spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"],
    );
    let lease =
        create("Lease", r#"{"spec": {"strategy": "OldestEmulationVersion", "preferredHolder": "x"}}"#);
    let spec = lease.unwrap().object["spec"].clone();
    assert!(spec.get("strategy").is_none() && spec.get("preferredHolder").is_none(), "{spec}");
}
