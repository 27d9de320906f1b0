//! Tests since when a Service is told to be in its state, and which change is told as the last one
//! before that.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::ObjectKey;
use kube_endpoint_explain::text::{Colors, Layout};
use kube_endpoint_explain::{Explanation, Options, explain};
use kube_endpoint_testing::Cluster;
use serde_json::{Value, json};

use crate::explanations;

/// Returns a time of the day on which all of this happens.
fn at(minute: u32) -> String {
    format!("2026-01-01T00:{minute:02}:00Z")
}

fn service(selector: &Value, managed: Value) -> Value {
    json!({"kind": "Service",
        "metadata": {"name": "web", "uid": "s", "creationTimestamp": at(0), "managedFields": managed},
        "spec": {"clusterIP": "10.0.0.1", "ipFamilies": ["IPv4"], "selector": selector,
            "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}]}})
}

fn node(ready: bool, since: u32) -> Value {
    let status = if ready { "True" } else { "Unknown" };
    json!({"kind": "Node", "metadata": {"name": "a"},
        "status": {"conditions": [{"type": "Ready", "status": status, "lastTransitionTime": at(since)}]}})
}

/// Returns a pod of a ReplicaSet, with the time since which it is ready, or not ready.
fn pod(name: &str, hash: &str, created: u32, ready: bool, since: u32) -> Value {
    let ready = if ready { "True" } else { "False" };
    let ip = format!("10.1.0.{}", name.trim_start_matches("web-"));
    json!({"kind": "Pod",
        "metadata": {"name": name, "uid": name, "creationTimestamp": at(created),
            "labels": {"app": "web", "pod-template-hash": hash},
            "ownerReferences": [{"kind": "ReplicaSet", "name": format!("web-{hash}"), "controller": true}]},
        "spec": {"nodeName": "a", "containers": [{"name": "app", "ports": [{"containerPort": 8080}]}]},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at(since)}]}})
}

fn slice(endpoints: Value, written: u32) -> Value {
    json!({"kind": "EndpointSlice", "addressType": "IPv4", "endpoints": endpoints, "ports": [],
        "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web",
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
            "managedFields": [{"manager": "kube-controller-manager", "time": at(written)}]}})
}

fn edit(manager: &str, minute: u32, fields: Value) -> Value {
    json!({"manager": manager, "operation": "Update", "time": at(minute), "fieldsV1": {"f:spec": fields}})
}

/// Explains the Service, half an hour later. The controllers have written, unless there is a slice.
fn explained(objects: impl IntoIterator<Item = Value>) -> Explanation {
    let cluster = objects.into_iter().fold(Cluster::new(), Cluster::with);
    let is_written = cluster.objects_of("EndpointSlice").next().is_some();
    let cluster = if is_written { cluster } else { explanations::settled(cluster) };
    let objects = explanations::objects(&cluster);
    let (now, web) = (at(30).parse().unwrap(), ObjectKey::new("default", "web"));
    explain(&objects, &web, &objects.topology(), now, None, &Options::default()).unwrap()
}

/// Returns the lines above the advice, which are those that tell the state.
fn head(objects: impl IntoIterator<Item = Value>) -> String {
    let text = explained(objects).text(Layout::NARROW, at(30).parse().unwrap()).render(Colors::Off);
    text.split("\n\n").next().unwrap().to_owned()
}

#[test]
fn an_outage_lasts_since_the_last_pod_was_lost() {
    let web = service(&json!({"app": "web"}), Value::Null);
    let pods = [pod("web-1", "old", 1, false, 20), pod("web-2", "new", 18, false, 22)];
    insta::assert_snapshot!(head([web, node(true, 0)].into_iter().chain(pods)));
}

#[test]
fn a_node_that_was_lost_is_the_last_change() {
    let web = service(&json!({"app": "web"}), Value::Null);
    insta::assert_snapshot!(head([web, node(false, 20), pod("web-1", "old", 1, false, 21)]));
}

#[test]
fn a_service_is_degraded_since_its_first_pod_was_lost() {
    let web = service(&json!({"app": "web"}), Value::Null);
    let pods = [
        pod("web-1", "old", 1, true, 2),
        pod("web-2", "old", 1, false, 12),
        pod("web-3", "old", 1, false, 20),
    ];
    insta::assert_snapshot!(head([web, node(true, 0)].into_iter().chain(pods)));
}

/// Another selector, and who wrote it: one manager wrote only the selector, the other one more.
#[test]
fn the_edit_of_a_selector_is_told_with_who_made_it() {
    let alone = edit("kubectl-edit", 10, json!({"f:selector": {}}));
    let among_others = edit("argocd", 10, json!({"f:selector": {}, "f:ports": {}}));
    let created = edit("helm", 0, json!({"f:selector": {}}));
    let told = [alone, among_others, created].map(|entry| {
        let web = service(&json!({"app": "wbe"}), json!([entry]));
        head([web, node(true, 0), pod("web-1", "old", 1, true, 2), slice(json!([]), 11)])
    });
    insta::assert_snapshot!(told.join("\n\n"));
}

/// A workload that is scaled to zero, and a new ReplicaSet whose pods do not come.
#[test]
fn a_workload_without_pods_is_told_with_its_last_change() {
    let web = || service(&json!({"app": "web"}), Value::Null);
    let template = json!({"metadata": {"labels": {"app": "web"}}});
    let scaled = json!({"kind": "Deployment", "spec": {"replicas": 0, "template": &template},
        "metadata": {"name": "web", "managedFields": [edit("kubectl-scale", 9, json!({"f:replicas": {}}))]}});
    let set = json!({"kind": "ReplicaSet", "spec": {"replicas": 1, "template": &template},
        "metadata": {"name": "web-new", "creationTimestamp": at(8),
            "annotations": {"deployment.kubernetes.io/revision": "12"},
            "ownerReferences": [{"kind": "Deployment", "name": "web", "controller": true}]}});
    let told = [scaled, set].map(|workload| head([web(), node(true, 0), slice(json!([]), 11), workload]));
    insta::assert_snapshot!(told.join("\n\n"));
}

/// Nothing is told that the objects do not show.
#[test]
fn without_times_the_headline_has_no_end() {
    let mut lost = pod("web-1", "old", 1, false, 20);
    lost["metadata"]["creationTimestamp"] = Value::Null;
    lost["status"]["conditions"][0]["lastTransitionTime"] = Value::Null;
    let told = head([service(&json!({"app": "web"}), Value::Null), node(true, 0), lost]);
    assert!(told.lines().next().unwrap().ends_with("EP017 not-ready"), "{told}");
    assert!(!told.contains("Last change"), "{told}");
}

#[test]
fn the_document_has_both() {
    let web = service(&json!({"app": "web"}), Value::Null);
    let told = explained([web, node(false, 20), pod("web-1", "old", 1, false, 21)]);
    let document = serde_json::to_value(&told).unwrap();
    let want = json!({"at": at(20), "what": "node a became not ready"});
    assert_eq!((&document["since"], &document["lastChange"]), (&json!(at(21)), &want));
}
