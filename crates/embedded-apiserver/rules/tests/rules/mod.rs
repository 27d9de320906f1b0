//! Tests decoding, defaults, preparation and validation case by case, after upstream's tests.
//!
//! A case changes a small valid object of a kind by a merge patch.

// Test helpers may panic.

mod arbitrary_objects;
mod cluster_ips;
mod creates;
mod decoding;
mod endpoint_selectors;
mod events_and_leases;
mod updates;
mod validation_endpoints;
mod validation_metadata;
mod validation_namespaces;
mod validation_pods;
mod validation_services;

use kube_endpoint_apiserver_rules::resource::{Resource, all};
use kube_endpoint_apiserver_rules::status::Status;
use kube_endpoint_apiserver_rules::strategy::{self, ClusterIps, Subresource, WithWarnings};
use serde_json::{Value, json};

/// Returns the resource of a kind.
fn resource(kind: &str) -> &'static Resource {
    all().find(|resource| resource.kind == kind).unwrap()
}

/// Returns an allocator over the default ranges.
fn cluster_ips() -> ClusterIps {
    ClusterIps::new(&["10.96.0.0/16", "fd00:10:96::/112"]).unwrap()
}

/// Returns a small valid object.
fn base(kind: &str) -> Value {
    let mut object = match kind {
        "Namespace" | "Node" => json!({}),
        "Pod" => json!({"spec": {"containers": [{"name": "c", "image": "i:1"}]}}),
        "Service" => json!({"spec": {"ports": [{"port": 80}], "selector": {"app": "a"}}}),
        "Endpoints" => json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]}),
        "EndpointSlice" => json!({
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"]}],
            "ports": [{"port": 80}],
        }),
        "Event" => json!({"involvedObject": {"kind": "Pod", "name": "p", "namespace": "ns"}}),
        "Lease" => json!({"spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}),
        other => panic!("no base for {other}"),
    };
    object["metadata"] = json!({
        "name": "name", "namespace": "ns", "uid": "u-1", "creationTimestamp": "2024-01-01T00:00:00Z"
    });
    if !resource(kind).namespaced {
        object["metadata"].as_object_mut().unwrap().remove("namespace");
    }
    object
}

/// Merges JSON text into an object.
fn merge(mut object: Value, patch: &str) -> Value {
    let patch: Value = serde_json::from_str(patch).unwrap_or_else(|e| panic!("{e}: {patch}"));
    json_patch::merge(&mut object, &patch);
    object
}

/// Creates the base object of a kind, changed by `patch`.
fn create(kind: &str, patch: &str) -> Result<WithWarnings, Status> {
    let resource = resource(kind);
    let object = strategy::decode(resource, merge(base(kind), patch))?.object;
    strategy::before_create(resource, object)
}

/// Creates the base object changed by `first`, then updates it by `second`.
fn update(kind: &str, first: &str, subresource: Subresource, second: &str) -> Result<WithWarnings, Status> {
    let resource = resource(kind);
    let mut old = create(kind, first).unwrap().object;
    if kind == "Service" {
        cluster_ips().allocate(None, &mut old).unwrap();
    }
    old["metadata"]["resourceVersion"] = "7".into();
    let new = strategy::decode(resource, merge(old.clone(), second))?.object;
    strategy::before_update(resource, &old, new, subresource)
}

/// Returns the causes of an error, one a line: reason, field, message.
fn causes(answer: &Result<WithWarnings, Status>) -> String {
    match answer {
        Ok(decided) => format!("taken: {}", decided.object),
        Err(status) => {
            assert_eq!((status.code, status.reason), (422, "Invalid"), "{status}");
            let details = status.details.as_ref().unwrap();
            let line = |c: &kube_endpoint_apiserver_rules::status::Cause| {
                format!("{} {}: {}", c.reason.trim_start_matches("FieldValue"), c.field, c.message)
            };
            details.causes.iter().map(line).collect::<Vec<_>>().join("\n")
        }
    }
}

/// Asserts the causes of an error; a line of `want` that ends in `...` is a prefix.
fn assert_causes(answer: &Result<WithWarnings, Status>, want: &[&str], case: &str) {
    let found = causes(answer);
    let lines: Vec<&str> = found.lines().collect();
    let matches = lines.len() == want.len()
        && lines.iter().zip(want).all(|(line, want)| match want.strip_suffix("...") {
            Some(beginning) => line.starts_with(beginning),
            None => line == want,
        });
    assert!(matches, "{case}\nfound:\n{found}\nwant:\n{}", want.join("\n"));
}

/// Asserts that creating an object fails with these causes.
fn assert_invalid(kind: &str, patch: &str, want: &[&str]) {
    assert_causes(&create(kind, patch), want, &format!("{kind} {patch}"));
}

/// Asserts that an update fails with these causes.
fn assert_invalid_update(kind: &str, first: &str, second: &str, want: &[&str]) {
    let answer = update(kind, first, Subresource::None, second);
    assert_causes(&answer, want, &format!("{kind} {first} then {second}"));
}

/// Asserts that an update of the status fails with these causes.
fn assert_invalid_status_update(kind: &str, first: &str, second: &str, want: &[&str]) {
    let answer = update(kind, first, Subresource::Status, second);
    assert_causes(&answer, want, &format!("{kind} status {first} then {second}"));
}
