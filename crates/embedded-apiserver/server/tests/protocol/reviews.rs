//! Tests reviews of tokens and of rights, which the server answers from the builder's tables and
//! forgets.

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, PolicyRule, User};
use serde_json::json;

use crate::protocol::common::*;

#[tokio::test(start_paused = true)]
async fn reviews_are_answered_and_not_stored() {
    let list = |items: &[&str]| items.iter().map(|item| (*item).to_owned()).collect::<Vec<_>>();
    let user = User { name: "scraper".to_owned(), groups: list(&["monitoring"]) };
    let rule = PolicyRule {
        subjects: list(&["monitoring"]),
        verbs: list(&["get"]),
        non_resource_urls: list(&["/metrics"]),
        ..PolicyRule::default()
    };
    let (_server, raw) = start(EmbeddedApiServer::builder().token("secret", user).policy_rule(rule));
    let tokens = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = |token: &str| {
        json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
        })
    };
    let status = raw.post(tokens, &review("secret")).await.expect(201)["status"].take();
    assert_eq!(
        (status["authenticated"].as_bool(), status["user"]["username"].as_str()),
        (Some(true), Some("scraper"))
    );
    let status = raw.post(tokens, &review("wrong")).await.expect(201)["status"].take();
    assert!(status.get("authenticated").is_none() && status["error"].is_string());
    raw.post(tokens, &review("")).await.refused(400, "BadRequest");
    let access = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {"user": "scraper", "groups": ["monitoring"],
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"}},
    });
    let uri = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    assert_eq!(raw.post(uri, &access).await.expect(201)["status"]["allowed"], true);
    raw.get(uri).await.refused(405, "MethodNotAllowed");
    raw.post(uri, &json!({"spec": {"user": "scraper"}})).await.refused(422, "Invalid");

    // The server does not authorize its own requests, and says so to `kubectl auth can-i`.
    let uri = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let wanted = json!({"spec": {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}});
    assert_eq!(raw.post(uri, &wanted).await.expect(201)["status"]["allowed"], true);
    raw.post(uri, &json!({"spec": {}})).await.refused(422, "Invalid");
    let uri = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
    let rules = raw.post(uri, &json!({"spec": {"namespace": "default"}})).await.expect(201);
    assert_eq!(rules["status"]["resourceRules"][0]["verbs"], json!(["*"]));
    raw.post(uri, &json!({"spec": {}})).await.refused(400, "BadRequest");
}
