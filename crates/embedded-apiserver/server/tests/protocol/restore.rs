//! Tests a server that goes back to an older state while clients are connected, as after a restore
//! of etcd from a backup.

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::json;

use crate::protocol::common::*;

#[tokio::test(start_paused = true)]
async fn a_restore_sets_objects_and_versions_back_and_breaks_watches() {
    let (server, raw) = started();
    raw.post(PODS, &pod("old")).await.expect(201);
    raw.post(SERVICES, &service("web")).await.expect(201);
    let address = server.get("services", "default", "web").unwrap()["spec"]["clusterIP"].clone();
    let checkpoint = server.checkpoint();
    assert_eq!(checkpoint.resource_version(), 6);
    raw.post(PODS, &pod("new")).await.expect(201);
    raw.delete(&format!("{PODS}/old"), &json!({"gracePeriodSeconds": 0})).await.expect(200);
    raw.delete(&format!("{SERVICES}/web"), &json!({})).await.expect(200);
    let mut watch = raw.watch(&format!("{PODS}?watch=1&resourceVersion=6")).await;
    assert_eq!(watch.take(3).await, ["ADDED new@7", "MODIFIED old@8", "DELETED old@9"]);

    server.restore(&checkpoint);
    assert!(watch.error().await.unwrap().contains("connection reset"));
    assert_eq!(server.resource_version(), 6);
    let list = raw.get(PODS).await.expect(200);
    assert_eq!((names(&list), version_of(&list)), (vec!["old"], 6));
    // The server gives versions to new objects, and the restored Service owns its address again.
    let mut other = service("other");
    other["spec"]["clusterIP"] = address;
    assert!(raw.post(SERVICES, &other).await.refused(422, "Invalid").contains("already allocated"));
    assert_eq!(version_of(&raw.post(PODS, &pod("another")).await.expect(201)), 7);
    // Neither the later versions nor the earlier ones are in the history.
    let early = raw.watch(&format!("{PODS}?watch=1&resourceVersion=4")).await;
    assert_eq!(drain(early).await, ["ERROR too old resource version: 4 (6)"]);
    let mut now = raw.watch(&format!("{PODS}?watch=1&resourceVersion=6")).await;
    assert_eq!(now.short().await, "ADDED another@7");
    // A test can restore it again.
    server.restore(&checkpoint);
    assert_eq!(names(&raw.get(PODS).await.expect(200)), ["old"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_version_that_does_not_exist_yet_is_silent() {
    let (server, raw) = started();
    let uri = format!("{PODS}?watch=1&resourceVersion=8&allowWatchBookmarks=true&timeoutSeconds=600");
    let mut events = raw.watch(&uri).await;
    let start = tokio::time::Instant::now();
    for name in ["a", "b", "c", "d"] {
        assert!(server.resource_version() < 8);
        raw.post(PODS, &pod(name)).await.expect(201);
        assert!(events.is_idle(), "changes up to the client's version are not sent");
    }
    raw.post(PODS, &pod("e")).await.expect(201);
    assert_eq!(events.take(2).await, ["ADDED e@9", "BOOKMARK @9"]);
    assert_eq!(start.elapsed().as_secs(), 60);

    let mut deaf = raw.watch(&uri.replace("resourceVersion=8", "resourceVersion=800")).await;
    let start = tokio::time::Instant::now();
    assert_eq!(deaf.short().await, "(end)", "no bookmarks either");
    assert_eq!(start.elapsed().as_secs(), 600);
}

#[tokio::test(start_paused = true)]
async fn reads_at_a_version_that_does_not_exist_yet_time_out() {
    let (_server, raw) = started();
    raw.post(PODS, &pod("a")).await.expect(201);
    for uri in [
        format!("{PODS}?resourceVersion=100196"),
        format!("{PODS}?resourceVersion=100196&resourceVersionMatch=NotOlderThan"),
        format!("{PODS}?resourceVersion=100196&resourceVersionMatch=Exact"),
        format!("{PODS}/a?resourceVersion=100196"),
    ] {
        let start = tokio::time::Instant::now();
        let reply = raw.get(&uri).await;
        assert_eq!(start.elapsed().as_secs(), 3);
        let message = reply.refused(504, "Timeout");
        assert_eq!(message, "Timeout: Too large resource version: 100196, current: 5", "{uri}");
        let causes = json!([{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]);
        assert_eq!(reply.json()["details"], json!({"causes": causes, "retryAfterSeconds": 1}));
        assert_eq!(reply.headers["retry-after"], "1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_resumes_deletions_that_were_under_way() {
    let (server, raw) = start(EmbeddedApiServer::builder());
    let owner = raw.post(SERVICES, &service("web")).await.expect(201);
    let mut dependent = slice("web-1");
    dependent["metadata"]["ownerReferences"] =
        json!([{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": owner["metadata"]["uid"]}]);
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    raw.post(slices, &dependent).await.expect(201);
    raw.post("/api/v1/namespaces", &json!({"metadata": {"name": "shop"}})).await.expect(201);
    raw.delete(&format!("{SERVICES}/web"), &json!({})).await.expect(200);
    raw.delete("/api/v1/namespaces/shop", &json!({})).await.expect(200);
    let checkpoint = server.checkpoint();
    pass(5).await;
    assert_eq!(server.count("endpointslices"), 0);
    server.restore(&checkpoint);
    assert_eq!((server.count("endpointslices"), server.count("namespaces")), (1, 5));
    pass(5).await;
    assert_eq!((server.count("endpointslices"), server.count("namespaces")), (0, 4));
}
