//! Tests that decoding and defaults do not change objects of a real cluster, and that the rules
//! accept objects that a real server accepted.

use kube_endpoint_apiserver_rules::{resource, strategy};
use serde_json::Value;

const CLUSTER: &str = include_str!("../../../../integration-tests/fixtures/shop-cluster.json");

/// Removes nulls, which are equivalent to absent fields.
fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(map) => map
            .iter()
            .filter(|(_, v)| !v.is_null())
            .map(|(k, v)| (k.clone(), without_nulls(v)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        Value::Array(items) => items.iter().map(without_nulls).collect::<Vec<_>>().into(),
        other => other.clone(),
    }
}

#[test]
fn objects_of_a_real_cluster_are_unchanged() {
    let cluster: Value = serde_json::from_str(CLUSTER).unwrap();
    let items = cluster["items"].as_array().unwrap();
    assert!(items.len() > 50);
    for item in items {
        let kind = item["kind"].as_str().unwrap();
        let resource = resource::by_kind(item["apiVersion"].as_str().unwrap(), kind).unwrap();
        let decided = strategy::decode(resource, item.clone()).unwrap();
        assert_eq!(decided.warnings, [""; 0]);
        let name = &item["metadata"]["name"];
        assert_eq!(without_nulls(&decided.object), without_nulls(item), "{kind} {name}");
        let mut defaulted = decided.object.clone();
        strategy::set_defaults(resource, &mut defaulted);
        assert_eq!(defaulted, decided.object, "{kind} {name}");
    }
}

#[test]
fn objects_of_a_real_cluster_can_be_updated_without_a_change() {
    let cluster: Value = serde_json::from_str(CLUSTER).unwrap();
    for item in cluster["items"].as_array().unwrap() {
        let kind = item["kind"].as_str().unwrap();
        let resource = resource::by_kind(item["apiVersion"].as_str().unwrap(), kind).unwrap();
        let object = strategy::decode(resource, item.clone()).unwrap().object;
        let same = strategy::before_update(resource, &object, object.clone(), strategy::Subresource::None);
        assert_eq!(same.map(|d| d.object), Ok(object.clone()), "{kind}");
        if resource.has_status() {
            let same =
                strategy::before_update(resource, &object, object.clone(), strategy::Subresource::Status);
            assert_eq!(same.map(|d| d.object), Ok(object), "{kind}");
        }
    }
}

/// A client can create every object in the recordings, which a real server accepted, and then set
/// its status.
#[test]
fn every_object_of_the_recordings_is_accepted() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../integration-tests/conformance");
    let mut taken = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        // One instance represents all objects of an operation with a count.
        let text = ["$NS", "{i}", "{i%2}", "{i%3}", "{ip4}", "{ip6}"]
            .iter()
            .zip(["ns", "1", "1", "1", "10.1.0.2", "fd00:1::2"])
            .fold(text, |text, (from, to)| text.replace(from, to));
        let scenario: Value = serde_json::from_str(&text).unwrap();
        let mut ips = strategy::ClusterIps::new(&["10.96.0.0/16", "fd00:10:96::/112"]).unwrap();
        for step in scenario["steps"].as_array().unwrap() {
            for operation in step["do"].as_array().into_iter().flatten().filter(|o| o["op"] == "create") {
                take(&operation["object"], &mut ips, &path.display().to_string());
                taken += 1;
            }
        }
    }
    assert!(taken > 60, "{taken}");
}

fn take(object: &Value, ips: &mut strategy::ClusterIps, place: &str) {
    let kind = object["kind"].as_str().unwrap_or_default();
    let Some(resource) = resource::by_kind(object["apiVersion"].as_str().unwrap_or_default(), kind) else {
        panic!("{place}: {kind}");
    };
    let mut given = object.clone();
    given["metadata"]["uid"] = "u-1".into();
    given["metadata"]["resourceVersion"] = "1".into();
    if resource.namespaced {
        given["metadata"]["namespace"] = "ns".into();
    }
    let made = strategy::decode(resource, given).and_then(|d| strategy::before_create(resource, d.object));
    let mut made = made.unwrap_or_else(|why| panic!("{place}: {kind}: {why}")).object;
    if kind == "Service" {
        ips.allocate(None, &mut made).unwrap_or_else(|why| panic!("{place}: {why}"));
    }
    if object["status"].is_object() {
        let mut patched = made.clone();
        json_patch::merge(&mut patched, &serde_json::json!({"status": object["status"]}));
        let done = strategy::decode(resource, patched)
            .and_then(|d| strategy::before_update(resource, &made, d.object, strategy::Subresource::Status));
        if let Err(why) = done {
            panic!("{place}: status of {kind}: {why}");
        }
    }
}
