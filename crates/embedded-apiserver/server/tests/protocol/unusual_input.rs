//! Tests parameters, paths and bodies that no usual client sends, with the answers of a
//! kube-apiserver 1.36.2.

use serde_json::{Value, json};

use crate::protocol::common::*;

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";

#[tokio::test(start_paused = true)]
async fn invalid_resource_versions_depend_on_the_verb() {
    let (_server, raw) = started();
    let why = "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax";
    let list = raw.get(&format!("{PODS}?resourceVersion=abc")).await.refused(400, "BadRequest");
    assert_eq!(list, format!("invalid resource version: {why}"));
    assert_eq!(raw.get(&format!("{PODS}?watch=1&resourceVersion=abc")).await.refused(500, ""), why);
    raw.post(&format!("{PODS}?resourceVersion=abc"), &pod("a")).await.expect(201);
    assert_eq!(names(&raw.get(&format!("{PODS}?resourceVersion=00")).await.expect(200)), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn unusual_options_are_answered_as_by_the_real_server() {
    let (_server, raw) = started();
    let limit = raw.get(&format!("{PODS}?limit=")).await.refused(400, "BadRequest");
    assert_eq!(limit, "strconv.ParseInt: parsing \"\": invalid syntax");
    let watch = raw.get(&format!("{PODS}?watch=1&continue=x")).await.refused(422, "Invalid");
    assert!(watch.ends_with("resourceVersionMatch is forbidden when continue is provided"), "{watch}");
    let dry_run = raw.post(&format!("{PODS}?dryRun="), &pod("a")).await.refused(422, "Invalid");
    assert!(dry_run.starts_with("CreateOptions.meta.k8s.io \"\" is invalid: dryRun: "), "{dry_run}");
    let manager = format!("{PODS}?fieldManager={}", "x".repeat(129));
    raw.post(&manager, &pod("a")).await.refused(422, "Invalid");
    let created = raw.post(PODS, &pod("a")).await.expect(201);
    raw.merge(&format!("{PODS}/a?force=true"), &json!({})).await.refused(422, "Invalid");
    let plain = raw.get(&format!("{PODS}/a?watch=true")).await.expect(200);
    assert_eq!(plain, created);
}

#[tokio::test(start_paused = true)]
async fn numbers_at_their_limits_are_harmless() {
    let (_server, raw) = started();
    let longest = i64::MAX;
    assert!(raw.watch(&format!("{PODS}?watch=1&timeoutSeconds={longest}")).await.is_idle());
    assert_eq!(names(&raw.get(&format!("{PODS}?limit={longest}")).await.expect(200)), [""; 0]);
    let mut object = endpoints("old");
    object["metadata"]["generation"] = longest.into();
    object["metadata"]["finalizers"] = json!(["example.com/held"]);
    raw.post(ENDPOINTS, &object).await.expect(201);
    let marked = raw.delete(&format!("{ENDPOINTS}/old"), &Value::Null).await.expect(200);
    assert_eq!(marked["metadata"]["generation"], i64::MIN, "it wraps around, as Go's numbers do");
    raw.post(PODS, &pod_on("p", "n")).await.expect(201);
    let grace = format!("{PODS}/p?gracePeriodSeconds={longest}");
    let marked = raw.delete(&grace, &Value::Null).await.expect(200);
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], longest);
}

#[tokio::test(start_paused = true)]
async fn an_empty_propagation_policy_is_none_that_is_known() {
    let (_server, raw) = started();
    raw.post(ENDPOINTS, &endpoints("a")).await.expect(201);
    let uri = format!("{ENDPOINTS}/a?propagationPolicy=");
    let message = raw.delete(&uri, &Value::Null).await.refused(422, "Invalid");
    assert!(message.contains("propagationPolicy: Unsupported value: \"\""), "{message}");
}

/// The result of a patch must nest no deeper than the server can parse: nobody could read or delete
/// it otherwise.
#[tokio::test(start_paused = true)]
async fn a_patch_cannot_nest_deeper_than_a_body() {
    let (_server, raw) = started();
    let mut object = endpoints("a");
    object["metadata"]["managedFields"] = json!([{"manager": "x", "operation": "Update", "apiVersion": "v1",
        "fieldsType": "FieldsV1", "fieldsV1": {}}]);
    raw.post(ENDPOINTS, &object).await.expect(201);
    let uri = format!("{ENDPOINTS}/a");
    let nested = async |depth: usize| {
        let value = format!("{}{}{}", r#"{"f":"#.repeat(depth - 1), "{}", "}".repeat(depth - 1));
        let path = "/metadata/managedFields/0/fieldsV1";
        let patch = format!(r#"[{{"op":"replace","path":"{path}","value":{value}}}]"#);
        raw.send("PATCH", &uri, "application/json-patch+json", patch).await
    };
    nested(123).await.expect(200);
    nested(124).await.refused(422, "Invalid");
    raw.merge(&uri, &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    raw.delete(&uri, &Value::Null).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn the_old_path_of_watches_is_for_reading_only() {
    let (server, raw) = started();
    raw.post(PODS, &pod("a")).await.expect(201);
    let uri = "/api/v1/watch/namespaces/default/pods/a";
    raw.delete(uri, &Value::Null).await.refused(405, "MethodNotAllowed");
    raw.merge(uri, &json!({"metadata": {"labels": null}})).await.refused(405, "MethodNotAllowed");
    assert_eq!(server.get("pods", "default", "a").unwrap()["metadata"]["labels"], json!({"app": "web"}));
}

#[tokio::test(start_paused = true)]
async fn watches_have_an_old_path_too() {
    let (_server, raw) = started();
    raw.post(PODS, &pod("a")).await.expect(201);
    raw.post(PODS, &pod("b")).await.expect(201);
    for (path, count) in [
        ("/api/v1/watch/pods", 2),
        ("/api/v1/watch/namespaces/default/pods", 2),
        ("/api/v1/watch/namespaces/default/pods/b", 1),
        ("/api/v1/watch/namespaces", 4),
    ] {
        let events = raw.watch(&format!("{path}?timeoutSeconds=1")).await;
        assert_eq!(drain(events).await.len(), count, "{path}");
    }
}

#[tokio::test(start_paused = true)]
async fn metadata_of_a_list_and_of_an_object_are_told_apart() {
    let (_server, raw) = started();
    raw.post(ENDPOINTS, &endpoints("b")).await.expect(201);
    let metadata = |list: &str| format!("application/json;as=PartialObjectMetadata{list};g=meta.k8s.io;v=v1");
    let one = format!("{ENDPOINTS}/b");
    assert_eq!(raw.get_as(&one, &metadata("")).await.expect(200)["kind"], "PartialObjectMetadata");
    assert_eq!(
        raw.get_as(ENDPOINTS, &metadata("List")).await.expect(200)["kind"],
        "PartialObjectMetadataList"
    );
    assert_eq!(
        raw.get_as(&one, &metadata("List")).await.refused(406, "NotAcceptable"),
        "you requested PartialObjectMetadataList, but the requested object is not a list (*core.Endpoints)"
    );
    assert_eq!(
        raw.get_as(ENDPOINTS, &metadata("")).await.refused(406, "NotAcceptable"),
        "you requested PartialObjectMetadata, but the requested object is a list (*core.EndpointsList)"
    );
}

#[tokio::test(start_paused = true)]
async fn unusual_bodies_are_answered_as_by_the_real_server() {
    let (_server, raw) = started();
    let null = raw.post(ENDPOINTS, &Value::Null).await.refused(422, "Invalid");
    assert_eq!(
        null,
        "Endpoints \"\" is invalid: metadata.name: Required value: name or generateName is required"
    );
    let kind = raw.post(ENDPOINTS, &json!({"kind": 5})).await.refused(400, "BadRequest");
    assert!(
        kind.contains("json: cannot unmarshal number into Go struct field .kind of type string"),
        "{kind}"
    );
    let mut object = endpoints("f");
    object["metadata"]["selfLink"] = "/x".into();
    assert!(raw.post(ENDPOINTS, &object).await.expect(201)["metadata"].get("selfLink").is_none());
    assert!(
        raw.put(&format!("{ENDPOINTS}/f"), &object).await.expect(200)["metadata"].get("selfLink").is_none()
    );
}

#[tokio::test(start_paused = true)]
async fn unknown_versions_and_empty_segments_of_a_path_are_not_found() {
    let (_server, raw) = started();
    for path in ["/apis/apps", "/apis/apps/v1", "//api/v1/pods", "/openapi/v3/apis/apps/v1", "/metrics"] {
        let reply = raw.get(path).await;
        assert_eq!((reply.status.as_u16(), &*reply.text), (404, &b"404 page not found\n"[..]), "{path}");
    }
    // If the group exists but not the resource, the response is a Status.
    for path in [
        "/api/v1/nope",
        "/api/v2",
        "/api/v2/pods",
        "/api//v1/pods",
        "/apis/discovery.k8s.io/v3/endpointslices",
        "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication",
        "/apis/discovery.k8s.io/v1/nope",
    ] {
        let reply = raw.get(path).await;
        assert_eq!(
            reply.refused(404, "NotFound"),
            "the server could not find the requested resource",
            "{path}"
        );
        assert_eq!(reply.json()["details"], json!({}), "{path}");
    }
    let message = raw.get(&format!("{PODS}/web/log")).await.refused(404, "NotFound");
    assert!(message.ends_with("this server has no pods/log"), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_health_check_may_be_a_post() {
    let (_server, raw) = started();
    assert_eq!(raw.post("/healthz", &json!({})).await.text, "ok");
}
