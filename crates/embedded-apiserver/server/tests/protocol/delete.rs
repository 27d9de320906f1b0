//! Tests deletion: at once or with a grace period or finalizer, and the responses.

use serde_json::{Value, json};

use crate::protocol::common::*;

const NOW: Value = Value::Null;

#[tokio::test(start_paused = true)]
async fn an_object_is_removed_with_its_last_finalizer() {
    let (server, raw) = started();
    let mut object = service("web");
    object["metadata"]["finalizers"] = json!(["example.com/one", "example.com/two"]);
    raw.post(SERVICES, &object).await.expect(201);
    let uri = format!("{SERVICES}/web");
    let marked = raw.delete(&uri, &NOW).await.expect(200);
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    let version = server.resource_version();
    assert_eq!(raw.delete(&uri, &NOW).await.expect(200), marked);
    assert_eq!(server.resource_version(), version);
    let finalizers = |list: Value| json!({"metadata": {"finalizers": list}});
    let message = raw.merge(&uri, &finalizers(json!(["example.com/three"]))).await.refused(422, "Invalid");
    assert!(message.contains("finalizers"), "{message}");
    raw.merge(&uri, &finalizers(json!(["example.com/two"]))).await.expect(200);
    assert_eq!(server.count("services"), 1);
    let last = raw.merge(&uri, &finalizers(Value::Null)).await.expect(200);
    assert_eq!(last["kind"], "Service");
    assert_eq!(server.count("services"), 0);
}

#[tokio::test(start_paused = true)]
async fn deleting_a_service_deletes_its_endpoints() {
    let (server, raw) = started();
    let first = raw.post(SERVICES, &service("web")).await.expect(201);
    for name in ["web", "other"] {
        raw.post("/api/v1/namespaces/default/endpoints", &endpoints(name)).await.expect(201);
    }
    let deleted = raw.delete(&format!("{SERVICES}/web"), &NOW).await.expect(200);
    assert_eq!(deleted["kind"], "Service");
    let left: Vec<Value> = server.list("endpoints");
    assert_eq!((left.len(), left[0]["metadata"]["name"].as_str()), (1, Some("other")));
    let mut again = service("web");
    again["spec"]["clusterIP"] = first["spec"]["clusterIP"].clone();
    raw.post(SERVICES, &again).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn a_running_pod_has_a_grace_period() {
    let (_server, raw) = started();
    let mut object = pod_on("a", "n");
    object["spec"]["terminationGracePeriodSeconds"] = 40.into();
    raw.post(PODS, &object).await.expect(201);
    let uri = format!("{PODS}/a");
    let marked = raw.delete(&uri, &NOW).await.expect(200);
    assert_eq!(marked["metadata"]["deletionTimestamp"], "2026-01-01T00:00:40Z");
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 40);
    assert_eq!(marked["metadata"]["generation"], 2);
    pass(5).await;
    let again = raw.delete(&uri, &NOW).await.expect(200);
    assert_eq!(again, marked, "a second deletion changes nothing");
    let longer = raw.delete(&uri, &json!({"gracePeriodSeconds": 90})).await.expect(200);
    assert_eq!(longer, marked, "grace only gets shorter");
    let shorter = raw.delete(&uri, &json!({"gracePeriodSeconds": 10})).await.expect(200);
    assert_eq!(shorter["metadata"]["deletionTimestamp"], "2026-01-01T00:00:10Z");
    assert_eq!(shorter["metadata"]["generation"], 2);
    pass(15).await;
    let late = raw.delete(&uri, &json!({"gracePeriodSeconds": 5})).await.expect(200);
    assert_eq!(late["metadata"]["deletionTimestamp"], "2026-01-01T00:00:20Z", "not into the past");
    assert_eq!(late["metadata"]["deletionGracePeriodSeconds"], 1);
    raw.get(&uri).await.expect(200);
    raw.delete(&format!("{uri}?gracePeriodSeconds=0"), &NOW).await.expect(200);
    raw.get(&uri).await.refused(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn pods_that_do_not_run_are_removed_at_once() {
    let (server, raw) = started();
    raw.post(PODS, &pod("unscheduled")).await.expect(201);
    raw.post(PODS, &pod_on("finished", "n")).await.expect(201);
    let status = json!({"status": {"phase": "Succeeded"}});
    raw.merge(&format!("{PODS}/finished/status"), &status).await.expect(200);
    let mut events = raw.watch(&format!("{PODS}?watch=1&resourceVersion=7")).await;
    for name in ["unscheduled", "finished"] {
        let gone = raw.delete(&format!("{PODS}/{name}"), &NOW).await.expect(200);
        assert_eq!(gone["metadata"]["deletionGracePeriodSeconds"], 0);
    }
    assert_eq!(server.count("pods"), 0);
    assert_eq!(
        events.take(4).await,
        ["MODIFIED unscheduled@8", "DELETED unscheduled@9", "MODIFIED finished@10", "DELETED finished@11",]
    );
}

#[tokio::test(start_paused = true)]
async fn a_pod_waits_for_its_grace_period_and_its_finalizers() {
    let (server, raw) = started();
    let mut object = pod_on("a", "n");
    object["metadata"]["finalizers"] = json!(["example.com/one"]);
    raw.post(PODS, &object).await.expect(201);
    let uri = format!("{PODS}/a");
    raw.delete(&uri, &NOW).await.expect(200);
    raw.merge(&uri, &json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert_eq!(server.count("pods"), 1, "its grace is not over");
    raw.delete(&uri, &json!({"gracePeriodSeconds": 0})).await.expect(200);
    assert_eq!(server.count("pods"), 0);
}

#[tokio::test(start_paused = true)]
async fn collections_are_deleted_by_selector() {
    let (server, raw) = started();
    for (name, node) in [("a", "n"), ("b", "n"), ("c", "m")] {
        raw.post(PODS, &pod_on(name, node)).await.expect(201);
    }
    let uri = format!("{PODS}?fieldSelector=spec.nodeName=n");
    let mut events = raw.watch(&format!("{PODS}?watch=1&resourceVersion=7")).await;
    let deleted = raw.delete(&uri, &json!({"gracePeriodSeconds": 0})).await.expect(200);
    assert_eq!((deleted["kind"].as_str(), names(&deleted)), (Some("PodList"), vec!["a", "b"]));
    assert_eq!(events.take(4).await, ["MODIFIED a@8", "DELETED a@9", "MODIFIED b@10", "DELETED b@11"]);
    assert_eq!(server.count("pods"), 1);
    raw.delete("/api/v1/pods", &NOW).await.refused(405, "MethodNotAllowed");
    raw.delete(&format!("{PODS}/c"), &json!({"propagationPolicy": "Odd"})).await.refused(422, "Invalid");
}

#[tokio::test(start_paused = true)]
async fn each_object_of_a_collection_is_one_deletion_to_watchers() {
    let (server, raw) = started();
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    for name in ["a", "b", "c"] {
        raw.post(slices, &slice(name)).await.expect(201);
    }
    let mut events = raw.watch(&format!("{slices}?watch=1&resourceVersion=7")).await;
    let deleted = raw.delete(slices, &NOW).await.expect(200);
    assert_eq!((deleted["kind"].as_str(), names(&deleted)), (Some("EndpointSliceList"), vec!["a", "b", "c"]));
    assert_eq!(events.take(3).await, ["DELETED a@8", "DELETED b@9", "DELETED c@10"]);
    assert!(events.is_idle());
    assert_eq!(server.count("endpointslices"), 0);
}
