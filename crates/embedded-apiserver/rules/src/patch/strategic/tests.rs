//! Tests strategic merge patches case by case.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::resource::by_path;

fn patched(plural: &str, original: Value, patch: Value) -> Result<Value, Error> {
    let resource = by_path("", "v1", plural).unwrap();
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else { unreachable!() };
    merge(original, patch, resource.patch_schema).map(Value::Object)
}

#[track_caller]
fn check(plural: &str, original: Value, patch: Value, expected: Value) {
    assert_eq!(patched(plural, original, patch).unwrap(), expected);
}

fn names(list: &[&str]) -> Vec<Value> {
    list.iter().map(|name| json!({"name": name})).collect()
}

#[test]
fn objects_are_merged_and_nulls_delete() {
    check(
        "pods",
        json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"nodeName": "n"}}),
        json!({"metadata": {"labels": {"a": null, "c": "3"}, "annotations": {"x": null, "y": "1"}}}),
        json!({"metadata": {"labels": {"b": "2", "c": "3"}, "annotations": {"y": "1"}}, "spec": {"nodeName": "n"}}),
    );
}

#[test]
fn containers_are_merged_by_name_and_their_ports_by_container_port() {
    check(
        "pods",
        json!({"spec": {"containers": [
            {"name": "a", "image": "a:1", "ports": [{"containerPort": 80, "name": "http"}], "args": ["x", "y"]},
            {"name": "b", "image": "b:1"},
        ]}}),
        json!({"spec": {"containers": [
            {"name": "a", "image": "a:2", "ports": [{"containerPort": 81}, {"containerPort": 80, "name": "web"}],
             "args": ["z"]},
        ]}}),
        json!({"spec": {"containers": [
            {"name": "a", "image": "a:2", "ports": [{"containerPort": 81}, {"containerPort": 80, "name": "web"}],
             "args": ["z"]},
            {"name": "b", "image": "b:1"},
        ]}}),
    );
}

#[test]
fn tolerations_and_endpoint_subsets_are_replaced() {
    check(
        "pods",
        json!({"spec": {"tolerations": [{"key": "a"}, {"key": "b"}]}}),
        json!({"spec": {"tolerations": [{"key": "c"}]}}),
        json!({"spec": {"tolerations": [{"key": "c"}]}}),
    );
    check(
        "endpoints",
        json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}]}]}),
        json!({"subsets": [{"addresses": [{"ip": "10.0.0.2"}]}]}),
        json!({"subsets": [{"addresses": [{"ip": "10.0.0.2"}]}]}),
    );
}

#[test]
fn conditions_addresses_and_service_ports_have_their_keys() {
    check(
        "nodes",
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Disk", "status": "False"}],
                          "addresses": [{"type": "InternalIP", "address": "1.1.1.1"}]}}),
        json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}],
                          "addresses": [{"type": "Hostname", "address": "n"}]}}),
        json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}, {"type": "Disk", "status": "False"}],
                          "addresses": [{"type": "Hostname", "address": "n"},
                                        {"type": "InternalIP", "address": "1.1.1.1"}]}}),
    );
    check(
        "services",
        json!({"spec": {"ports": [{"port": 80, "name": "http"}, {"port": 443, "name": "https"}]}}),
        json!({"spec": {"ports": [{"port": 443, "$patch": "delete"}, {"port": 80, "targetPort": 8080}]}}),
        json!({"spec": {"ports": [{"port": 80, "name": "http", "targetPort": 8080}]}}),
    );
}

#[test]
fn finalizers_are_a_set() {
    let metadata = |list: &[&str]| json!({"metadata": {"finalizers": list}});
    check("pods", metadata(&["a", "b"]), metadata(&["c", "a"]), metadata(&["c", "a", "b"]));
    check(
        "pods",
        metadata(&["a", "b", "c"]),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["b"]}}),
        metadata(&["a", "c"]),
    );
    check(
        "pods",
        metadata(&["a", "b"]),
        json!({"metadata": {"$setElementOrder/finalizers": ["c", "b"], "finalizers": ["c"],
               "$deleteFromPrimitiveList/finalizers": ["a"]}}),
        metadata(&["c", "b"]),
    );
    check("pods", metadata(&["a"]), json!({"metadata": {"finalizers": null}}), json!({"metadata": {}}));
}

#[test]
fn element_order_is_obeyed_and_unknown_elements_keep_their_place() {
    let containers = |list: &[&str]| json!({"spec": {"containers": names(list)}});
    let ordered = |order: &[&str], list: &[&str]| json!({"spec": {"$setElementOrder/containers": names(order), "containers": names(list)}});
    check("pods", containers(&["a", "b", "c"]), ordered(&["c", "a"], &[]), containers(&["b", "c", "a"]));
    check("pods", containers(&["a", "b"]), ordered(&["b", "n", "a"], &["n"]), containers(&["b", "n", "a"]));
    check(
        "pods",
        containers(&["s", "a", "t"]),
        ordered(&["n", "a"], &["n"]),
        containers(&["n", "s", "a", "t"]),
    );
    check("pods", json!({}), ordered(&["b"], &["b"]), containers(&["b"]));
    let error = patched("pods", containers(&["a"]), ordered(&["a", "b"], &["b", "a"]));
    assert_eq!(error, Err(Error::OrderMismatch));
}

#[test]
fn patch_directives_replace_and_delete() {
    check(
        "pods",
        json!({"spec": {"containers": names(&["a", "b"]), "nodeSelector": {"a": "1"}}}),
        json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}],
                        "nodeSelector": {"$patch": "replace", "b": "2"}}}),
        json!({"spec": {"containers": names(&["c"]), "nodeSelector": {"b": "2"}}}),
    );
    check(
        "pods",
        json!({"metadata": {"labels": {"a": "1"}}, "spec": {"containers": names(&["a", "b"])}}),
        json!({"metadata": {"labels": {"$patch": "delete"}},
               "spec": {"containers": [{"$patch": "delete", "name": "a"}, {"$patch": "delete", "name": "z"}]}}),
        json!({"metadata": {"labels": {}}, "spec": {"containers": names(&["b"])}}),
    );
}

#[test]
fn retain_keys_clears_the_other_keys() {
    check(
        "pods",
        json!({"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
        json!({"spec": {"volumes": [
            {"$retainKeys": ["name", "hostPath"], "name": "v", "hostPath": {"path": "/"}},
            {"$retainKeys": ["name", "emptyDir"], "name": "w", "emptyDir": {}},
        ]}}),
        json!({"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "emptyDir": {}}]}}),
    );
    let unnamed = json!({"spec": {"$retainKeys": ["a"], "b": 1}});
    assert_eq!(patched("pods", json!({"spec": {}}), unnamed), Err(Error::RetainKeys));
}

#[test]
fn refusals_read_as_upstreams() {
    let original =
        json!({"spec": {"containers": names(&["a"]), "nodeSelector": {}}, "metadata": {"finalizers": ["f"]}});
    let all: Vec<String> = [
        json!({"spec": {"containers": [{"image": "x"}]}}),
        json!({"spec": {"containers": [{"$patch": "delete", "image": "x"}]}}),
        json!({"spec": {"containers": [{"$patch": "merge", "name": "a"}]}}),
        json!({"spec": {"containers": [{"$patch": "grow", "name": "a"}]}}),
        json!({"spec": {"containers": ["a"]}}),
        json!({"spec": {"containers": [["a"]]}}),
        json!({"spec": {"nodeSelector": {"$patch": "merge", "a": "b"}}}),
        json!({"spec": {"$setElementOrder/containers": "a"}}),
        json!({"metadata": {"$setElementOrder": ["a"]}}),
    ]
    .into_iter()
    .map(|patch| patched("pods", original.clone(), patch).unwrap_err().to_string())
    .collect();
    insta::assert_snapshot!(all.join("\n"), @r#"
    map: map[image:x] does not contain declared merge key: name
    map: map[$patch:delete image:x] does not contain declared merge key: name
    merging lists cannot yet be specified in the patch
    unknown patch type: grow in map: map[$patch:grow name:a]
    list element types are not identical
    lists of lists are not supported
    unknown patch type: merge in map: map[a:b]
    invalid patch format of setElementOrder list
    invalid patch format of setElementOrder list
    "#);
}

proptest! {
    /// A list that a patch orders completely ends up in that order, and applying a patch twice
    /// changes nothing.
    #[test]
    fn ordering_is_idempotent(
        old in proptest::sample::subsequence(vec!["a", "b", "c", "d", "e", "f"], 0..6).prop_shuffle(),
        new in proptest::sample::subsequence(vec!["a", "b", "c", "d", "e", "f"], 1..6).prop_shuffle(),
    ) {
        let original = json!({"spec": {"containers": names(&old)}});
        let patch = json!({"spec": {"$setElementOrder/containers": names(&new), "containers": names(&new)}});
        let once = patched("pods", original, patch.clone()).unwrap();
        let list = once["spec"]["containers"].as_array().unwrap().clone();
        let kept: Vec<Value> = list.iter().filter(|one| names(&new).contains(one)).cloned().collect();
        prop_assert_eq!(kept, names(&new));
        prop_assert!(names(&old).iter().all(|one| list.contains(one)));
        prop_assert_eq!(patched("pods", once.clone(), patch).unwrap(), once);
    }
}
