//! Tests create, update and patch: names, versions, preconditions, dry runs, errors.

use std::collections::BTreeSet;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::protocol::common::*;

#[tokio::test(start_paused = true)]
async fn create_sets_system_metadata() {
    let (_server, raw) = started();
    let mut object = service("web");
    object["metadata"]["uid"] = "mine".into();
    object["metadata"]["creationTimestamp"] = "1999-01-01T00:00:00Z".into();
    object["metadata"]["deletionTimestamp"] = "1999-01-01T00:00:00Z".into();
    pass(3600).await;
    let created = raw.post(SERVICES, &object).await.expect(201);
    let metadata = &created["metadata"];
    assert_eq!(metadata["uid"].as_str().unwrap().len(), 36);
    assert_eq!(metadata["creationTimestamp"], "2026-01-01T01:00:00Z");
    assert_eq!(metadata["namespace"], "default");
    assert_eq!(metadata["resourceVersion"], "5");
    assert!(metadata.get("deletionTimestamp").is_none());
    assert_eq!(created["spec"]["clusterIPs"].as_array().unwrap().len(), 1);
    assert_eq!(raw.get(&format!("{SERVICES}/web")).await.expect(200), created);
}

#[tokio::test(start_paused = true)]
async fn generate_name_makes_a_name() {
    let (server, raw) = started();
    let mut object = pod("");
    object["metadata"] = json!({"generateName": "web-"});
    let mut seen = BTreeSet::new();
    for _ in 0..200 {
        let name = raw.post(PODS, &object).await.expect(201)["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
        assert!(seen.insert(name));
    }
    assert_eq!(server.count("pods"), 200);
}

#[tokio::test(start_paused = true)]
async fn large_bodies_and_server_side_apply_are_refused() {
    let (_server, raw) = started();
    let large = Bytes::from(vec![b' '; 3 * 1024 * 1024 + 1]);
    raw.send("POST", PODS, "application/json", large).await.refused(413, "RequestEntityTooLarge");
    let uri = format!("{PODS}/a");
    let apply = raw.send("PATCH", &uri, "application/apply-patch+yaml", "{}").await;
    assert!(apply.refused(415, "UnsupportedMediaType").contains("server-side apply"));
}

#[tokio::test(start_paused = true)]
async fn the_status_subresource_writes_only_the_status() {
    let (_server, raw) = started();
    let created = raw.post(PODS, &pod("a")).await.expect(201);
    let uri = format!("{PODS}/a");
    let running = json!({"status": {"phase": "Running"}, "spec": {"nodeName": "n"}});
    let object = raw.merge(&format!("{uri}/status"), &running).await.expect(200);
    assert_eq!((object["status"]["phase"].as_str(), object["spec"].get("nodeName")), (Some("Running"), None));
    let object = raw.merge(&uri, &json!({"status": {"phase": "Failed"}})).await.expect(200);
    assert_eq!(object["status"]["phase"], "Running");
    assert_eq!(raw.get(&format!("{uri}/status")).await.expect(200), object);
    let mut failed = object;
    failed["status"]["phase"] = "Failed".into();
    let object = raw.put(&format!("{uri}/status"), &failed).await.expect(200);
    assert_eq!(object["status"]["phase"], "Failed");
    assert_eq!(object["metadata"]["uid"], created["metadata"]["uid"]);
    raw.get("/api/v1/namespaces/default/endpoints/a/status").await.refused(404, "NotFound");
    raw.delete(&format!("{uri}/status"), &Value::Null).await.refused(405, "MethodNotAllowed");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_changes_nothing() {
    let (server, raw) = started();
    let tried = raw.post(&format!("{SERVICES}?dryRun=All"), &service("web")).await.expect(201);
    let address = tried["spec"]["clusterIP"].clone();
    assert!(address.is_string());
    assert_eq!(server.count("services"), 0);
    let created = raw.post(SERVICES, &service("web")).await.expect(201);
    assert_eq!(created["spec"]["clusterIP"], address, "the trial took no address");
    let version = server.resource_version();
    let uri = format!("{SERVICES}/web?dryRun=All");
    let patched = raw.merge(&uri, &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    assert_eq!(patched["metadata"]["labels"]["a"], "b");
    raw.delete(&uri, &Value::Null).await.expect(200);
    raw.delete(&format!("{SERVICES}/web"), &json!({"dryRun": ["All"]})).await.expect(200);
    raw.delete(&format!("{SERVICES}?dryRun=All"), &Value::Null).await.expect(200);
    assert_eq!((server.resource_version(), server.count("services")), (version, 1));
    raw.post(&format!("{SERVICES}?dryRun=Maybe"), &service("x")).await.refused(422, "Invalid");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_of_an_update_takes_no_address() {
    let (_server, raw) = started();
    let external =
        json!({"metadata": {"name": "web"}, "spec": {"type": "ExternalName", "externalName": "web.example"}});
    raw.post(SERVICES, &external).await.expect(201);
    let patch = json!({"spec": {"type": "NodePort", "externalName": null, "ports": [{"port": 80}]}});
    let tried = raw.merge(&format!("{SERVICES}/web?dryRun=All"), &patch).await.expect(200);
    let done = raw.merge(&format!("{SERVICES}/web"), &patch).await.expect(200);
    assert!(done["spec"]["clusterIP"].is_string() && done["spec"]["ports"][0]["nodePort"].is_number());
    assert_eq!(tried["spec"], done["spec"]);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_removes_a_service_takes_no_address() {
    let (server, raw) = started();
    let external = json!({"metadata": {"name": "web", "finalizers": ["example.com/held"]},
        "spec": {"type": "ExternalName", "externalName": "web.example"}});
    raw.post(SERVICES, &external).await.expect(201);
    raw.delete(&format!("{SERVICES}/web"), &Value::Null).await.expect(200);
    let patch = json!({"metadata": {"finalizers": null},
        "spec": {"type": "ClusterIP", "externalName": null, "ports": [{"port": 80}]}});
    let gone = raw.merge(&format!("{SERVICES}/web"), &patch).await.expect(200);
    assert_eq!(server.count("services"), 0);
    let mut next = service("next");
    next["spec"]["clusterIP"] = gone["spec"]["clusterIP"].clone();
    assert!(next["spec"]["clusterIP"].is_string());
    raw.post(SERVICES, &next).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn empty_fields_are_printed_as_go_prints_them() {
    let (_server, raw) = started();
    let mut object = service("web");
    object["spec"]["selector"] = json!({});
    object["spec"]["clusterIP"] = "None".into();
    let spec = raw.post(SERVICES, &object).await.expect(201)["spec"].take();
    assert!(spec.get("selector").is_none(), "{spec}");
    assert_eq!(spec["ipFamilyPolicy"], "RequireDualStack", "headless and without a selector");
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let mut object = slice("web");
    object["ports"] = json!([]);
    let made = raw.post(slices, &object).await.expect(201);
    assert_eq!((&made["endpoints"], &made["ports"]), (&Value::Null, &Value::Null));
    let mut object = endpoints("web");
    object["subsets"] = json!([]);
    let made = raw.post("/api/v1/namespaces/default/endpoints", &object).await.expect(201);
    assert!(made.get("subsets").is_none(), "{made}");
}
