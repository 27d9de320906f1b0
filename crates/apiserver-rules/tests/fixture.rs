//! Objects read from a real cluster come out of decoding, and of the defaults, as they went in.

use kube_endpoint_apiserver_rules::{resource, strategy};
use serde_json::Value;

const CLUSTER: &str = include_str!("../../../integration-tests/fixtures/shop-cluster.json");

/// Null and absent are one.
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
fn a_real_cluster_passes_unchanged() {
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
fn a_real_cluster_can_be_written_again() {
    let cluster: Value = serde_json::from_str(CLUSTER).unwrap();
    let now = "2026-11-20T12:30:00Z".parse().unwrap();
    for item in cluster["items"].as_array().unwrap() {
        let kind = item["kind"].as_str().unwrap();
        let resource = resource::by_kind(item["apiVersion"].as_str().unwrap(), kind).unwrap();
        let object = strategy::decode(resource, item.clone()).unwrap().object;
        let same = strategy::update(resource, &object, object.clone(), strategy::Subresource::None, now);
        assert_eq!(same.map(|d| d.object), Ok(object.clone()), "{kind}");
        if resource.has_status {
            let same =
                strategy::update(resource, &object, object.clone(), strategy::Subresource::Status, now);
            assert_eq!(same.map(|d| d.object), Ok(object), "{kind}");
        }
    }
}
