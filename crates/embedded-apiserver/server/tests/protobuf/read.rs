//! Tests objects, lists and watches in protobuf.

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::{Value, json};

use crate::protobuf::common::*;

/// Returns enough pods for several chunks of a list.
fn many_pods() -> Value {
    let pods: Vec<Value> = (0..600)
        .map(|i| {
            let mut pod = pod(&format!("pod-{i:03}"));
            pod["metadata"]["namespace"] = "default".into();
            pod["metadata"]["annotations"] = json!({"text": "x".repeat(i)});
            pod
        })
        .collect();
    json!({"apiVersion": "v1", "kind": "List", "items": pods})
}

#[tokio::test(start_paused = true)]
async fn a_long_list_is_served_in_chunks() {
    let (server, client) = start(EmbeddedApiServer::builder().load([many_pods()]));
    let whole = client.get("/api/v1/pods", PROTOBUF).await;
    assert!(whole.body.len() > 200_000);
    let whole = whole.object(200, "v1", "PodList");
    assert_eq!(whole.text(&[1, 2]), server.resource_version().to_string());
    let items = whole.all(2);
    assert_eq!(items.len(), 600);
    for (number, item) in items.iter().enumerate() {
        assert_eq!(item.name(), format!("pod-{number:03}"));
        assert_eq!(item.text(&[1, 12, 2]).len(), number);
    }
    let page = client.get("/api/v1/pods?limit=2", PROTOBUF).await.object(200, "v1", "PodList");
    assert_eq!(page.all(2), items[..2]);
    assert_eq!(page.number(&[1, 4]), 598);
    let next = format!("/api/v1/pods?limit=2&continue={}", page.text(&[1, 3]));
    assert_eq!(client.get(&next, PROTOBUF).await.object(200, "v1", "PodList").all(2), items[2..4]);
    let none = client.get("/api/v1/pods?labelSelector=no", PROTOBUF).await.object(200, "v1", "PodList");
    assert_eq!(none.all(2), []);
}

#[tokio::test(start_paused = true)]
async fn a_watch_sends_events_of_every_type() {
    let (_server, client) = start(EmbeddedApiServer::builder());
    client.create(PODS, &pod("a")).await;
    let uri = format!("{PODS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan");
    let mut events = Events::open(&client, &format!("{uri}&allowWatchBookmarks=true"), PROTOBUF).await;
    let (event, object) = events.next().await.unwrap();
    let got = client.get(&format!("{PODS}/a"), PROTOBUF).await;
    assert_eq!((event.as_str(), &object), ("ADDED", &got.body));
    let (event, object) = events.next().await.unwrap();
    let bookmark = envelope(&object, "v1", "Pod");
    assert_eq!(event, "BOOKMARK");
    assert_eq!(bookmark.text(&[1, 12, 1]), "k8s.io/initial-events-end");
    assert_eq!((bookmark.name(), bookmark.text(&[1, 8])), (String::new(), String::new()));
    // A bookmark's object has all fields that are not pointers: metadata, spec and status.
    assert_eq!(bookmark.0.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3]);
    let version = envelope(&object, "v1", "Pod").version();
    let patch = json!({"status": {"phase": "Running"}}).to_string();
    let patch_type = "application/merge-patch+json";
    let patched = client.send("PATCH", &format!("{PODS}/a/status"), (patch_type, PROTOBUF), patch).await;
    let (event, object) = events.next().await.unwrap();
    assert_eq!((event.as_str(), &object), ("MODIFIED", &patched.body));
    assert_eq!(envelope(&object, "v1", "Pod").text(&[3, 1]), "Running");
    let deleted =
        client.send("DELETE", &format!("{PODS}/a?gracePeriodSeconds=0"), (JSON, PROTOBUF), "").await;
    deleted.object(200, "v1", "Pod");
    let mut last = events.next().await.unwrap();
    while last.0 == "MODIFIED" {
        last = events.next().await.unwrap();
    }
    assert_eq!(last.0, "DELETED");
    assert!(envelope(&last.1, "v1", "Pod").version() > version);
}

#[tokio::test(start_paused = true)]
async fn a_watch_from_a_compacted_version_gets_an_error_event() {
    let (server, client) = start(EmbeddedApiServer::builder());
    client.create(PODS, &pod("a")).await;
    client.create(PODS, &pod("b")).await;
    server.compact();
    let mut events = Events::open(&client, &format!("{PODS}?watch=1&resourceVersion=1"), PROTOBUF).await;
    let (event, object) = events.next().await.unwrap();
    let status = envelope(&object, "v1", "Status");
    assert_eq!(
        (event.as_str(), status.number(&[6]), status.text(&[4])),
        ("ERROR", 410, "Expired".to_owned())
    );
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn events_are_served() {
    let (_server, client) = start(EmbeddedApiServer::builder());
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "type": "Warning", "reason": "Failed",
        "message": "it did not work", "count": 3, "source": {"component": "tester"},
        "involvedObject": {"kind": "Service", "name": "web", "namespace": "default", "apiVersion": "v1"},
    });
    client.create("/api/v1/namespaces/default/events", &event).await;
    let core = client.get("/api/v1/namespaces/default/events/e", PROTOBUF).await.object(200, "v1", "Event");
    assert_eq!(
        (core.text(&[2, 3]), core.text(&[4]), core.number(&[8])),
        ("web".into(), "it did not work".into(), 3)
    );
}

#[tokio::test(start_paused = true)]
async fn discovery_is_served_in_json() {
    let (_server, client) = start(EmbeddedApiServer::builder());
    for uri in ["/api", "/apis", "/api/v1", "/version"] {
        let reply = client.get(uri, &format!("{PROTOBUF},{JSON}")).await;
        assert_eq!((reply.status, reply.content_type()), (200, JSON), "{uri}");
    }
}
