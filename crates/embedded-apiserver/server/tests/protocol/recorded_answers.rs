//! Compares with recorded answers of a kube-apiserver 1.36.2, for requests that a server could
//! easily answer otherwise.

use http::Request;
use http_body_util::Full;
use serde_json::{Value, json};

use crate::protocol::common::*;

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const EVENTS: &str = "/api/v1/namespaces/default/events";
const DEPRECATED: &str =
    r#"299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice""#;

fn warnings(reply: &Reply) -> Vec<&str> {
    reply.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect()
}

fn lease(version: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "l", "resourceVersion": version}})
}

#[tokio::test(start_paused = true)]
async fn put_of_an_absent_object_with_a_resource_version_creates_it() {
    let (server, raw) = started();
    let mut absent = [endpoints("b"), lease("5"), service("b")];
    for (object, uri) in absent.iter_mut().zip([ENDPOINTS, LEASES, SERVICES]) {
        object["metadata"]["resourceVersion"] = "5".into();
        let uri = format!("{uri}/{}", object["metadata"]["name"].as_str().unwrap());
        let created = raw.put(&uri, object).await.expect(201);
        assert_eq!(version_of(&created), server.resource_version());
        object["metadata"]["uid"] = "other".into();
        raw.delete(&uri, &Value::Null).await.expect(200);
        raw.put(&uri, object).await.refused(409, "Conflict");
    }
}

#[tokio::test(start_paused = true)]
async fn the_body_of_a_deletion_replaces_its_query() {
    let (server, raw) = started();
    raw.post(ENDPOINTS, &endpoints("a")).await.expect(201);
    raw.delete(&format!("{ENDPOINTS}/a?dryRun=All"), &Value::Null).await.expect(200);
    assert_eq!(server.count("endpoints"), 1);
    raw.delete(&format!("{ENDPOINTS}/a?dryRun=All&propagationPolicy=Orphan"), &json!({})).await.expect(200);
    assert_eq!(server.count("endpoints"), 0);
}

#[tokio::test(start_paused = true)]
async fn invalid_options_of_a_deletion_are_rejected() {
    let (server, raw) = started();
    raw.post(ENDPOINTS, &endpoints("a")).await.expect(201);
    let check = async |query: &str, body: Value, code: u16, message: &str| {
        let reply = raw.delete(&format!("{ENDPOINTS}/a{query}"), &body).await;
        let reason = if code == 422 { "Invalid" } else { "BadRequest" };
        assert_eq!(reply.refused(code, reason), message);
    };
    let invalid = |why: &str| format!("DeleteOptions.meta.k8s.io \"\" is invalid: {why}");
    let dry_run =
        |value: &str| invalid(&format!("dryRun: Unsupported value: [{value:?}]: supported values: \"All\""));
    check("?dryRun=All", json!({"dryRun": ["x"]}), 422, &dry_run("x")).await;
    check("?dryRun=x", Value::Null, 422, &dry_run("x")).await;
    check("", json!({"dryRun": [null]}), 422, &dry_run("")).await;
    check("?dryRun=", Value::Null, 422, &dry_run("")).await;
    let both = "propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set";
    check("", json!({"orphanDependents": true, "propagationPolicy": "Orphan"}), 422, &invalid(both)).await;
    let policy = "propagationPolicy: Unsupported value: \"x\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
    check("", json!({"propagationPolicy": "x"}), 422, &invalid(policy)).await;
    let kind = "no kind \"Pod\" is registered for version \"v1\" in scheme \
                \"k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27\"";
    check("", json!({"kind": "Pod", "apiVersion": "v1"}), 400, kind).await;
    let grace =
        "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64";
    check("", json!({"gracePeriodSeconds": "x"}), 400, grace).await;
    let kind = "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field .kind of \
                type string";
    check("", json!({"kind": 5}), 400, kind).await;
    let version = kind.replace(".kind", ".apiVersion");
    check("", json!({"apiVersion": 5}), 400, &version).await;
    let field = |found: &str, of: &str| format!("json: cannot unmarshal {found} into Go struct field {of}");
    let of = "DeleteOptions.dryRun of type string";
    check("", json!({"dryRun": [5]}), 400, &field("number", of)).await;
    let of = "Preconditions.preconditions.uid of type types.UID";
    check("", json!({"preconditions": {"uid": 5}}), 400, &field("number", of)).await;
    let of = "Preconditions.preconditions.resourceVersion of type string";
    check("", json!({"preconditions": {"resourceVersion": 5}}), 400, &field("number", of)).await;
    for (body, found) in [(json!([]), "array"), (json!("x"), "string"), (json!(5), "number")] {
        let of = r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
        let why = format!("json: cannot unmarshal {found} into Go value of type {of}");
        check("", body, 400, &format!("couldn't get version/kind; json parse error: {why}")).await;
    }
    check("?gracePeriodSeconds=x", Value::Null, 400, "strconv.ParseInt: parsing \"x\": invalid syntax").await;
    assert_eq!(server.count("endpoints"), 1);
}

#[tokio::test(start_paused = true)]
async fn orphan_dependents_in_the_query_adds_the_finalizer() {
    let (_server, raw) = started();
    raw.post(SERVICES, &service("a")).await.expect(201);
    let marked = raw.delete(&format!("{SERVICES}/a?orphanDependents=true"), &Value::Null).await.expect(200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]));
}

#[tokio::test(start_paused = true)]
async fn events_are_deleted_at_once_whatever_the_policy() {
    let (server, raw) = started();
    for policy in ["Foreground", "Orphan", "Background"] {
        let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "reason": "R",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}});
        raw.post(EVENTS, &event).await.expect(201);
        raw.delete(&format!("{EVENTS}/e"), &json!({"propagationPolicy": policy})).await.expect(200);
        assert_eq!(server.count("events"), 0, "{policy}");
    }
}

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
            "/apis/events.k8s.io/v1/events",
            r#"{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{"resourceVersion":"4"},"eventTime":null,"regarding":{},"deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null}"#,
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
async fn finalizers_without_a_domain_are_rejected_except_of_leases() {
    let (_server, raw) = started();
    let why = "name is neither a standard finalizer name nor is it fully qualified";
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"}});
    for (uri, mut object) in [
        (ENDPOINTS, endpoints("a")),
        (PODS, pod("a")),
        (SERVICES, service("a")),
        (slices, slice("a")),
        (EVENTS, event),
        ("/api/v1/nodes", json!({"metadata": {"name": "a"}})),
        ("/api/v1/namespaces", json!({"metadata": {"name": "a"}})),
    ] {
        object["metadata"]["finalizers"] = json!(["x"]);
        let message = raw.post(uri, &object).await.refused(422, "Invalid");
        assert!(
            message.ends_with(&format!("metadata.finalizers[0]: Invalid value: \"x\": {why}")),
            "{message}"
        );
        object["metadata"]["finalizers"] = json!(["example.com/x", "orphan"]);
        raw.post(uri, &object).await.expect(201);
    }
    let mut object = lease("");
    object["metadata"]["finalizers"] = json!(["x"]);
    raw.post(LEASES, &object).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn duplicate_owner_references_are_dropped_with_a_warning() {
    let (_server, raw) = started();
    let owner = json!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"});
    let mut object = slice("c");
    object["metadata"]["ownerReferences"] = json!([owner, owner]);
    let reply = raw.post("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", &object).await;
    assert_eq!(reply.expect(201)["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!(
        warnings(&reply),
        [
            "299 - \".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and \
          may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: 1\""
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_not_replaced_without_its_resource_version() {
    let (_server, raw) = started();
    raw.post(LEASES, &lease("")).await.expect(201);
    for version in ["0", ""] {
        let message = raw.put(&format!("{LEASES}/l"), &lease(version)).await.refused(422, "Invalid");
        assert!(message.contains("metadata.resourceVersion: Invalid value: "), "{message}");
        assert!(message.ends_with("must be specified for an update"), "{message}");
    }
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

#[tokio::test(start_paused = true)]
async fn unknown_fields_are_warned_of_in_reviews_and_refused_objects() {
    let (_server, raw) = started();
    let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "foo": 1, "spec": {"token": "x"}});
    let reply = raw.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await;
    reply.expect(201);
    assert_eq!(warnings(&reply), [r#"299 - "unknown field \"foo\"""#]);
    let mut invalid = endpoints("B_");
    invalid["foo"] = 1.into();
    let reply = raw.post(ENDPOINTS, &invalid).await;
    reply.refused(422, "Invalid");
    assert_eq!(warnings(&reply), [DEPRECATED, r#"299 - "unknown field \"foo\"""#]);
}

#[tokio::test(start_paused = true)]
async fn the_deprecation_warning_is_on_errors_too() {
    let (_server, raw) = started();
    raw.post(ENDPOINTS, &endpoints("a")).await.expect(201);
    let replies = [
        raw.get(&format!("{ENDPOINTS}/nope")).await,
        raw.post(ENDPOINTS, &endpoints("a")).await,
        raw.post(ENDPOINTS, &endpoints("")).await,
    ];
    assert_eq!(replies.each_ref().map(|reply| reply.status.as_u16()), [404, 409, 422]);
    assert!(replies.iter().all(|reply| warnings(reply) == [DEPRECATED]));
}

#[tokio::test(start_paused = true)]
async fn a_patch_whose_result_cannot_be_decoded_is_422() {
    let (_server, raw) = started();
    raw.post(ENDPOINTS, &endpoints("b")).await.expect(201);
    let patch = json!([{"op": "replace", "path": "/metadata/labels", "value": 5}]).to_string();
    let reply = raw.send("PATCH", &format!("{ENDPOINTS}/b"), "application/json-patch+json", patch).await;
    let message = reply.refused(422, "Invalid");
    assert!(
        message.starts_with(" \"\" is invalid: patch: Invalid value: \"{\\\"apiVersion\\\":\\\"v1\\\""),
        "{message}"
    );
    let why = "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type map[string]string";
    assert!(message.ends_with(why), "{message}");
    assert_eq!(reply.json()["details"]["causes"][0]["field"], "patch");
    let patch = json!({"subsets": 5});
    raw.merge(&format!("{ENDPOINTS}/b"), &patch).await.refused(422, "Invalid");
}

#[tokio::test(start_paused = true)]
async fn the_namespace_of_a_cluster_scoped_object_is_dropped() {
    let (_server, raw) = started();
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "namespace": "x"}});
    let patch = json!({"metadata": {"namespace": "x"}});
    let written = [
        raw.post("/api/v1/nodes", &node).await.expect(201),
        raw.put("/api/v1/nodes/n", &node).await.expect(200),
        raw.merge("/api/v1/nodes/n", &patch).await.expect(200),
    ];
    assert!(written.iter().all(|node| node["metadata"].get("namespace").is_none()), "{written:?}");
}

#[tokio::test(start_paused = true)]
async fn head_is_not_allowed_on_resources() {
    let (_server, raw) = started();
    raw.post(PODS, &pod("a")).await.expect(201);
    for uri in [PODS.to_owned(), format!("{PODS}/a")] {
        let reply = raw.call(Request::head(uri).body(Full::default()).unwrap()).await.unwrap();
        assert_eq!(reply.status.as_u16(), 405);
    }
}
