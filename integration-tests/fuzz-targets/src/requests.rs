//! Target for requests to the embedded server.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube_endpoint_apiserver_rules::resource::{self, Resource};
use kube_endpoint_embedded_apiserver::{Body, EmbeddedApiServer};
use serde_json::{Value, json};
use tower::ServiceExt;

/// The maximum number of requests of an input.
const MOST: usize = 12;
/// The time limit for the head of an answer, or for the body of one that is not a watch.
const LIMIT: Duration = Duration::from_secs(120);

/// Sends requests, with a line `---` between two of them. A request has a line with the method and
/// the URI, lines with headers, an empty line and a body.
pub fn requests(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    let Ok(runtime) = runtime else { return };
    runtime.block_on(async {
        let server = server().await;
        for request in split(bytes, b"\n---\n").into_iter().take(MOST).filter_map(request) {
            check_answer(&server, request).await;
        }
        check_objects(&server).await;
    });
}

async fn server() -> EmbeddedApiServer {
    let metadata = |name: &str| json!({"name": name, "namespace": "default"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata("a"), "spec": {"nodeName": "n", "containers":
        [{"name": "c", "image": "i"}]}, "status": {"phase": "Running", "podIP": "10.0.0.1"}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata("a"), "spec":
        {"selector": {"app": "a"}, "ports": [{"port": 80}]}});
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata("a"), "subsets":
        [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]});
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata("a"),
        "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"port": 80}]});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    let server = match EmbeddedApiServer::builder().seed(1).build() {
        Ok(server) => server,
        Err(error) => panic!("the server cannot be built: {error}"),
    };
    for object in [pod, service, endpoints, slice, node] {
        if let Err(error) = server.create(object).await {
            panic!("an object cannot be created: {error:?}");
        }
    }
    server
}

fn split<'a>(bytes: &'a [u8], separator: &[u8]) -> Vec<&'a [u8]> {
    let (mut parts, mut rest) = (Vec::new(), bytes);
    while let Some(at) = rest.windows(separator.len()).position(|window| window == separator) {
        parts.push(&rest[..at]);
        rest = &rest[at + separator.len()..];
    }
    parts.push(rest);
    parts
}

/// Parses a request. Returns `None` if the text is no HTTP request.
fn request(text: &[u8]) -> Option<Request<Full<Bytes>>> {
    let at = text.windows(2).position(|window| window == b"\n\n");
    let (head, body) = at.map_or((text, &[][..]), |at| (&text[..at], &text[at + 2..]));
    let mut lines = head.split(|byte| *byte == b'\n');
    let mut first = lines.next()?.splitn(2, |byte| *byte == b' ');
    let mut request = Request::builder().method(first.next()?).uri(first.next()?);
    for line in lines {
        let colon = line.iter().position(|byte| *byte == b':')?;
        request = request.header(&line[..colon], line[colon + 1..].trim_ascii());
    }
    request.body(Full::new(Bytes::copy_from_slice(body))).ok()
}

async fn send(server: &EmbeddedApiServer, request: Request<Full<Bytes>>) -> Response<Body> {
    match tokio::time::timeout(LIMIT, server.service().oneshot(request)).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => panic!("no answer: {error}"),
        Err(_) => panic!("no answer within {LIMIT:?}"),
    }
}

/// Checks that an answer has a valid status and, if it says that it is JSON, a body of JSON. A
/// watch may stay open.
async fn check_answer(server: &EmbeddedApiServer, request: Request<Full<Bytes>>) {
    let shown = format!("{} {}", request.method(), request.uri());
    let answer = send(server, request).await;
    let (parts, mut body) = answer.into_parts();
    assert!((200..600).contains(&parts.status.as_u16()), "{shown}: {}", parts.status);
    let mut content = Vec::new();
    let read = async {
        while let Some(frame) = body.frame().await {
            content.extend(frame.ok().and_then(|frame| frame.into_data().ok()).unwrap_or_default());
        }
    };
    let is_complete = tokio::time::timeout(LIMIT, read).await.is_ok();
    let content_type =
        parts.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if is_complete && content_type.starts_with("application/json") {
        let lines = content.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let is_json = |text: &[u8]| serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok();
        assert!(
            content.is_empty() || is_json(&content) || lines.into_iter().all(is_json),
            "{shown}: {}",
            String::from_utf8_lossy(&content)
        );
    }
}

/// Checks that the server accepts each object that it has stored, and then writes nothing.
async fn check_objects(server: &EmbeddedApiServer) {
    for resource in
        resource::all().filter(|resource| resource.is_stored() && resource.verbs.contains(&"update"))
    {
        for object in server.list(resource.plural) {
            let Some(uri) = path_of(resource, &object) else { continue };
            let get = Request::get(&uri).body(Full::default());
            let Ok(get) = get else { panic!("{uri} is no URI") };
            let stored = json_of(send(server, get).await, &uri).await;
            let body = Full::from(stored.to_string());
            let put = Request::put(&uri).header("content-type", "application/json").body(body);
            let Ok(put) = put else { panic!("{uri} is no URI") };
            let written = json_of(send(server, put).await, &uri).await;
            assert_eq!(written, stored, "{uri}");
        }
    }
}

fn path_of(resource: &Resource, object: &Value) -> Option<String> {
    if object["apiVersion"] != *resource.api_version() {
        return None;
    }
    let metadata = &object["metadata"];
    let group = if resource.group.is_empty() {
        "/api/v1".to_owned()
    } else {
        format!("/apis/{}", resource.api_version())
    };
    let namespace = metadata["namespace"].as_str().map(|namespace| format!("/namespaces/{namespace}"));
    Some(format!(
        "{group}{}/{}/{}",
        namespace.unwrap_or_default(),
        resource.plural,
        metadata["name"].as_str()?
    ))
}

async fn json_of(answer: Response<Body>, uri: &str) -> Value {
    let status = answer.status();
    let content = answer.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    assert!(status.is_success(), "{uri}: {status} {}", String::from_utf8_lossy(&content));
    match serde_json::from_slice(&content) {
        Ok(value) => value,
        Err(error) => panic!("{uri}: {error}"),
    }
}
