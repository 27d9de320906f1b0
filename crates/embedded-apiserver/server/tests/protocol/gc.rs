//! Tests the garbage collector: dependents and owners.

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::{Value, json};

use crate::protocol::common::*;

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

fn owned_by(owner: &Value, name: &str, blocks: bool) -> Value {
    let mut object = slice(name);
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": owner["kind"], "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"], "controller": true, "blockOwnerDeletion": blocks,
    }]);
    object
}

fn slices(server: &EmbeddedApiServer) -> Vec<String> {
    let of = |object: &Value| object["metadata"]["name"].as_str().unwrap().to_owned();
    server.list("endpointslices").iter().map(of).collect()
}

#[tokio::test(start_paused = true)]
async fn dependents_of_a_deleted_owner_are_deleted() {
    let (server, raw) = started();
    let web = raw.post(SERVICES, &service("web")).await.expect(201);
    raw.post(SLICES, &owned_by(&web, "web-1", true)).await.expect(201);
    raw.post(SLICES, &owned_by(&web, "web-2", true)).await.expect(201);
    raw.post(SLICES, &slice("free")).await.expect(201);
    raw.delete(&format!("{SERVICES}/web"), &Value::Null).await.expect(200);
    assert_eq!(slices(&server).len(), 3, "not at once");
    pass(1).await;
    assert_eq!(slices(&server), ["free"]);
}

#[tokio::test(start_paused = true)]
async fn an_object_created_with_a_deleted_owner_is_deleted() {
    let (server, raw) = started();
    let web = raw.post(SERVICES, &service("web")).await.expect(201);
    raw.delete(&format!("{SERVICES}/web"), &Value::Null).await.expect(200);
    raw.post(SLICES, &owned_by(&web, "late", true)).await.expect(201);
    pass(1).await;
    assert!(slices(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_object_with_another_owner_loses_the_reference() {
    let (server, raw) = started();
    let web = raw.post(SERVICES, &service("web")).await.expect(201);
    let api = raw.post(SERVICES, &service("api")).await.expect(201);
    let mut object = owned_by(&web, "shared", true);
    let mut second = owned_by(&api, "shared", true)["metadata"]["ownerReferences"][0].take();
    second["controller"] = false.into();
    object["metadata"]["ownerReferences"].as_array_mut().unwrap().push(second);
    raw.post(SLICES, &object).await.expect(201);
    raw.delete(&format!("{SERVICES}/web"), &Value::Null).await.expect(200);
    pass(1).await;
    let left = server.get("endpointslices", "default", "shared").unwrap();
    let owners = left["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!((owners.len(), owners[0]["name"].as_str()), (1, Some("api")));
}

#[tokio::test(start_paused = true)]
async fn owners_of_unknown_kinds_count_as_existing() {
    let (server, raw) = started();
    let mut object = pod("a");
    object["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs-uid"}]);
    raw.post(PODS, &object).await.expect(201);
    pass(1).await;
    assert_eq!(server.count("pods"), 1);
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_removes_all_dependents_and_waits_for_those_that_block() {
    let (server, raw) = started();
    let web = raw.post(SERVICES, &service("web")).await.expect(201);
    let mut held = owned_by(&web, "held", true);
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    raw.post(SLICES, &held).await.expect(201);
    raw.post(SLICES, &owned_by(&web, "plain", true)).await.expect(201);
    raw.post(SLICES, &owned_by(&web, "not-blocking", false)).await.expect(201);
    let options = json!({"propagationPolicy": "Foreground"});
    let marked = raw.delete(&format!("{SERVICES}/web"), &options).await.expect(200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    pass(1).await;
    assert_eq!(slices(&server), ["held"]);
    assert_eq!(server.count("services"), 1);
    raw.merge(&format!("{SLICES}/held"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    pass(1).await;
    assert_eq!((server.count("services"), slices(&server).len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_dependent_with_another_owner_survives_a_foreground_deletion() {
    let (server, raw) = started();
    let web = raw.post(SERVICES, &service("web")).await.expect(201);
    let api = raw.post(SERVICES, &service("api")).await.expect(201);
    let mut both = owned_by(&web, "both", true);
    let mut other = owned_by(&api, "both", true)["metadata"]["ownerReferences"][0].clone();
    other["controller"] = false.into();
    both["metadata"]["ownerReferences"].as_array_mut().unwrap().push(other);
    raw.post(SLICES, &both).await.expect(201);
    raw.delete(&format!("{SERVICES}/web"), &json!({"propagationPolicy": "Foreground"})).await.expect(200);
    pass(1).await;
    assert!(server.get("services", "default", "web").is_none());
    let kept = server.get("endpointslices", "default", "both").unwrap();
    let owners = kept["metadata"]["ownerReferences"].as_array().unwrap();
    assert_eq!((owners.len(), owners[0]["name"].as_str()), (1, Some("api")));
}

#[tokio::test(start_paused = true)]
async fn orphans_lose_the_reference_to_their_owner() {
    let (server, raw) = started();
    let web = raw.post(SERVICES, &service("web")).await.expect(201);
    raw.post(SLICES, &owned_by(&web, "web-1", true)).await.expect(201);
    let marked =
        raw.delete(&format!("{SERVICES}/web?propagationPolicy=Orphan"), &Value::Null).await.expect(200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]));
    pass(1).await;
    assert_eq!(server.count("services"), 0);
    let left = server.get("endpointslices", "default", "web-1").unwrap();
    assert!(left["metadata"].get("ownerReferences").is_none());
}

#[tokio::test(start_paused = true)]
async fn gc_delay_is_observed() {
    let (server, raw) = start(EmbeddedApiServer::builder().gc_delay(std::time::Duration::from_secs(20)));
    let web = raw.post(SERVICES, &service("web")).await.expect(201);
    raw.post(SLICES, &owned_by(&web, "web-1", true)).await.expect(201);
    raw.delete(&format!("{SERVICES}/web"), &Value::Null).await.expect(200);
    pass(19).await;
    assert_eq!(slices(&server), ["web-1"]);
    pass(2).await;
    assert!(slices(&server).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_garbage_collector_can_be_disabled() {
    let (server, raw) = start(EmbeddedApiServer::builder().without_garbage_collector());
    let web = raw.post(SERVICES, &service("web")).await.expect(201);
    raw.post(SLICES, &owned_by(&web, "web-1", true)).await.expect(201);
    raw.delete(&format!("{SERVICES}/web"), &Value::Null).await.expect(200);
    pass(60).await;
    assert_eq!(slices(&server), ["web-1"]);
}

#[tokio::test(start_paused = true)]
async fn deleting_a_node_deletes_its_lease() {
    let (server, raw) = started();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let node = raw.post("/api/v1/nodes", &node).await.expect(201);
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": {}, "metadata": {
        "name": "n", "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": node["metadata"]["uid"]},
        ],
    }});
    raw.post("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", &lease).await.expect(201);
    raw.delete("/api/v1/nodes/n", &Value::Null).await.expect(200);
    pass(1).await;
    assert_eq!(server.count("leases"), 0);
}
