//! Tests the negotiation of the encoding and the representation of answers, and of the encoding of
//! bodies.

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule};
use serde_json::json;

use crate::protobuf::common::*;

const TABLE: &str = "as=Table;g=meta.k8s.io;v=v1";
const METADATA: &str = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

#[tokio::test(start_paused = true)]
async fn the_first_element_that_can_be_served_is_chosen() {
    let (_server, client) = start(EmbeddedApiServer::builder());
    client.create(PODS, &pod("a")).await;
    let check = async |accept: &str, expected: &str| {
        for uri in [PODS.to_owned(), format!("{PODS}/a"), format!("{PODS}/missing")] {
            let reply = client.get(&uri, accept).await;
            assert_eq!(reply.content_type(), expected, "{uri} {accept}");
        }
    };
    check("", JSON).await;
    check("*/*", JSON).await;
    check(JSON, JSON).await;
    check(PROTOBUF, PROTOBUF).await;
    check(&format!("{PROTOBUF},{JSON}"), PROTOBUF).await;
    check(&format!("{PROTOBUF}, */*"), PROTOBUF).await;
    check(&format!("{JSON},{PROTOBUF}"), JSON).await;
    check(&format!("application/yaml,{PROTOBUF}"), PROTOBUF).await;
    check(&format!("{PROTOBUF};{TABLE},{PROTOBUF}"), PROTOBUF).await;
    check(&format!("{PROTOBUF};{TABLE},{JSON}"), JSON).await;
}

#[tokio::test(start_paused = true)]
async fn tables_are_not_in_protobuf() {
    let (_server, client) = start(EmbeddedApiServer::builder());
    client.create(PODS, &pod("a")).await;
    let reply = client.get(PODS, &format!("{PROTOBUF};{TABLE},{JSON};{TABLE},{JSON}")).await;
    assert_eq!(reply.json()["kind"], "Table");
    let reply = client.get(PODS, &format!("{PROTOBUF};{TABLE}")).await;
    assert_eq!((reply.status, reply.content_type()), (406, JSON));
    let message = "only the following media types are accepted: application/json, \
                   application/vnd.kubernetes.protobuf";
    assert_eq!(reply.json()["message"], message);
    let reply = client.get(&format!("{PODS}?watch=1"), "text/yaml").await;
    let message = "only the following media types are accepted: application/json;stream=watch, \
                   application/vnd.kubernetes.protobuf;stream=watch";
    assert_eq!((reply.status, &reply.json()["message"]), (406, &json!(message)));
}

#[tokio::test(start_paused = true)]
async fn partial_object_metadata_is_served_in_protobuf() {
    let (_server, client) = start(EmbeddedApiServer::builder());
    client.create(PODS, &pod("a")).await;
    let accept = format!("{PROTOBUF};{METADATA}");
    let one = client.get(&format!("{PODS}/a"), &accept).await;
    let one = one.object(200, "meta.k8s.io/v1", "PartialObjectMetadata");
    assert_eq!((one.name(), one.text(&[1, 11, 1]), one.0.len()), ("a".to_owned(), "app".to_owned(), 1));
    let list = client.get(PODS, &format!("{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")).await;
    let list = list.object(200, "meta.k8s.io/v1", "PartialObjectMetadataList");
    assert_eq!(list.all(2), std::slice::from_ref(&one));
    let mut events = Events::open(&client, &format!("{PODS}?watch=1"), &accept).await;
    let (event, object) = events.next().await.unwrap();
    assert_eq!(event, "ADDED");
    assert_eq!(envelope(&object, "meta.k8s.io/v1", "PartialObjectMetadata"), one);
    let patch = json!({"metadata": {"labels": {"app": "other"}}}).to_string();
    let patched =
        client.send("PATCH", &format!("{PODS}/a"), ("application/merge-patch+json", &accept), patch).await;
    let patched = patched.object(200, "meta.k8s.io/v1", "PartialObjectMetadata");
    assert_eq!(patched.text(&[1, 11, 2]), "other");
}

#[tokio::test(start_paused = true)]
async fn errors_are_served_in_protobuf() {
    let rule = FaultRule::on(Fault::Refuse { status: 503, retry_after: None }, "list", "nodes");
    let (_server, client) = start(EmbeddedApiServer::builder().fault(rule));
    let reply = client.get(&format!("{PODS}/a"), PROTOBUF).await;
    assert_eq!(reply.error(404, "NotFound"), "pods \"a\" not found");
    let details = reply.object(404, "v1", "Status");
    assert_eq!((details.text(&[5, 1]), details.text(&[5, 3])), ("a".to_owned(), "pods".to_owned()));
    client.get("/api/v1/nodes", PROTOBUF).await.error(503, "ServiceUnavailable");
    let body = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "A"}}).to_string();
    let reply = client.send("POST", PODS, (JSON, PROTOBUF), body).await;
    assert!(reply.error(422, "Invalid").contains("metadata.name"));
    assert_eq!(reply.object(422, "v1", "Status").all(5)[0].all(4)[0].text(&[3]), "metadata.name");
    // An element with `as` does not select the encoding of errors.
    let reply = client.get(&format!("{PODS}/a"), &format!("{JSON};{TABLE},{PROTOBUF}")).await;
    reply.error(404, "NotFound");
}

#[tokio::test(start_paused = true)]
async fn unsupported_bodies_are_refused() {
    let (_server, client) = start(EmbeddedApiServer::builder());
    let message = client.send("POST", PODS, ("text/plain", PROTOBUF), "x").await;
    assert!(message.error(415, "UnsupportedMediaType").contains(PROTOBUF));
    let patch = client.send("PATCH", &format!("{PODS}/a"), (PROTOBUF, PROTOBUF), "x").await;
    patch.error(415, "UnsupportedMediaType");
    let no_magic = client.send("POST", PODS, (PROTOBUF, PROTOBUF), pod("a").to_string()).await;
    assert!(no_magic.error(400, "BadRequest").contains("does not appear to be a protobuf message"));
    let cut = client.send("POST", PODS, (PROTOBUF, PROTOBUF), b"k8s\0\x0a\x05".to_vec()).await;
    cut.error(400, "BadRequest");
}
