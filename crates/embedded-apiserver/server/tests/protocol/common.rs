//! Helpers of the protocol tests: a server, and requests to it as plain HTTP without any client in
//! between.

use bytes::Bytes;
use futures::FutureExt;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use kube_endpoint_embedded_apiserver::{ApiService, Body, Builder, EmbeddedApiServer, ServiceError};
use serde_json::{Value, json};
use tower::ServiceExt;

pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Returns a server whose clock starts at a known time, and a way to talk to it.
pub(crate) fn start(builder: Builder) -> (EmbeddedApiServer, Raw) {
    let server = builder.start_time("2026-01-01T00:00:00Z".parse().unwrap()).build().unwrap();
    let raw = Raw::of(server.service());
    (server, raw)
}

pub(crate) fn started() -> (EmbeddedApiServer, Raw) {
    start(EmbeddedApiServer::builder().seed(1))
}

pub(crate) struct Raw {
    service: ApiService,
}

#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: Bytes,
    pub(crate) chunks: usize,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.text).unwrap()
    }

    /// Checks the status, and returns the object.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", String::from_utf8_lossy(&self.text));
        self.json()
    }

    /// Checks that it is an error with this code and reason, and returns its message.
    #[track_caller]
    pub(crate) fn refused(&self, code: u16, reason: &str) -> String {
        let status = self.expect(code);
        assert_eq!(
            (
                status["kind"].as_str(),
                status["status"].as_str(),
                status["code"].as_u64(),
                status["reason"].as_str().unwrap_or_default()
            ),
            (Some("Status"), Some("Failure"), Some(u64::from(code)), reason),
            "{status}"
        );
        status["message"].as_str().unwrap().to_owned()
    }
}

impl Raw {
    pub(crate) fn of(service: ApiService) -> Self {
        Self { service }
    }

    pub(crate) async fn call(&self, request: Request<Full<Bytes>>) -> Result<Reply, ServiceError> {
        let (parts, body) = self.service.clone().oneshot(request).await?.into_parts();
        let (mut text, mut chunks, mut body) = (Vec::new(), 0, body);
        while let Some(frame) = body.frame().await {
            text.extend_from_slice(&frame.unwrap().into_data().unwrap());
            chunks += 1;
        }
        Ok(Reply { status: parts.status, headers: parts.headers, text: text.into(), chunks })
    }

    pub(crate) async fn send(
        &self,
        method: &str,
        uri: &str,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Reply {
        let request = Request::builder().method(method).uri(uri).header("content-type", content_type);
        self.call(request.body(Full::new(body.into())).unwrap()).await.unwrap()
    }

    pub(crate) async fn get(&self, uri: &str) -> Reply {
        self.call(Request::get(uri).body(Full::default()).unwrap()).await.unwrap()
    }

    pub(crate) async fn get_as(&self, uri: &str, accept: &str) -> Reply {
        self.call(Request::get(uri).header("accept", accept).body(Full::default()).unwrap()).await.unwrap()
    }

    pub(crate) async fn post(&self, uri: &str, object: &Value) -> Reply {
        self.send("POST", uri, "application/json", object.to_string()).await
    }

    pub(crate) async fn put(&self, uri: &str, object: &Value) -> Reply {
        self.send("PUT", uri, "application/json", object.to_string()).await
    }

    pub(crate) async fn merge(&self, uri: &str, patch: &Value) -> Reply {
        self.send("PATCH", uri, MERGE, patch.to_string()).await
    }

    pub(crate) async fn delete(&self, uri: &str, options: &Value) -> Reply {
        let body = if options.is_null() { String::new() } else { options.to_string() };
        self.send("DELETE", uri, "application/json", body).await
    }

    pub(crate) async fn watch(&self, uri: &str) -> Events {
        self.watch_as(uri, "application/json").await
    }

    pub(crate) async fn watch_as(&self, uri: &str, accept: &str) -> Events {
        let request = Request::get(uri).header("accept", accept).body(Full::<Bytes>::default()).unwrap();
        let response = self.service.clone().oneshot(request).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        Events { body: response.into_body(), text: Vec::new() }
    }
}

/// The events of a watch.
pub(crate) struct Events {
    body: Body,
    text: Vec<u8>,
}

impl Events {
    /// Returns the next event, or `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.text.drain(..=end).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = self.body.frame().await?.unwrap();
            self.text.extend_from_slice(&frame.into_data().unwrap());
        }
    }

    /// Returns the next event as `TYPE name@version`, or `(end)`.
    pub(crate) async fn short(&mut self) -> String {
        self.next().await.map_or_else(|| "(end)".to_owned(), |event| short(&event))
    }

    /// Returns the next few events.
    pub(crate) async fn take(&mut self, count: usize) -> Vec<String> {
        let mut all = Vec::new();
        for _ in 0..count {
            all.push(self.short().await);
        }
        all
    }

    /// Returns true if there is nothing to read right now.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.text.is_empty() && self.next().now_or_never().is_none()
    }

    /// Returns the error of the connection, if it comes next.
    pub(crate) async fn error(&mut self) -> Option<String> {
        self.body.frame().await?.err().map(|error| error.to_string())
    }
}

pub(crate) fn short(event: &Value) -> String {
    let kind = event["type"].as_str().unwrap();
    let metadata = &event["object"]["metadata"];
    match kind {
        "ERROR" => format!("ERROR {}", event["object"]["message"].as_str().unwrap()),
        "BOOKMARK" => format!("BOOKMARK @{}", metadata["resourceVersion"].as_str().unwrap()),
        _ => format!(
            "{kind} {}@{}",
            metadata["name"].as_str().unwrap(),
            metadata["resourceVersion"].as_str().unwrap()
        ),
    }
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause"}]},
    })
}

pub(crate) fn pod_on(name: &str, node: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["nodeName"] = node.into();
    pod
}

pub(crate) fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    })
}

pub(crate) fn endpoints(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}})
}

pub(crate) fn slice(name: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": name},
        "addressType": "IPv4", "endpoints": [],
    })
}

pub(crate) fn names(list: &Value) -> Vec<&str> {
    list["items"].as_array().unwrap().iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

pub(crate) fn version_of(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Runs everything that is due, and lets time pass.
pub(crate) async fn pass(seconds: u64) {
    tokio::time::sleep(std::time::Duration::from_secs(seconds)).await;
}

/// Returns all events up to the end of the stream.
pub(crate) async fn drain(mut events: Events) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        all.push(short(&event));
    }
    all
}
