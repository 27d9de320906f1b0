//! Tests which objects namespaces admit, and how they end.

use serde_json::{Value, json};

use crate::protocol::common::*;

fn namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

const SHOP: &str = "/api/v1/namespaces/shop";

#[tokio::test(start_paused = true)]
async fn initial_namespaces() {
    let (_server, raw) = started();
    let list = raw.get("/api/v1/namespaces").await.expect(200);
    assert_eq!(names(&list), ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let default = &list["items"][0];
    assert_eq!(default["status"]["phase"], "Active");
    assert_eq!(default["spec"]["finalizers"], json!(["kubernetes"]));
    let reply = raw.delete("/api/v1/namespaces/default", &Value::Null).await;
    assert!(reply.refused(403, "Forbidden").contains("this namespace may not be deleted"));
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_rejects_creates_and_is_removed_when_empty() {
    let (server, raw) = started();
    raw.post("/api/v1/namespaces", &namespace("shop")).await.expect(201);
    raw.post(&format!("{SHOP}/pods"), &pod_on("placed", "n")).await.expect(201);
    raw.post(&format!("{SHOP}/pods"), &pod("unplaced")).await.expect(201);
    raw.post(&format!("{SHOP}/services"), &service("web")).await.expect(201);
    let marked = raw.delete(SHOP, &Value::Null).await.expect(200);
    assert_eq!(marked["status"]["phase"], "Terminating");
    assert!(marked["metadata"]["deletionTimestamp"].is_string());

    let reply = raw.post(&format!("{SHOP}/pods"), &pod("new")).await;
    assert_eq!(
        reply.refused(403, "Forbidden"),
        "pods \"new\" is forbidden: unable to create new content in namespace shop because it is being terminated"
    );
    assert_eq!(
        reply.json()["details"]["causes"],
        json!([{
            "reason": "NamespaceTerminating", "message": "namespace shop is being terminated", "field": "metadata.namespace",
        }])
    );
    pass(5).await;
    assert_eq!(server.count("pods"), 1, "the placed pod has its grace");
    assert_eq!(server.count("services"), 1, "the rest waits for the pods");
    raw.merge(&format!("{SHOP}/services/web"), &json!({"metadata": {"labels": {"a": "b"}}}))
        .await
        .expect(200);
    raw.delete(&format!("{SHOP}/pods/placed"), &json!({"gracePeriodSeconds": 0})).await.expect(200);
    pass(5).await;
    assert_eq!(server.count("services"), 0);
    raw.get(SHOP).await.refused(404, "NotFound");
    let reply = raw.post(&format!("{SHOP}/pods"), &pod("new")).await;
    assert_eq!(reply.refused(404, "NotFound"), "namespaces \"shop\" not found");
}

#[tokio::test(start_paused = true)]
async fn finalizers_delay_the_removal_of_a_namespace() {
    let (server, raw) = started();
    let mut own = namespace("shop");
    own["metadata"]["finalizers"] = json!(["example.com/own"]);
    raw.post("/api/v1/namespaces", &own).await.expect(201);
    let mut held = service("web");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    raw.post(&format!("{SHOP}/services"), &held).await.expect(201);
    raw.delete(SHOP, &Value::Null).await.expect(200);
    pass(5).await;
    assert!(server.get("services", "shop", "web").unwrap()["metadata"]["deletionTimestamp"].is_string());
    let none = json!({"metadata": {"finalizers": null}});
    raw.merge(&format!("{SHOP}/services/web"), &none).await.expect(200);
    pass(5).await;
    let waiting = raw.get(SHOP).await.expect(200);
    assert!(waiting["spec"].get("finalizers").is_none(), "the namespace controller is done with it");
    raw.merge(SHOP, &none).await.expect(200);
    raw.get(SHOP).await.refused(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn a_removed_namespace_can_be_created_again() {
    let (_server, raw) = started();
    let first = raw.post("/api/v1/namespaces", &namespace("shop")).await.expect(201);
    raw.delete(SHOP, &Value::Null).await.expect(200);
    raw.post("/api/v1/namespaces", &namespace("shop")).await.refused(409, "AlreadyExists");
    pass(5).await;
    let second = raw.post("/api/v1/namespaces", &namespace("shop")).await.expect(201);
    assert_ne!(first["metadata"]["uid"], second["metadata"]["uid"]);
    assert_eq!(second["status"]["phase"], "Active");
}
