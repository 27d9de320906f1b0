//! Compares with recorded answers of a kube-apiserver 1.36.2: managedFields, reviews, discovery.
//! `integration-tests/differential` has many more.

use http::Request;
use http_body_util::Full;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, User};
use serde_json::json;

use crate::protocol::common::*;

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";

#[tokio::test(start_paused = true)]
async fn managed_fields_alone_move_the_version_and_are_kept_if_a_write_omits_them() {
    let (_server, raw) = started();
    let entry = json!({"manager": "x", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": {}}, "time": "2026-01-01T00:00:00Z"});
    let mut object = endpoints("b");
    object["metadata"]["managedFields"] = json!([entry]);
    let first = raw.post(ENDPOINTS, &object).await.expect(201);
    let uri = format!("{ENDPOINTS}/b");
    let same = raw.put(&uri, &endpoints("b")).await.expect(200);
    assert_eq!(same["metadata"], first["metadata"], "nothing changed, so the version has not moved");
    let empty = raw.merge(&uri, &json!({"metadata": {"managedFields": []}})).await.expect(200);
    assert_eq!(empty["metadata"], first["metadata"]);
    let reset = raw.merge(&uri, &json!({"metadata": {"managedFields": [{}]}})).await.expect(200);
    assert!(version_of(&reset) > version_of(&first));
    assert_eq!(reset["metadata"].get("managedFields"), None);
    let set = raw.put(&uri, &object).await.expect(200);
    assert!(version_of(&set) > version_of(&reset), "managedFields alone make a new version");
    assert_eq!(set["metadata"]["managedFields"], json!([entry]));
}

#[tokio::test(start_paused = true)]
async fn a_client_can_ask_who_it_is() {
    let alice = User { name: "alice".to_owned(), groups: vec!["system:authenticated".to_owned()] };
    let (_server, raw) = start(EmbeddedApiServer::builder().token("secret", alice));
    let uri = "/apis/authentication.k8s.io/v1/selfsubjectreviews";
    let request = Request::post(uri).header("authorization", "Bearer secret");
    let request = request.body(Full::from("{}")).unwrap();
    let review = raw.call(request).await.unwrap().expect(201);
    assert_eq!(
        review["status"]["userInfo"],
        json!({"username": "alice", "groups": ["system:authenticated"]})
    );
    let review = raw.post(uri, &json!({})).await.expect(201);
    assert_eq!(review["status"]["userInfo"]["username"], "system:anonymous");
}

#[tokio::test(start_paused = true)]
async fn discovery_has_the_real_servers_hashes_and_verbs() {
    let (_server, raw) = started();
    let listed = raw.get("/api/v1").await.json();
    let of = |name: &str| {
        let resources = listed["resources"].as_array().unwrap();
        resources.iter().find(|resource| resource["name"] == name).unwrap().clone()
    };
    assert_eq!(
        of("namespaces"),
        json!({"name": "namespaces", "singularName": "namespace", "namespaced": false, "kind": "Namespace",
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"], "shortNames": ["ns"],
            "storageVersionHash": "Q3oi5N2YM8M="})
    );
    assert_eq!(of("pods")["storageVersionHash"], "xPOwRZ+Yhw8=");
    assert_eq!(of("pods/status").get("storageVersionHash"), None);
}

#[tokio::test(start_paused = true)]
async fn the_fields_in_most_use_are_described() {
    let (_server, raw) = started();
    let document = raw.get("/openapi/v3/api/v1").await.expect(200);
    let described = |kind: &str, field: &str| {
        let property =
            &document["components"]["schemas"][format!("io.k8s.api.core.v1.{kind}")]["properties"][field];
        property["description"].as_str().is_some_and(|text| text.ends_with('.'))
    };
    for (kind, field) in [
        ("ServiceSpec", "selector"),
        ("ServiceSpec", "ports"),
        ("ServicePort", "targetPort"),
        ("EndpointSubset", "addresses"),
        ("PodSpec", "nodeName"),
        ("PodStatus", "podIPs"),
    ] {
        assert!(described(kind, field), "{kind}.{field}");
    }
}
