//! Compares with recorded answers of a kube-apiserver 1.36.2: bodies with repeated keys or deep
//! nesting, YAML, reviews, managedFields, discovery.

use http::Request;
use http_body_util::Full;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, User};
use serde_json::{Value, json};

use crate::protocol::common::*;

const ENDPOINTS: &str = "/api/v1/namespaces/default/endpoints";
const LOCAL_REVIEWS: &str = "/apis/authorization.k8s.io/v1/namespaces/default/localsubjectaccessreviews";

/// Returns the warnings of a reply, without those of deprecation.
fn warnings(reply: &Reply) -> Vec<String> {
    let texts = reply.headers.get_all("warning").iter().map(|value| value.to_str().unwrap());
    let texts = texts.filter(|text| !text.contains("is deprecated"));
    let quoted = texts.filter_map(|text| text.strip_prefix("299 - \"")?.strip_suffix('"'));
    quoted.map(|text| text.replace('\\', "")).collect()
}

async fn post(raw: &Raw, uri: &str, body: &str) -> Reply {
    raw.send("POST", uri, "application/json", body.to_owned()).await
}

#[tokio::test(start_paused = true)]
async fn duplicate_keys_are_warned_of() {
    let (_server, raw) = started();
    let body = r#"{"metadata":{"name":"a","name":"b","labels":{"x":"1","x":"2","y":"1"}},
        "subsets":[{"ports":[{"port":1,"port":2,"bogus":1,"bogus":2}]}],"subsets":[],
        "metadata":{"annotations":{"z":"1"}},"zzz":{"a":1,"a":2}}"#;
    let reply = post(&raw, ENDPOINTS, body).await;
    let metadata = &reply.expect(201)["metadata"];
    assert_eq!(metadata["name"], "b");
    assert_eq!(metadata["labels"], json!({"x": "2", "y": "1"}));
    assert_eq!(metadata["annotations"], json!({"z": "1"}));
    let expected = [
        r#"duplicate field "metadata.name""#,
        r#"duplicate field "metadata.labels.x""#,
        r#"duplicate field "subsets[0].ports[0].port""#,
        r#"unknown field "subsets[0].ports[0].bogus""#,
        r#"duplicate field "subsets""#,
        r#"duplicate field "metadata""#,
        r#"unknown field "zzz""#,
    ];
    assert_eq!(warnings(&reply), expected);
}

#[tokio::test(start_paused = true)]
async fn duplicate_keys_are_rejected_in_strict_validation_and_ignored_on_request() {
    let (_server, raw) = started();
    let body = r#"{"metadata":{"name":"c","name":"d"},"zz":1}"#;
    let reply = post(&raw, &format!("{ENDPOINTS}?fieldValidation=Strict"), body).await;
    let message = "Endpoints in version \"v1\" cannot be handled as a Endpoints: strict decoding error: \
                   duplicate field \"metadata.name\", unknown field \"zz\"";
    assert_eq!(reply.refused(400, "BadRequest"), message);
    assert!(warnings(&reply).is_empty());
    let reply = post(&raw, &format!("{ENDPOINTS}?fieldValidation=Ignore"), body).await;
    assert_eq!(reply.expect(201)["metadata"]["name"], "d");
    assert!(warnings(&reply).is_empty());
}

#[tokio::test(start_paused = true)]
async fn duplicate_keys_of_patches_are_warned_of() {
    let (_server, raw) = started();
    raw.post(ENDPOINTS, &endpoints("b")).await.expect(201);
    let uri = format!("{ENDPOINTS}/b");
    let check = async |kind: &str, body: &str, expected: &[&str], strict: &str| {
        let content_type = format!("application/{kind}+json");
        let reply = raw.send("PATCH", &uri, &content_type, body.to_owned()).await;
        reply.expect(200);
        assert_eq!(warnings(&reply), expected, "{body}");
        let strictly = format!("{uri}?fieldValidation=Strict");
        let reply = raw.send("PATCH", &strictly, &content_type, body.to_owned()).await;
        let message = reply.refused(422, "Invalid");
        assert!(message.ends_with(&format!("strict decoding error: {strict}")), "{message}");
    };
    let labels = r#"duplicate field "metadata.labels.p""#;
    check(
        "merge-patch",
        r#"{"metadata":{"labels":{"p":"1","p":"2"},"labels":{"q":"1"}},"q":1}"#,
        &[labels, r#"duplicate field "metadata.labels""#, r#"unknown field "q""#],
        r#"duplicate field "metadata.labels.p", duplicate field "metadata.labels", unknown field "q""#,
    )
    .await;
    check("strategic-merge-patch", r#"{"metadata":{"labels":{"p":"1","p":"2"}}}"#, &[labels], labels).await;
    let operation = r#"json patch duplicate field "[0].op""#;
    let body = r#"[{"op":"add","op":"add","path":"/metadata/labels/r","value":"1"}]"#;
    check("json-patch", body, &[operation], operation).await;
    assert_eq!(raw.get(&uri).await.json()["metadata"]["labels"], json!({"p": "2", "q": "1", "r": "1"}));
}

#[tokio::test(start_paused = true)]
async fn unknown_fields_may_nest_deeply() {
    let (_server, raw) = started();
    let body = format!(r#"{{"metadata":{{"name":"deep"}},"zz":{}{}}}"#, "[".repeat(9000), "]".repeat(9000));
    let reply = post(&raw, ENDPOINTS, &body).await;
    reply.expect(201);
    assert_eq!(warnings(&reply), [r#"unknown field "zz""#]);
}

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
async fn yaml_bodies_are_accepted() {
    let (server, raw) = started();
    let yaml = async |uri: &str, body: &str| raw.send("POST", uri, "application/yaml", body.to_owned()).await;
    let reply = yaml(ENDPOINTS, "metadata: {name: y1}\nsubsets: []\n").await;
    reply.expect(201);
    assert!(warnings(&reply).is_empty());
    let reply = yaml(ENDPOINTS, "metadata: {name: y2}\nsubsets: []\nsubsets: []\nzz: 1\n").await;
    reply.expect(201);
    assert_eq!(warnings(&reply), [r#"line 3: key "subsets" already set in map"#, r#"unknown field "zz""#]);
    yaml(ENDPOINTS, r#"{"metadata":{"name":"y3"}}"#).await.expect(201);
    let message = yaml(ENDPOINTS, "metadata: {name: [}").await.refused(400, "BadRequest");
    assert!(
        message.starts_with("the object provided is unrecognized (must be of type Endpoints): yaml: "),
        "{message}"
    );
    let options = "propagationPolicy: Background".to_owned();
    raw.send("DELETE", &format!("{ENDPOINTS}/y1"), "application/yaml", options).await.expect(200);
    assert_eq!(server.count("endpoints"), 2);
    raw.send("PATCH", &format!("{ENDPOINTS}/y2"), "application/yaml", "a: b".to_owned())
        .await
        .refused(415, "UnsupportedMediaType");
}

#[tokio::test(start_paused = true)]
async fn yaml_answers_are_given() {
    let (_server, raw) = started();
    raw.post(ENDPOINTS, &endpoints("b")).await.expect(201);
    let get = async |uri: &str| {
        let reply = raw.get_as(uri, "application/yaml").await;
        assert_eq!(reply.headers["content-type"], "application/yaml");
        (reply.status.as_u16(), String::from_utf8(reply.text.to_vec()).unwrap())
    };
    let (status, one) = get(&format!("{ENDPOINTS}/b")).await;
    assert_eq!(status, 200);
    let parsed: Value = serde_saphyr::from_str(&one).unwrap();
    assert_eq!(parsed, raw.get(&format!("{ENDPOINTS}/b")).await.json());
    let (status, list) = get(ENDPOINTS).await;
    assert_eq!(status, 200);
    assert_eq!(serde_saphyr::from_str::<Value>(&list).unwrap(), raw.get(ENDPOINTS).await.json());
    let (status, missing) = get(&format!("{ENDPOINTS}/none")).await;
    assert_eq!(status, 404);
    assert!(missing.contains("message: endpoints \"none\" not found"), "{missing}");
    let (status, watch) = get(&format!("{ENDPOINTS}?watch=1")).await;
    assert_eq!(status, 406);
    assert!(watch.contains("application/json;stream=watch"), "{watch}");
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
async fn access_can_be_asked_about_in_one_namespace() {
    let (_server, raw) = started();
    let review = |spec: Value| json!({"spec": spec});
    let pods = |namespace: &str| json!({"verb": "get", "resource": "pods", "namespace": namespace});
    let answer =
        raw.post(LOCAL_REVIEWS, &review(json!({"user": "x", "resourceAttributes": pods("default")}))).await;
    let answer = answer.expect(201);
    assert_eq!(
        (&answer["metadata"]["namespace"], &answer["status"]["allowed"]),
        (&json!("default"), &json!(false))
    );
    let check = async |spec: Value, message: &str| {
        let reply = raw.post(LOCAL_REVIEWS, &review(spec)).await;
        assert_eq!(
            reply.refused(422, "Invalid"),
            format!(".authorization.k8s.io \"\" is invalid: {message}")
        );
    };
    check(
        json!({"user": "x", "resourceAttributes": pods("other")}),
        "spec.resourceAttributes.namespace: Invalid value: \"other\": must match metadata.namespace",
    )
    .await;
    check(
        json!({"user": "x", "nonResourceAttributes": {"verb": "get", "path": "/x"}}),
        r#"spec.nonResourceAttributes: Invalid value: {"Path":"/x","Verb":"get"}: disallowed on this kind of request"#,
    )
    .await;
    check(
        json!({}),
        "[spec.resourceAttributes: Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be \
         specified, spec.user: Invalid value: \"\": at least one of user or group must be specified]",
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn all_namespaces_cannot_be_deleted_at_once() {
    let (server, raw) = started();
    let before = server.count("namespaces");
    raw.delete("/api/v1/namespaces", &Value::Null).await.refused(405, "MethodNotAllowed");
    assert_eq!(server.count("namespaces"), before);
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
async fn aggregated_discovery_leaves_the_group_and_version_of_kinds_empty() {
    let (_server, raw) = started();
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let mut kinds = 0;
    for path in ["/api", "/apis"] {
        let document = raw.get_as(path, accept).await.expect(200);
        let groups = document["items"].as_array().unwrap();
        for version in groups.iter().flat_map(|group| group["versions"].as_array().unwrap()) {
            for resource in version["resources"].as_array().unwrap() {
                let kind = &resource["responseKind"];
                assert_eq!((&kind["group"], &kind["version"]), (&json!(""), &json!("")), "{resource}");
                kinds += 1;
            }
        }
    }
    assert_eq!(kinds, 16);
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
