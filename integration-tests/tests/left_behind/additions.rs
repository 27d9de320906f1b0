//! A take-over survives additions of a newer version, and values that nobody can read.

use kube_endpoint_integration_tests::left_behind::record_of;
use serde_json::{Value, json};

use super::{LAST_WRITES, last_writes, our_lease, our_lease_mut, recorded, take_over};

fn recorded_0_1() -> Vec<Value> {
    recorded(record_of("0.1.0"))
}

fn annotate(object: &mut Value, name: &str, value: &str) {
    let annotations = &mut object["metadata"]["annotations"];
    if annotations.is_null() {
        *annotations = json!({});
    }
    annotations[name] = value.into();
}

/// A rollback: a later version has left more than this one knows.
#[tokio::test(start_paused = true)]
async fn additions_of_a_newer_version_are_kept_and_cost_no_write() {
    let mut objects = recorded_0_1();
    let lease = our_lease_mut(&mut objects);
    let mut left = last_writes(lease);
    let versions = left["versions"].clone();
    left["format"] = 2.into();
    left["next"] = json!({"a": [1, null]});
    left["versions"]["gateways"] = "7".into();
    annotate(lease, LAST_WRITES, &left.to_string());
    annotate(lease, "kube-endpoint-manager/next", "{");
    lease["spec"]["strategy"] = "OldestEmulationVersion".into();
    for object in &mut objects {
        match object["kind"].as_str().unwrap() {
            "EndpointSlice" | "Endpoints" | "Service" => {
                // So a mirrored slice has the annotation of its Endpoints, too.
                annotate(object, "kube-endpoint-manager.github.io/next", "true");
            }
            "EndpointSelector" => {
                object["status"]["next"] = json!({"a": 1});
                let conditions = object["status"]["conditions"].as_array_mut().unwrap();
                conditions.insert(0, json!({"type": "Next", "status": "Unknown", "reason": "New"}));
            }
            _ => {}
        }
    }
    let taken = take_over(objects).await;
    assert!(taken.writes.is_empty() && taken.is_unchanged, "{:#?}", taken.writes);
    let handed_on = taken.versions();
    for kind in ["endpoints", "endpointslices"] {
        assert_eq!(handed_on[kind], versions[kind], "{kind}");
    }
    assert_eq!(taken.lease["metadata"]["annotations"]["kube-endpoint-manager/next"], "{");
    assert_eq!(taken.lease["spec"]["strategy"], "OldestEmulationVersion");
}

/// Returns values of the annotation of a Lease that a replica ignores.
fn unreadable(lease: &Value) -> Vec<String> {
    let left = last_writes(lease);
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut left = left.clone();
        edit(&mut left);
        left.to_string()
    };
    let versions = |value: Value| edited(&|left| left["versions"]["endpointslices"] = value.clone());
    vec![
        String::new(),
        "{".to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
        "{}".to_owned(),
        "{\"a\":".repeat(10_000),
        edited(&|left| left["released"] = Value::Null),
        edited(&|left| left["released"] = "yesterday".into()),
        edited(&|left| left["released"] = "2026-01-01T00:00:00Z".into()),
        edited(&|left| left["versions"] = Value::Null),
        edited(&|left| left["versions"] = json!(["endpointslices"])),
        versions(json!(12)),
        versions(json!("-1")),
        versions(json!("999999999999999999999999")),
        versions(Value::Null),
        // The server has not reached this version.
        edited(&|left| {
            left["versions"] = json!({"endpointslices": "999999999", "endpoints": "999999999"});
        }),
    ]
}

/// A leader that cannot read the annotation lists, and so knows no versions to hand on.
#[tokio::test(start_paused = true)]
async fn an_annotation_that_cannot_be_read_costs_no_write() {
    for value in unreadable(our_lease(&recorded_0_1())) {
        let mut objects = recorded_0_1();
        annotate(our_lease_mut(&mut objects), LAST_WRITES, &value);
        let what = &value[..value.len().min(200)];
        let taken = take_over(objects).await;
        assert!(taken.writes.is_empty() && taken.is_unchanged, "{what}: {:#?}", taken.writes);
        assert_eq!(taken.versions()["endpointslices"], Value::Null, "{what}");
    }
}

/// Annotations and statuses that somebody edited.
#[tokio::test(start_paused = true)]
async fn values_of_outputs_that_cannot_be_read_cost_no_write() {
    for value in ["", "yesterday", "{}", "9999-99-99T99:99:99Z"] {
        let mut objects = recorded_0_1();
        for object in &mut objects {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            match object["kind"].as_str().unwrap() {
                // Mirrored slices have the annotations of their Endpoints, without this one.
                "EndpointSlice" | "Endpoints" if !name.starts_with("custom") => {
                    annotate(object, "endpoints.kubernetes.io/last-change-trigger-time", value);
                }
                // It counts as no annotation.
                "Service" if name == "close" => {
                    annotate(object, "kube-endpoint-manager.github.io/endpoints", value);
                }
                _ => {}
            }
        }
        let mut taken = take_over(objects).await;
        // An event tells the user about the annotation of the Service.
        taken.writes.retain(|write| !write.contains("/namespaces/default/events "));
        assert!(taken.writes.is_empty() && taken.is_unchanged, "{value:?}: {:#?}", taken.writes);
    }
}
