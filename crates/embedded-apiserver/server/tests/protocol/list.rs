//! Tests lists: their pages, selectors, states and shapes.

use crate::protocol::common::*;
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::{Value, json};

async fn with_pods(count: usize) -> (EmbeddedApiServer, Raw) {
    let (server, raw) = started();
    for number in 0..count {
        let mut pod = pod_on(&format!("pod-{number:03}"), &format!("node-{}", number % 3));
        pod["metadata"]["labels"]["parity"] = if number % 2 == 0 { "even" } else { "odd" }.into();
        raw.post(PODS, &pod).await.expect(201);
    }
    (server, raw)
}

#[tokio::test(start_paused = true)]
async fn all_pages_show_one_state() {
    let (_server, raw) = with_pods(5).await;
    let first = raw.get(&format!("{PODS}?limit=2")).await.expect(200);
    assert_eq!(names(&first), ["pod-000", "pod-001"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    raw.delete(&format!("{PODS}/pod-003"), &json!({"gracePeriodSeconds": 0})).await.expect(200);
    raw.post(PODS, &pod("pod-002a")).await.expect(201);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = raw.get(&format!("{PODS}?limit=2&continue={token}")).await.expect(200);
    assert_eq!(names(&second), ["pod-002", "pod-003"]);
    assert_eq!(version_of(&second), version_of(&first));
    assert_eq!(second["metadata"]["remainingItemCount"], 1);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let third = raw.get(&format!("{PODS}?limit=2&continue={token}")).await.expect(200);
    assert_eq!(names(&third), ["pod-004"]);
    assert!(third["metadata"].get("continue").is_none());
    assert!(third["metadata"].get("remainingItemCount").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_expired_token_comes_with_an_inconsistent_one() {
    let (server, raw) = with_pods(4).await;
    let first = raw.get(&format!("{PODS}?limit=2")).await.expect(200);
    raw.post(PODS, &pod("pod-009")).await.expect(201);
    server.compact();
    let token = first["metadata"]["continue"].as_str().unwrap();
    let reply = raw.get(&format!("{PODS}?limit=2&continue={token}")).await;
    assert!(reply.refused(410, "Expired").starts_with("The provided continue parameter is too old"));
    let token = reply.json()["metadata"]["continue"].as_str().unwrap().to_owned();
    let rest = raw.get(&format!("{PODS}?continue={token}")).await.expect(200);
    assert_eq!(names(&rest), ["pod-002", "pod-003", "pod-009"]);
    assert!(
        raw.get(&format!("{PODS}?continue=nonsense")).await.refused(400, "BadRequest").contains("continue")
    );
    let both = raw.get(&format!("{PODS}?continue={token}&resourceVersion=3")).await;
    assert!(both.refused(400, "BadRequest").contains("not allowed when using continue"));
}

#[tokio::test(start_paused = true)]
async fn a_namespace_does_not_match_a_longer_name() {
    let (server, raw) = started();
    let namespaced = |namespace: &str| {
        json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": namespace}, "spec": {"containers": []}})
    };
    server.load([namespaced("a-b"), namespaced("a"), namespaced("ab")]).unwrap();
    let of = async |path: &str| {
        let list = raw.get(path).await.expect(200);
        let namespaces = list["items"].as_array().unwrap().iter();
        namespaces.map(|pod| pod["metadata"]["namespace"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(of("/api/v1/namespaces/a/pods").await, ["a"]);
    // In etcd the slash sorts after the hyphen, too.
    assert_eq!(of("/api/v1/pods").await, ["a-b", "a", "ab"]);
}

#[tokio::test(start_paused = true)]
async fn the_resource_version_selects_the_state() {
    let (server, raw) = with_pods(2).await;
    let then = server.resource_version();
    raw.post(PODS, &pod("pod-later")).await.expect(201);
    let count = async |query: &str| names(&raw.get(&format!("{PODS}?{query}")).await.expect(200)).len();
    assert_eq!(count("").await, 3);
    assert_eq!(count("resourceVersion=0").await, 3);
    assert_eq!(count("resourceVersion=0&limit=1").await, 3, "a cache ignores the limit");
    assert_eq!(count(&format!("resourceVersion={then}")).await, 3);
    assert_eq!(count(&format!("resourceVersion={then}&resourceVersionMatch=NotOlderThan")).await, 3);
    assert_eq!(count(&format!("resourceVersion={then}&resourceVersionMatch=Exact")).await, 2);
    assert_eq!(count(&format!("resourceVersion={then}&limit=10")).await, 2, "a limit means exactly");
    server.compact();
    let exact = raw.get(&format!("{PODS}?resourceVersion={then}&resourceVersionMatch=Exact")).await;
    let message = exact.refused(410, "Expired");
    assert_eq!(message, format!("too old resource version: {then} ({})", server.resource_version()));
}

#[tokio::test(start_paused = true)]
async fn a_read_waits_for_a_later_version_with_a_timeout() {
    let (server, raw) = with_pods(1).await;
    let future = server.resource_version() + 1;
    let uri = format!("{PODS}?resourceVersion={future}");
    let (late, _) = tokio::join!(raw.get(&uri), async {
        pass(1).await;
        raw.post(SERVICES, &service("any")).await.expect(201);
    });
    late.expect(200);
    let reply = raw.get(&format!("{PODS}?resourceVersion={}", future + 100)).await;
    let message = reply.refused(504, "Timeout");
    assert_eq!(message, format!("Timeout: Too large resource version: {}, current: {future}", future + 100));
    assert_eq!(reply.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    assert_eq!(reply.headers["retry-after"], "1");
    raw.get(&format!("{PODS}/pod-000?resourceVersion={}", future + 100)).await.refused(504, "Timeout");
}

#[tokio::test(start_paused = true)]
async fn long_lists_are_streamed_completely() {
    let (server, raw) = started();
    let pods = (0..2000).map(|number| pod(&format!("pod-{number:05}")));
    server.load(pods).unwrap();
    let reply = raw.get("/api/v1/pods").await;
    assert!(reply.text.len() > 400_000);
    assert!(reply.chunks > 5, "it is not one buffer: {}", reply.chunks);
    let list = reply.expect(200);
    assert_eq!(list["kind"], "PodList");
    assert_eq!(names(&list).len(), 2000);
    assert!(list["items"][0].get("kind").is_none(), "items carry no kind");
    assert_eq!(raw.get("/api/v1/nodes").await.expect(200)["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn lists_as_metadata_and_as_tables() {
    let (_server, raw) = with_pods(2).await;
    let metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
    let list = raw.get_as(PODS, metadata).await.expect(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][1]["kind"], "PartialObjectMetadata");
    assert!(list["items"][1].get("spec").is_none());
    // Recorded on 1.36.2: a list of metadata without items has `null` there.
    assert_eq!(raw.get_as("/api/v1/nodes", metadata).await.expect(200)["items"], Value::Null);
    let one = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    let object = raw.get_as(&format!("{PODS}/pod-000"), one).await.expect(200);
    assert_eq!((object["kind"].as_str(), object.get("spec")), (Some("PartialObjectMetadata"), None));
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let list = raw.get_as(&format!("{PODS}?limit=1"), table).await.expect(200);
    assert_eq!((list["kind"].as_str(), list["rows"].as_array().unwrap().len()), (Some("Table"), 1));
    assert_eq!(list["columnDefinitions"][0]["name"], "Name");
    assert_eq!(list["rows"][0]["cells"][0], "pod-000");
    assert_eq!(list["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert!(list["metadata"]["continue"].is_string());
    let whole = raw.get_as(&format!("{PODS}/pod-000?includeObject=Object"), table).await.expect(200);
    assert_eq!(whole["rows"][0]["object"]["kind"], "Pod");
    raw.get_as(PODS, "text/yaml").await.refused(406, "NotAcceptable");
    raw.get_as(PODS, "text/yaml,application/json").await.expect(200);
}
