//! An HTTP client, and a reader and writer of protobuf messages by field number.

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use kube_endpoint_embedded_apiserver::{ApiService, Body, Builder, EmbeddedApiServer};
use serde_json::{Value, json};
use tower::ServiceExt;

pub(crate) const JSON: &str = "application/json";
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";
pub(crate) const SERVICES: &str = "/api/v1/namespaces/default/services";

pub(crate) fn start(builder: Builder) -> (EmbeddedApiServer, Client) {
    let server = builder.start_time("2026-01-01T00:00:00Z".parse().unwrap()).build().unwrap();
    let client = Client(server.service());
    (server, client)
}

pub(crate) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause"}]},
    })
}

pub(crate) struct Client(ApiService);

pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Client {
    pub(crate) async fn open(
        &self,
        method: &str,
        uri: &str,
        types: (&str, &str),
        body: impl Into<Bytes>,
    ) -> http::Response<Body> {
        let request = Request::builder()
            .method(method)
            .uri(uri)
            .header("content-type", types.0)
            .header("accept", types.1);
        self.0.clone().oneshot(request.body(Full::new(body.into())).unwrap()).await.unwrap()
    }

    /// Sends a body of the first type and accepts the second.
    pub(crate) async fn send(
        &self,
        method: &str,
        uri: &str,
        types: (&str, &str),
        body: impl Into<Bytes>,
    ) -> Reply {
        let (parts, body) = self.open(method, uri, types, body).await.into_parts();
        let body = body.collect().await.unwrap().to_bytes().to_vec();
        Reply { status: parts.status.as_u16(), headers: parts.headers, body }
    }

    pub(crate) async fn get(&self, uri: &str, accept: &str) -> Reply {
        self.send("GET", uri, (JSON, accept), "").await
    }

    pub(crate) async fn create(&self, uri: &str, object: &Value) {
        let reply = self.send("POST", uri, (JSON, JSON), object.to_string()).await;
        assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
    }
}

impl Reply {
    pub(crate) fn content_type(&self) -> &str {
        self.headers["content-type"].to_str().unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Checks the status and the type of a protobuf answer and returns its object.
    #[track_caller]
    pub(crate) fn object(&self, status: u16, api_version: &str, kind: &str) -> Message {
        assert_eq!((self.status, self.content_type()), (status, PROTOBUF));
        envelope(&self.body, api_version, kind)
    }

    /// Checks that the answer is an error with this reason and returns its message.
    #[track_caller]
    pub(crate) fn error(&self, code: u16, reason: &str) -> String {
        let status = self.object(code, "v1", "Status");
        assert_eq!((status.text(&[2]), status.text(&[4])), ("Failure".to_owned(), reason.to_owned()));
        assert_eq!(status.number(&[6]), u64::from(code));
        status.text(&[3])
    }
}

/// The fields of a message: number, and the bytes of a length-delimited field or the value of a
/// varint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message(pub(crate) Vec<(u64, Result<Vec<u8>, u64>)>);

impl Message {
    pub(crate) fn read(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let value = varint(&mut bytes);
            fields.push(match tag & 7 {
                0 => (tag >> 3, Err(value)),
                2 => {
                    let (content, rest) = bytes.split_at(value as usize);
                    bytes = rest;
                    (tag >> 3, Ok(content.to_vec()))
                }
                wire_type => panic!("wire type {wire_type}"),
            });
        }
        Self(fields)
    }

    fn one(&self, number: u64) -> Option<&Result<Vec<u8>, u64>> {
        self.0.iter().find(|(found, _)| *found == number).map(|(_, value)| value)
    }

    /// Returns the messages of a repeated field.
    pub(crate) fn all(&self, number: u64) -> Vec<Self> {
        let found = self.0.iter().filter(|(found, _)| *found == number);
        found.map(|(_, value)| Self::read(value.as_ref().unwrap())).collect()
    }

    pub(crate) fn bytes(&self, path: &[u64]) -> Option<Vec<u8>> {
        match path {
            [] => None,
            [last] => self.one(*last)?.clone().ok(),
            [first, rest @ ..] => Self::read(self.one(*first)?.as_ref().ok()?).bytes(rest),
        }
    }

    #[track_caller]
    pub(crate) fn text(&self, path: &[u64]) -> String {
        String::from_utf8(self.bytes(path).unwrap_or_else(|| panic!("no {path:?} in {self:?}"))).unwrap()
    }

    #[track_caller]
    pub(crate) fn number(&self, path: &[u64]) -> u64 {
        let (last, parents) = path.split_last().unwrap();
        let parent =
            if parents.is_empty() { self.clone() } else { Self::read(&self.bytes(parents).unwrap()) };
        *parent.one(*last).unwrap().as_ref().unwrap_err()
    }

    /// Returns `metadata.name`.
    pub(crate) fn name(&self) -> String {
        self.text(&[1, 1])
    }

    /// Returns `metadata.resourceVersion`.
    pub(crate) fn version(&self) -> String {
        self.text(&[1, 6])
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let end = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap();
    let (digits, rest) = bytes.split_at(end + 1);
    *bytes = rest;
    digits.iter().rev().fold(0, |number, byte| number << 7 | u64::from(byte & 0x7f))
}

/// Checks the type in an envelope and returns the object.
#[track_caller]
pub(crate) fn envelope(bytes: &[u8], api_version: &str, kind: &str) -> Message {
    let unknown = Message::read(bytes.strip_prefix(b"k8s\0").unwrap());
    assert_eq!((unknown.text(&[1, 1]), unknown.text(&[1, 2])), (api_version.to_owned(), kind.to_owned()));
    assert_eq!((unknown.text(&[3]), unknown.text(&[4])), (String::new(), String::new()));
    Message::read(&unknown.bytes(&[2]).unwrap())
}

fn write_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Returns a varint field.
pub(crate) fn number(field: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    write_varint(&mut out, field << 3);
    write_varint(&mut out, value);
    out
}

/// Returns a length-delimited field.
pub(crate) fn bytes(field: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    let mut out = Vec::new();
    write_varint(&mut out, field << 3 | 2);
    write_varint(&mut out, content.len() as u64);
    out.extend_from_slice(content);
    out
}

/// Returns an object in its envelope.
pub(crate) fn body(api_version: &str, kind: &str, object: &[Vec<u8>]) -> Vec<u8> {
    let of = bytes(1, [bytes(1, api_version), bytes(2, kind)].concat());
    [b"k8s\0".to_vec(), of, bytes(2, object.concat()), bytes(3, ""), bytes(4, "")].concat()
}

/// The events of a watch.
pub(crate) struct Events {
    body: Body,
    bytes: Vec<u8>,
}

impl Events {
    pub(crate) async fn open(client: &Client, uri: &str, accept: &str) -> Self {
        let response = client.open("GET", uri, (JSON, accept), "").await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], format!("{PROTOBUF};stream=watch"));
        Self { body: response.into_body(), bytes: Vec::new() }
    }

    /// Returns the type and the enveloped object of the next event, or `None` at the end of the
    /// stream.
    pub(crate) async fn next(&mut self) -> Option<(String, Vec<u8>)> {
        loop {
            if let Some((length, rest)) = self.bytes.split_first_chunk::<4>()
                && let Some((event, rest)) = rest.split_at_checked(u32::from_be_bytes(*length) as usize)
            {
                let event = Message::read(event);
                self.bytes = rest.to_vec();
                return Some((event.text(&[1]), event.bytes(&[2, 1]).unwrap()));
            }
            let frame = self.body.frame().await?.unwrap();
            self.bytes.extend_from_slice(&frame.into_data().unwrap());
        }
    }
}
