//! Tests which events and leases are invalid, and the results of the others.

use super::{assert_invalid, create};

#[test]
fn core_v1_events() {
    assert_invalid(
        "Event",
        r#"{"eventTime": "2024-01-01T00:00:00.000000Z", "reportingComponent": "c", "action": "a"}"#,
        &["Required reportingInstance: Required value", "Required reason: Required value"],
    );
    let default = r#"{"metadata": {"namespace": "default"}, "involvedObject": {"namespace": null}}"#;
    assert!(create("Event", default).is_ok());
}

#[test]
fn leases() {
    let lease =
        create("Lease", r#"{"spec": {"strategy": "OldestEmulationVersion", "preferredHolder": "x"}}"#);
    let spec = lease.unwrap().object["spec"].clone();
    assert!(spec.get("strategy").is_none() && spec.get("preferredHolder").is_none(), "{spec}");
}
