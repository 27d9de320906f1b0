//! Tests the requests of a Go controller, as client-go 1.36 sends them: discovery, informers by
//! streamed and by paged lists, events of both groups, leases, reviews. kube-controller-manager
//! with `--kube-api-content-type=application/json` sends exactly these.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, User};
use serde_json::{Value, json};

use crate::protocol::common::*;

/// The `Accept` header of client-go with JSON.
const ACCEPT: &str = "application/json, */*";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";

/// Returns a request with all headers that client-go sends.
async fn ask(raw: &Raw, method: &str, uri: &str, content_type: &str, body: &Value) -> Reply {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let request = Request::builder()
        .method(method)
        .uri(uri)
        .header("accept", ACCEPT)
        .header("accept-encoding", "gzip")
        .header("content-type", content_type)
        .header("user-agent", "kube-controller-manager/v1.36.0 (linux/amd64) kubernetes/0000000")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    raw.call(request).await.unwrap()
}

async fn post(raw: &Raw, uri: &str, object: &Value) -> Reply {
    ask(raw, "POST", uri, "application/json", object).await
}

#[tokio::test(start_paused = true)]
async fn health_and_discovery() {
    let (_server, raw) = started();
    assert_eq!(&*raw.get_as("/healthz?timeout=32s", ACCEPT).await.text, b"ok");
    // A client takes the last of these if the server has no aggregated documents.
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                  application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    for (path, kind) in [("/api", "APIVersions"), ("/apis", "APIGroupList")] {
        assert_eq!(raw.get_as(path, accept).await.expect(200)["kind"], kind);
    }
    let groups = raw.get_as("/apis?timeout=32s", ACCEPT).await.expect(200);
    for group in groups["groups"].as_array().unwrap() {
        let version = group["preferredVersion"]["groupVersion"].as_str().unwrap();
        let list = raw.get_as(&format!("/apis/{version}?timeout=32s"), ACCEPT).await.expect(200);
        assert_eq!(
            (list["kind"].as_str(), list["groupVersion"].as_str()),
            (Some("APIResourceList"), Some(version))
        );
    }
    // Kinds that only a real server has.
    let uri = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    raw.get_as(uri, ACCEPT).await.refused(404, "NotFound");
}

/// Since 1.35 an informer's first list is a watch without resourceVersion; a bookmark marks its
/// end.
#[tokio::test(start_paused = true)]
async fn an_informer_streams_its_first_list() {
    let (server, raw) = started();
    raw.post(PODS, &pod("a")).await.expect(201);
    let mut watch = raw
        .watch_as(
            "/api/v1/pods?allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true\
             &timeout=5m52s&timeoutSeconds=352&watch=true",
            ACCEPT,
        )
        .await;
    assert_eq!(watch.short().await, "ADDED a@5");
    let mark = watch.next().await.unwrap();
    assert_eq!(
        (mark["type"].as_str(), mark["object"]["kind"].as_str(), mark["object"]["apiVersion"].as_str()),
        (Some("BOOKMARK"), Some("Pod"), Some("v1"))
    );
    assert_eq!(mark["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert_eq!(mark["object"]["metadata"]["resourceVersion"], "5");
    // It stays open and sends later changes.
    raw.post(PODS, &pod("b")).await.expect(201);
    assert_eq!(watch.short().await, "ADDED b@6");
    server.close_watches();
    assert_eq!(watch.short().await, "(end)");
    // After the end of the watch the informer resumes from its version, without initial events.
    raw.delete(&format!("{PODS}/b"), &Value::Null).await.expect(200);
    let uri =
        "/api/v1/pods?allowWatchBookmarks=true&resourceVersion=6&timeout=7m12s&timeoutSeconds=432&watch=true";
    assert_eq!(raw.watch_as(uri, ACCEPT).await.take(2).await, ["MODIFIED b@7", "DELETED b@8"]);
}

#[tokio::test(start_paused = true)]
async fn an_informer_without_streamed_lists_pages_them() {
    let (server, raw) = started();
    for name in ["a", "b", "c"] {
        raw.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &slice(name))
            .await
            .expect(201);
    }
    // This list comes from the cache, which ignores the limit.
    let list = ask(&raw, "GET", &format!("{SLICES}?limit=500&resourceVersion=0"), "", &Value::Null)
        .await
        .expect(200);
    assert_eq!((list["kind"].as_str(), names(&list).len()), (Some("EndpointSliceList"), 3));
    let list =
        ask(&raw, "GET", &format!("{SLICES}?limit=2&resourceVersion=0"), "", &Value::Null).await.expect(200);
    assert_eq!(names(&list).len(), 3);
    assert!(list["metadata"].get("continue").is_none());
    // After a 410 the informer lists the latest state, in pages.
    let mut seen = Vec::new();
    let mut uri = format!("{SLICES}?limit=2");
    loop {
        let page = ask(&raw, "GET", &uri, "", &Value::Null).await.expect(200);
        seen.extend(names(&page).into_iter().map(str::to_owned));
        match page["metadata"]["continue"].as_str() {
            Some(token) => uri = format!("{SLICES}?continue={token}&limit=2"),
            None => break,
        }
    }
    assert_eq!(seen, ["a", "b", "c"]);
    // A watch from an expired version gets status 200 and an ERROR event.
    server.compact();
    let mut watch = raw
        .watch_as(&format!("{SLICES}?allowWatchBookmarks=true&resourceVersion=4&watch=true"), ACCEPT)
        .await;
    let error = watch.next().await.unwrap();
    let status = &error["object"];
    assert_eq!(
        (error["type"].as_str(), status["code"].as_u64(), status["reason"].as_str()),
        (Some("ERROR"), Some(410), Some("Expired"))
    );
    assert_eq!(watch.short().await, "(end)");
}

#[tokio::test(start_paused = true)]
async fn a_version_that_does_not_exist_yet_is_retried() {
    let (server, raw) = started();
    let reply = raw.get_as("/api/v1/pods?resourceVersion=99&resourceVersionMatch=NotOlderThan", ACCEPT).await;
    assert!(reply.refused(504, "Timeout").contains("Too large resource version"));
    assert_eq!(reply.json()["details"]["causes"][0]["reason"], "ResourceVersionTooLarge");
    server.add_fault(FaultRule::on(Fault::Refuse { status: 429, retry_after: Some(1) }, "list", "pods"));
    assert_eq!(raw.get_as("/api/v1/pods", ACCEPT).await.headers["retry-after"], "1");
}

/// The recorder of `k8s.io/client-go/tools/record` creates one event, and counts it up by patches.
#[tokio::test(start_paused = true)]
async fn events_of_the_core_group_are_counted() {
    let (_server, raw) = started();
    let events = "/api/v1/namespaces/default/events";
    let event = json!({
        "kind": "Event", "apiVersion": "v1",
        "metadata": {"name": "web.17", "namespace": "default", "creationTimestamp": null},
        "involvedObject": {"kind": "Service", "namespace": "default", "name": "web", "apiVersion": "v1"},
        "reason": "FailedToUpdateEndpoint", "message": "m", "source": {"component": "endpoint-controller"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1,
        "type": "Warning", "eventTime": null, "reportingComponent": "endpoint-controller", "reportingInstance": "",
    });
    post(&raw, events, &event).await.expect(201);
    let patch = json!({"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z"});
    let patched = ask(&raw, "PATCH", &format!("{events}/web.17"), STRATEGIC, &patch).await.expect(200);
    assert_eq!(
        (patched["count"].as_u64(), patched["reason"].as_str()),
        (Some(2), Some("FailedToUpdateEndpoint"))
    );
    // The recorder creates the event again if somebody has deleted it.
    raw.delete(&format!("{events}/web.17"), &Value::Null).await.expect(200);
    ask(&raw, "PATCH", &format!("{events}/web.17"), STRATEGIC, &patch).await.refused(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn a_leader_is_elected() {
    let (_server, raw) = started();
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
    let uri = format!("{leases}/kube-controller-manager");
    ask(&raw, "GET", &format!("{uri}?timeout=5s"), "", &Value::Null).await.refused(404, "NotFound");
    let mut lease = json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": "kube-controller-manager", "namespace": "kube-system"},
        "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15, "acquireTime": "2026-01-01T00:00:00.000000Z",
            "renewTime": "2026-01-01T00:00:00.000000Z", "leaseTransitions": 0},
    });
    let held = post(&raw, leases, &lease).await.expect(201);
    post(&raw, leases, &lease).await.refused(409, "AlreadyExists");
    let mut renewed = held.clone();
    renewed["spec"]["renewTime"] = "2026-01-01T00:00:02.000000Z".into();
    let renewed = ask(&raw, "PUT", &uri, "application/json", &renewed).await.expect(200);
    assert!(version_of(&renewed) > version_of(&held));
    // A candidate with an older version gets a conflict; one without a version gets an error.
    let mut stolen = held;
    stolen["spec"]["holderIdentity"] = "two".into();
    ask(&raw, "PUT", &uri, "application/json", &stolen).await.refused(409, "Conflict");
    lease["spec"]["holderIdentity"] = "two".into();
    ask(&raw, "PUT", &uri, "application/json", &lease).await.refused(422, "Invalid");
}

#[tokio::test(start_paused = true)]
async fn reviews_authorize_metrics() {
    let user = User { name: "prometheus".to_owned(), groups: vec!["system:authenticated".to_owned()] };
    let (_server, raw) = start(EmbeddedApiServer::builder().token("t", user));
    let review = json!({
        "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {"creationTimestamp": null},
        "spec": {"token": "t"}, "status": {"user": {}},
    });
    let reviewed = post(&raw, "/apis/authentication.k8s.io/v1/tokenreviews", &review).await.expect(201);
    assert_eq!(reviewed["status"]["user"]["username"], "prometheus");
    let review = json!({
        "kind": "SubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "metadata": {"creationTimestamp": null},
        "spec": {"nonResourceAttributes": {"path": "/metrics", "verb": "get"}, "user": "prometheus"},
        "status": {"allowed": false},
    });
    let reviewed =
        post(&raw, "/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await.expect(201);
    assert_eq!(reviewed["status"]["allowed"], false);
}

/// The three controllers write EndpointSlices and Endpoints with the nulls that Go encodes.
#[tokio::test(start_paused = true)]
async fn nulls_that_go_encodes_are_accepted() {
    let (_server, raw) = started();
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "addressType": "IPv4",
        "metadata": {"generateName": "web-", "namespace": "default", "creationTimestamp": null,
            "labels": {"kubernetes.io/service-name": "web"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "u", "controller": true,
                "blockOwnerDeletion": true}]},
        "endpoints": null, "ports": null,
    });
    let made = post(&raw, slices, &slice).await.expect(201);
    assert_eq!((&made["endpoints"], &made["ports"]), (&Value::Null, &Value::Null));
    let name = made["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("web-") && name.len() == 9, "{name}");
    let uri = format!("{slices}/{name}");
    let again = ask(&raw, "PUT", &uri, "application/json", &made).await.expect(200);
    assert_eq!(again, made);
    let endpoints = json!({
        "kind": "Endpoints", "apiVersion": "v1", "metadata": {"name": "web", "creationTimestamp": null}, "subsets": null,
    });
    let uri = "/api/v1/namespaces/default/endpoints";
    let reply = post(&raw, uri, &endpoints).await;
    assert!(reply.headers["warning"].to_str().unwrap().contains("v1 Endpoints is deprecated in v1.33+"));
    reply.expect(201);
}
