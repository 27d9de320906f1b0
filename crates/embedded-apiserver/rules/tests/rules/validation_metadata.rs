//! Tests metadata that is invalid for every kind.

use super::{assert_invalid, assert_invalid_update};

fn check(fields: &str, want: &[&str]) {
    assert_invalid("Endpoints", &format!(r#"{{"metadata": {fields}}}"#), want);
}

#[test]
fn names() {
    let subdomain = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
                     and must start and end with an alphanumeric character (e.g. 'example.com', regex used for \
                     validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    check(
        r#"{"generateName": "_"}"#,
        &[&format!(r#"Invalid metadata.generateName: Invalid value: "_": {subdomain}"#)],
    );
    let long = "a".repeat(254);
    check(
        &format!(r#"{{"name": "{long}"}}"#),
        &[&format!(r#"Invalid metadata.name: Invalid value: "{long}": must be no more than 253 characters"#)],
    );
    assert_invalid(
        "Service",
        r#"{"metadata": {"name": "a.b"}}"#,
        &[r#"Invalid metadata.name: Invalid value: "a.b": must not contain dots"#],
    );
    assert_invalid(
        "Namespace",
        r#"{"metadata": {"name": "-"}}"#,
        &[
            r#"Invalid metadata.name: Invalid value: "-": a lowercase RFC 1123 label must consist of..."#,
            // The server sets the label `kubernetes.io/metadata.name` before validation.
            r#"Invalid metadata.labels: Invalid value: "-": a valid label must be an empty string..."#,
        ],
    );
    check(
        r#"{"namespace": "A"}"#,
        &[r#"Invalid metadata.namespace: Invalid value: "A": a lowercase RFC 1123 label must consist of..."#],
    );
    assert_invalid(
        "Node",
        r#"{"metadata": {"namespace": "ns"}}"#,
        &["Forbidden metadata.namespace: Forbidden: not allowed on this type"],
    );
}

#[test]
fn labels_and_annotations() {
    check(
        r#"{"labels": {"/b": "c"}}"#,
        &[r#"Invalid metadata.labels: Invalid value: "/b": prefix part must be non-empty"#],
    );
    let long = "v".repeat(64);
    check(
        &format!(r#"{{"labels": {{"a": "{long}"}}}}"#),
        &[&format!(r#"Invalid metadata.labels: Invalid value: "{long}": must be no more than 63 bytes"#)],
    );
    check(
        r#"{"annotations": {"a/b/c": ""}}"#,
        &[r#"Invalid metadata.annotations: Invalid value: "a/b/c": a valid label key must consist of..."#],
    );
    let long = "v".repeat(256 * 1024);
    check(
        &format!(r#"{{"annotations": {{"a": "{long}"}}}}"#),
        &["TooLong metadata.annotations: Too long: may not be more than 262144 bytes"],
    );
}

#[test]
fn owners_and_finalizers() {
    check(
        r#"{"ownerReferences": [{"apiVersion": "", "kind": "Pod", "name": "p", "uid": "u"}]}"#,
        &[r#"Invalid metadata.ownerReferences.apiVersion: Invalid value: "": version must not be empty"#],
    );
    check(
        r#"{"ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": true},
            {"apiVersion": "v1", "kind": "Pod", "name": "q", "uid": "w", "controller": true}]}"#,
        &["Invalid metadata.ownerReferences: Invalid value: [{\"apiVersion\":\"v1\"..."],
    );
    check(
        r#"{"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "p", "uid": "u"}]}"#,
        &["Invalid metadata.ownerReferences: Invalid value: {\"apiVersion\":\"v1\"..."],
    );
    check(
        r#"{"finalizers": ["-"]}"#,
        &[
            r#"Invalid metadata.finalizers: Invalid value: "-": name part must consist of..."#,
            r#"Invalid metadata.finalizers[0]: Invalid value: "-": name is neither a standard finalizer name nor is it fully qualified"#,
        ],
    );
    check(
        r#"{"finalizers": ["orphan", "foregroundDeletion"]}"#,
        &[
            r#"Invalid metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion cannot be both set"#,
        ],
    );
    check(
        r#"{"managedFields": [{"operation": "Do", "fieldsType": "FieldsV2"}]}"#,
        &[
            r#"Invalid metadata.managedFields[0].operation: Invalid value: "Do": must be `Apply` or `Update`"#,
            r#"Invalid metadata.managedFields[0].fieldsType: Invalid value: "FieldsV2": must be `FieldsV1`"#,
        ],
    );
}

#[test]
fn changes() {
    // The checks of all kinds come first and those of the kind follow, so the server reports an
    // invalid field twice.
    let twice = |line: &'static str| [line, line];
    let change = |fields: &str, want: &[&str]| {
        assert_invalid_update("Endpoints", "{}", &format!(r#"{{"metadata": {fields}}}"#), want);
    };
    change(
        r#"{"name": "other"}"#,
        &twice(r#"Invalid metadata.name: Invalid value: "other": field is immutable"#),
    );
    change(r#"{"uid": "u-2"}"#, &twice(r#"Invalid metadata.uid: Invalid value: "u-2": field is immutable"#));
    change(
        r#"{"resourceVersion": ""}"#,
        &twice(r#"Invalid metadata.resourceVersion: Invalid value: "": must be specified for an update"#),
    );
    change(
        r#"{"deletionTimestamp": "2024-01-01T00:00:00Z"}"#,
        &twice(
            r#"Invalid metadata.deletionTimestamp: Invalid value: "2024-01-01T00:00:00Z": field is immutable"#,
        ),
    );
    assert_invalid_update(
        "Endpoints",
        r#"{"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": ["a/b"]}}"#,
        r#"{"metadata": {"finalizers": ["a/b", "a/c"]}}"#,
        &twice(
            r#"Forbidden metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{"a/c"}"#,
        ),
    );
}
