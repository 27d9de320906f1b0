//! Tests request bodies in protobuf: objects, DeleteOptions, reviews.

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, User};
use serde_json::{Value, json};

use crate::protobuf::common::*;

/// Reading every object of a recorded cluster and writing it back changes nothing, so no field is
/// lost.
#[tokio::test(start_paused = true)]
async fn writing_back_what_was_read_changes_nothing() {
    let cluster: Value =
        serde_json::from_str(include_str!("../../../../../integration-tests/fixtures/shop-cluster.json"))
            .unwrap();
    let items = cluster["items"].as_array().unwrap();
    let (server, client) = start(EmbeddedApiServer::builder().load([cluster.clone()]));
    let version = server.resource_version();
    for item in items {
        let (api_version, kind) = (item["apiVersion"].as_str().unwrap(), item["kind"].as_str().unwrap());
        let root = if api_version.contains('/') { "apis" } else { "api" };
        let plural = format!("{}s", kind.to_lowercase().trim_end_matches('s'));
        let namespace = item["metadata"]["namespace"].as_str();
        let within = namespace.map_or_else(String::new, |namespace| format!("namespaces/{namespace}/"));
        let name = item["metadata"]["name"].as_str().unwrap();
        let uri = format!("/{root}/{api_version}/{within}{plural}/{name}");
        let before = client.get(&uri, JSON).await.json();
        let read = client.get(&uri, PROTOBUF).await;
        read.object(200, api_version, kind);
        let written = client.send("PUT", &uri, (PROTOBUF, PROTOBUF), read.body.clone()).await;
        assert_eq!((written.status, &written.body), (200, &read.body), "{uri}");
        assert_eq!(client.get(&uri, JSON).await.json(), before, "{uri}");
    }
    assert!(items.len() > 50);
    assert_eq!(server.resource_version(), version);
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_and_updated() {
    let (server, client) = start(EmbeddedApiServer::builder());
    let port = |number_of_port: u64| [bytes(1, ""), bytes(2, "TCP"), number(3, number_of_port)].concat();
    let service = |version: &str, port: Vec<u8>| {
        let metadata = [bytes(1, "web"), bytes(6, version)].concat();
        let selector = [bytes(1, "app"), bytes(2, "web")].concat();
        // Fields 250 and 200 are unknown to the server.
        let spec = [bytes(1, port), bytes(2, selector), bytes(250, "later")].concat();
        body("v1", "Service", &[bytes(1, metadata), bytes(2, spec), number(200, 1)])
    };
    let uri = format!("{SERVICES}?fieldValidation=Strict");
    let created = client.send("POST", &uri, (PROTOBUF, PROTOBUF), service("", port(80))).await;
    assert_eq!(created.headers.get("warning"), None);
    let created = created.object(201, "v1", "Service");
    assert_eq!(created.number(&[2, 1, 3]), 80);
    let stored = server.get("services", "default", "web").unwrap();
    assert_eq!(stored["spec"]["selector"], json!({"app": "web"}));
    assert_eq!(stored["spec"]["ports"], json!([{"port": 80, "protocol": "TCP", "targetPort": 80}]));
    assert_eq!(created.text(&[2, 3]), stored["spec"]["clusterIP"].as_str().unwrap());
    let uri = format!("{SERVICES}/web");
    let update = service(&created.version(), port(81));
    let updated = client.send("PUT", &uri, (PROTOBUF, PROTOBUF), update.clone()).await;
    assert_eq!(updated.object(200, "v1", "Service").number(&[2, 1, 3]), 81);
    client.send("PUT", &uri, (PROTOBUF, PROTOBUF), update).await.error(409, "Conflict");
    // The server decodes an object without a type as the kind of the path.
    let untyped = body("", "", &[bytes(1, bytes(1, "other")), bytes(2, bytes(1, port(80)))]);
    client.send("POST", SERVICES, (PROTOBUF, PROTOBUF), untyped).await.object(201, "v1", "Service");
    let node = body("v1", "Node", &[bytes(1, bytes(1, "n"))]);
    client.send("POST", SERVICES, (PROTOBUF, PROTOBUF), node).await.error(400, "BadRequest");
}

/// The server checks the parts of a pod without a table in the rules against the messages.
#[tokio::test(start_paused = true)]
async fn what_is_stored_as_given_has_the_types_of_the_api() {
    let (_server, client) = start(EmbeddedApiServer::builder());
    let post = async |container: Value| {
        let mut pod = pod("a");
        pod["spec"]["containers"][0] =
            json!({"name": "c", "image": "i", "readinessProbe": container["probe"]});
        pod["spec"]["volumes"] = json!([{"name": "v", "emptyDir": {"sizeLimit": container["size"]}}]);
        client.send("POST", &format!("{PODS}?dryRun=All"), (JSON, JSON), pod.to_string()).await
    };
    let check = async |container: Value, expected: &str| {
        let reply = post(container).await.json();
        assert_eq!((reply["code"].as_u64(), reply["reason"].as_str()), (Some(400), Some("BadRequest")));
        let message = reply["message"].as_str().unwrap_or_default();
        let expected = format!("Pod in version \"v1\" cannot be handled as a Pod: {expected}");
        assert!(message.starts_with(&expected), "{message}");
    };
    check(json!({"probe": {"periodSeconds": "5"}}), "periodSeconds: 5 where Integer is expected").await;
    check(json!({"probe": {"periodSeconds": 0.5}}), "periodSeconds: a fraction where Integer is expected")
        .await;
    check(json!({"probe": {"httpGet": [80]}}), "httpGet: a list where ").await;
    check(json!({"size": true}), "sizeLimit: a boolean where Quantity is expected").await;
    for size in [json!("64Mi"), json!(64), json!(0.5)] {
        let given = post(json!({"probe": {"httpGet": {"port": "http"}}, "size": size})).await;
        assert_eq!(given.status, 201, "{size}");
        assert_eq!(given.json()["spec"]["volumes"][0]["emptyDir"]["sizeLimit"], size);
    }
}

#[tokio::test(start_paused = true)]
async fn delete_options_are_obeyed() {
    let (server, client) = start(EmbeddedApiServer::builder());
    client.create(PODS, &pod("a")).await;
    let uri = format!("{PODS}/a");
    let wrong = body("v1", "DeleteOptions", &[bytes(2, bytes(1, "another uid"))]);
    client.send("DELETE", &uri, (PROTOBUF, PROTOBUF), wrong).await.error(409, "Conflict");
    let dry = body("v1", "DeleteOptions", &[number(1, 0), bytes(5, "All")]);
    client.send("DELETE", &uri, (PROTOBUF, PROTOBUF), dry).await.object(200, "v1", "Pod");
    assert_eq!(server.count("pods"), 1);
    let now = body("v1", "DeleteOptions", &[number(1, 0), bytes(4, "Background")]);
    client.send("DELETE", &uri, (PROTOBUF, PROTOBUF), now).await.object(200, "v1", "Pod");
    assert_eq!(server.count("pods"), 0);
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let slice = json!({"metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": []});
    client.create(slices, &slice).await;
    let gone = client.send("DELETE", &format!("{slices}/s"), (PROTOBUF, PROTOBUF), "").await;
    let gone = gone.object(200, "v1", "Status");
    assert_eq!((gone.text(&[2]), gone.text(&[5, 1])), ("Success".to_owned(), "s".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn reviews_are_answered() {
    let user = User { name: "scraper".to_owned(), groups: vec!["monitoring".to_owned()] };
    let (_server, client) = start(EmbeddedApiServer::builder().token("secret", user));
    let (group, kind) = ("authentication.k8s.io/v1", "TokenReview");
    let review = body(group, kind, &[bytes(2, bytes(1, "secret"))]);
    let uri = "/apis/authentication.k8s.io/v1/tokenreviews";
    let reply = client.send("POST", uri, (PROTOBUF, PROTOBUF), review).await.object(201, group, kind);
    assert_eq!((reply.number(&[3, 1]), reply.text(&[3, 2, 1])), (1, "scraper".to_owned()));
    let (group, kind) = ("authorization.k8s.io/v1", "SubjectAccessReview");
    let wanted = [bytes(1, "/metrics"), bytes(2, "get")].concat();
    let extra = [bytes(1, "scopes"), bytes(2, [bytes(1, "a"), bytes(1, "b")].concat())].concat();
    let spec = [bytes(2, wanted), bytes(3, "nobody"), bytes(5, extra)].concat();
    let review = body(group, kind, &[bytes(2, spec)]);
    let uri = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let reply = client.send("POST", uri, (PROTOBUF, PROTOBUF), review.clone()).await;
    let object = reply.object(201, group, kind);
    assert_eq!((object.number(&[3, 1]), object.text(&[2, 3])), (0, "nobody".to_owned()));
    assert_eq!(object.text(&[2, 5, 1]), "scopes");
    let json = client.send("POST", uri, (PROTOBUF, JSON), review).await.json();
    assert_eq!(json["spec"]["extra"], json!({"scopes": ["a", "b"]}));
    let (group, kind) = ("authorization.k8s.io/v1", "SelfSubjectAccessReview");
    let uri = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let wanted = [bytes(2, "list"), bytes(5, "pods")].concat();
    let review = body(group, kind, &[bytes(2, bytes(1, wanted))]);
    let reply = client.send("POST", uri, (PROTOBUF, PROTOBUF), review).await.object(201, group, kind);
    assert_eq!(reply.number(&[3, 1]), 1);
}
