//! Kubernetes' protobuf in both directions: what Go's typed clients send and receive where they are not told otherwise.
//!
//! `messages.txt` lists the number, JSON name and type of each field of each message, from the `protobuf` and `json`
//! tags of the Go types of `k8s.io/api` and `k8s.io/apimachinery`. A type is `s`tring, `i`nteger, `b`oolean, `T`ime,
//! `M`icroTime, `Q`uantity, `I`ntOrString, `F`ieldsV1, `E` (a message that JSON has as a list of strings) or the name
//! of a message; `*` marks a pointer, `[]` a list, `{}` a map. A field named `.` lends its own fields to the message
//! around it.

mod decode;
mod encode;
mod table;
mod wire;

use std::borrow::Cow;

use bytes::Bytes;
use kube_endpoint_apiserver_rules::resource::Resource;
use kube_endpoint_apiserver_rules::status::Status;
use serde::Deserializer;
use serde_json::{Value, json};

/// The content type of bodies.
pub(crate) const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What each body begins with; a `runtime.Unknown` follows.
const MAGIC: &[u8] = b"k8s\0";

/// What follows the object in its envelope: no content encoding and no content type.
const ENVELOPE_END: &[u8] = b"\x1a\x00\x22\x00";

/// The bytes are not what they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Malformed;

/// The JSON form of a request's body. An object that does not say its kind is taken for one of `resource`.
pub(crate) fn to_json(body: &[u8], resource: &Resource) -> Result<Value, Status> {
    if !body.starts_with(MAGIC) {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): provided data does not appear to be a protobuf \
             message, expected prefix {MAGIC:?}",
            resource.kind
        )));
    }
    let malformed = |_| Status::bad_request("the protobuf body of the request cannot be read");
    let envelope = decode::envelope(body).map_err(malformed)?;
    let (api_version, kind) = match (envelope.api_version, envelope.kind) {
        ("", "") => (resource.api_version(), resource.kind),
        (api_version, kind) => (api_version.to_owned(), kind),
    };
    let Some(message) = table::of_kind(&api_version, kind) else {
        return Err(Status::bad_request(format!(
            "no kind {kind:?} is registered for version {api_version:?}"
        )));
    };
    let mut object = decode::object(message, envelope.raw).map_err(malformed)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// An object that says its type, in its envelope.
pub(crate) fn encode(object: &Value) -> Result<Vec<u8>, Status> {
    Type::of(object).encode(object)
}

/// The type of an encoded object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) api_version: Cow<'static, str>,
    pub(crate) kind: Cow<'static, str>,
}

impl Type {
    /// A type by its names.
    pub(crate) fn new(api_version: impl Into<Cow<'static, str>>, kind: impl Into<Cow<'static, str>>) -> Self {
        Self { api_version: api_version.into(), kind: kind.into() }
    }

    /// The type of an object that says it.
    pub(crate) fn of(object: &Value) -> Self {
        let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        Self::new(text("apiVersion"), text("kind"))
    }

    fn message(&self) -> Result<&'static table::Message, Status> {
        table::of_kind(&self.api_version, &self.kind)
            .ok_or_else(|| failed(&format!("{}, Kind={} has no protobuf form", self.api_version, self.kind)))
    }

    /// What stands in an envelope before the object.
    fn envelope_start(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        let start = out.len();
        wire::bytes(out, 1, self.api_version.as_bytes());
        wire::bytes(out, 2, self.kind.as_bytes());
        wire::wrap(out, start, 1);
    }

    /// An object in its envelope. `json` holds at least the fields of its type; others are left out, so that any object
    /// can be given where `PartialObjectMetadata` is wanted.
    pub(crate) fn encode<'de, D>(&self, json: D) -> Result<Vec<u8>, Status>
    where
        D: Deserializer<'de, Error = serde_json::Error>,
    {
        let mut out = Vec::with_capacity(1024);
        self.enveloped(json, &mut out)?;
        Ok(out)
    }

    /// A watch event: its length in four bytes, then a `WatchEvent`.
    pub(crate) fn event<'de, D>(&self, event: &str, json: D) -> Result<Vec<u8>, Status>
    where
        D: Deserializer<'de, Error = serde_json::Error>,
    {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(&[0; 4]);
        wire::bytes(&mut out, 1, event.as_bytes());
        let object = out.len();
        self.enveloped(json, &mut out)?;
        // The envelope is the `raw` of a `RawExtension`, which is the object of the event.
        wire::wrap(&mut out, object, 1);
        wire::wrap(&mut out, object, 2);
        let length = u32::try_from(out.len() - 4).map_err(|_| failed("a watch event over 4 GiB"))?;
        out[..4].copy_from_slice(&length.to_be_bytes());
        Ok(out)
    }

    fn enveloped<'de, D>(&self, json: D, out: &mut Vec<u8>) -> Result<(), Status>
    where
        D: Deserializer<'de, Error = serde_json::Error>,
    {
        self.envelope_start(out);
        self.item(json, out)?;
        out.extend_from_slice(ENVELOPE_END);
        Ok(())
    }

    /// Appends one object of a list, without envelope. It is the second field of the list, as it is of an envelope.
    pub(crate) fn item<'de, D>(&self, json: D, out: &mut Vec<u8>) -> Result<(), Status>
    where
        D: Deserializer<'de, Error = serde_json::Error>,
    {
        let start = out.len();
        encode::object(self.message()?, json, out).map_err(|error| failed(&error.to_string()))?;
        wire::wrap(out, start, 2);
        Ok(())
    }

    /// What stands before and after the encoded items of a list, which take `items` bytes. `self` is the type of the
    /// list and `metadata` its own.
    pub(crate) fn list(&self, metadata: &Value, items: usize) -> Result<(Bytes, Bytes), Status> {
        let (mut own, mut start) = (Vec::new(), Vec::new());
        encode::object(self.message()?, &json!({"metadata": metadata}), &mut own)
            .map_err(|error| failed(&error.to_string()))?;
        self.envelope_start(&mut start);
        wire::head(&mut start, 2, own.len() + items);
        start.extend_from_slice(&own);
        Ok((start.into(), Bytes::from_static(ENVELOPE_END)))
    }
}

fn failed(why: &str) -> Status {
    Status::new(500, "InternalError", format!("encoding as protobuf: {why}"))
}

#[cfg(test)]
mod tests;
