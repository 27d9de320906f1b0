//! Compares with recorded answers of a kube-apiserver 1.36.2, where requests alone
//! do not show them: bookmarks, pages, conditions. `integration-tests/differential` has many more.

use serde_json::{Value, json};

use crate::protocol::common::*;

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
#[tokio::test(start_paused = true)]
async fn a_short_watch_gets_a_bookmark_two_seconds_before_its_end() {
    let (server, raw) = started();
    let from = server.resource_version();
    let mut events = raw
        .watch(&format!("{PODS}?watch=1&resourceVersion={from}&allowWatchBookmarks=true&timeoutSeconds=4"))
        .await;
    let start = tokio::time::Instant::now();
    assert_eq!(events.short().await, format!("BOOKMARK @{from}"));
    assert_eq!(start.elapsed().as_secs(), 2);
    assert_eq!(events.short().await, "(end)");
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_has_a_zero_valued_object() {
    let (_server, raw) = started();
    let expected = [
        (
            "/api/v1/pods",
            r#"{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"4"},"spec":{"containers":null},"status":{}}"#,
        ),
        ("/api/v1/endpoints", r#"{"kind":"Endpoints","apiVersion":"v1","metadata":{"resourceVersion":"4"}}"#),
        (
            "/api/v1/services",
            r#"{"kind":"Service","apiVersion":"v1","metadata":{"resourceVersion":"4"},"spec":{},"status":{"loadBalancer":{}}}"#,
        ),
        (
            "/apis/discovery.k8s.io/v1/endpointslices",
            r#"{"kind":"EndpointSlice","apiVersion":"discovery.k8s.io/v1","metadata":{"resourceVersion":"4"},"addressType":"","endpoints":null,"ports":null}"#,
        ),
        (
            "/api/v1/events",
            r#"{"kind":"Event","apiVersion":"v1","metadata":{"resourceVersion":"4"},"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":""}"#,
        ),
        (
            "/apis/coordination.k8s.io/v1/leases",
            r#"{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","metadata":{"resourceVersion":"4"},"spec":{}}"#,
        ),
    ];
    for (path, object) in expected {
        let uri = format!("{path}?watch=1&resourceVersion=4&allowWatchBookmarks=true&timeoutSeconds=4");
        let bookmark = raw.watch(&uri).await.next().await.unwrap();
        assert_eq!(bookmark["object"], serde_json::from_str::<Value>(object).unwrap(), "{path}");
        let table =
            raw.watch_as(&uri, "application/json;as=Table;v=v1;g=meta.k8s.io").await.next().await.unwrap();
        assert_eq!(
            (&table["type"], &table["object"]["kind"]),
            (&json!("BOOKMARK"), &json!("Table")),
            "{path}"
        );
        let row = &table["object"]["rows"][0];
        assert_eq!(row["object"]["metadata"]["resourceVersion"], "4");
        assert_eq!(
            table["object"]["columnDefinitions"].as_array().unwrap().len(),
            row["cells"].as_array().unwrap().len()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_collection_is_deleted_in_pages() {
    let (server, raw) = started();
    for name in ["a", "b", "c"] {
        raw.post(ENDPOINTS, &endpoints(name)).await.expect(201);
    }
    let first = raw.delete(&format!("{ENDPOINTS}?limit=2"), &Value::Null).await.expect(200);
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a", "b"], &json!(1)));
    assert_eq!(server.count("endpoints"), 1);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = raw.delete(&format!("{ENDPOINTS}?limit=2&continue={token}"), &Value::Null).await.expect(200);
    assert_eq!((names(&rest), rest["metadata"].get("continue")), (vec!["c"], None));
    assert_eq!(server.count("endpoints"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_terminating_namespace_has_conditions() {
    let (server, raw) = started();
    raw.post("/api/v1/namespaces", &json!({"metadata": {"name": "t"}})).await.expect(201);
    let mut watch = raw.watch("/api/v1/namespaces?watch=1&fieldSelector=metadata.name=t").await;
    let mut held = slice("held");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    let slices = "/apis/discovery.k8s.io/v1/namespaces/t/endpointslices";
    raw.post(slices, &held).await.expect(201);
    raw.delete("/api/v1/namespaces/t", &Value::Null).await.expect(200);
    pass(1).await;
    let message = |index: usize| {
        let namespace = server.get("namespaces", "", "t").unwrap();
        let condition = &namespace["status"]["conditions"][index];
        assert_eq!(condition["status"], "True");
        condition["message"].as_str().unwrap().to_owned()
    };
    let remaining = "Some resources are remaining: endpointslices.discovery.k8s.io has 1 resource instances";
    assert_eq!(message(3), remaining);
    let finalizers =
        "Some content in the namespace has finalizers remaining: example.com/held in 1 resource instances";
    assert_eq!(message(4), finalizers);
    raw.merge(&format!("{slices}/held"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    pass(1).await;
    let mut events = Vec::new();
    for _ in 0..5 {
        events.push(watch.next().await.unwrap());
    }
    let kinds: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]);
    let conditions = events[3]["object"]["status"]["conditions"].as_array().unwrap();
    let seen: Vec<_> =
        conditions.iter().map(|c| (c["type"].as_str().unwrap(), c["reason"].as_str().unwrap())).collect();
    assert_eq!(
        seen,
        [
            ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered"),
            ("NamespaceDeletionGroupVersionParsingFailure", "ParsedGroupVersions"),
            ("NamespaceDeletionContentFailure", "ContentDeleted"),
            ("NamespaceContentRemaining", "ContentRemoved"),
            ("NamespaceFinalizersRemaining", "ContentHasNoFinalizers"),
        ]
    );
    assert!(conditions.iter().all(|condition| condition["status"] == "False"));
}

#[tokio::test(start_paused = true)]
async fn foreign_conditions_of_a_terminating_namespace_are_kept() {
    let (server, raw) = started();
    let foreign = json!({"type": "Foreign", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    raw.post("/api/v1/namespaces", &json!({"metadata": {"name": "t", "finalizers": ["example.com/held"]}}))
        .await
        .expect(201);
    raw.merge("/api/v1/namespaces/t/status", &json!({"status": {"conditions": [foreign]}})).await.expect(200);
    raw.delete("/api/v1/namespaces/t", &Value::Null).await.expect(200);
    pass(1).await;
    let namespace = server.get("namespaces", "", "t").unwrap();
    let conditions = namespace["status"]["conditions"].as_array().unwrap();
    assert_eq!((conditions.len(), &conditions[0]), (6, &foreign));
}
