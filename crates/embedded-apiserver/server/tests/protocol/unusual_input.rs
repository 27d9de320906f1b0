//! Tests parameters, paths and bodies that no usual client sends, with the answers of a
//! kube-apiserver 1.36.2.

use serde_json::{Value, json};

use crate::protocol::common::*;

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";

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
async fn a_health_check_may_be_a_post() {
    let (_server, raw) = started();
    assert_eq!(raw.post("/healthz", &json!({})).await.text, "ok");
}
