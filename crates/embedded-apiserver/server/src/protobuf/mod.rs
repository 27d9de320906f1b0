//! The Kubernetes protobuf encoding, in both directions. Go's typed clients use it by default.
//!
//! `messages.txt` lists the fields of each message as `number:name:type`. Numbers and JSON names
//! are those of the `protobuf` and `json` tags of the Go types in `k8s.io/api` and
//! `k8s.io/apimachinery`. A type is `s`tring, `i`nteger, `b`oolean, `T`ime, `M`icroTime,
//! `Q`uantity, `I`ntOrString, `F`ieldsV1, `E` (`ExtraValue`: in JSON a list of strings) or the name
//! of a message. `*` marks a pointer, `[]` a list, `{}` a map from strings. A field named `.` is an
//! embedded struct: in JSON, its fields are fields of the message that contains it.

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

/// The first bytes of every body; a `runtime.Unknown` follows.
const MAGIC: &[u8] = b"k8s\0";

/// The end of an envelope: an empty `contentEncoding` and an empty `contentType`.
const ENVELOPE_END: &[u8] = b"\x1a\x00\x22\x00";

/// The bytes are not a message of the expected type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Malformed;

/// Decodes a request's body to JSON. It omits zero values of fields that are not pointers, and
/// decodes an object without `apiVersion` and `kind` as one of `resource`.
///
/// # Errors
/// 400 BadRequest for a body that is not protobuf, or of a kind that this server does not have.
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

/// Encodes an object, in its envelope, by its `apiVersion` and `kind`.
pub(crate) fn encode(object: &Value) -> Result<Vec<u8>, Status> {
    Type::of(object).encode(object)
}

/// Checks the types of all fields of an object's message. The error names the field.
pub(crate) fn check_types(object: &Value) -> Result<(), String> {
    let message = Type::of(object).message().map_err(|status| status.message)?;
    encode::object(message, object, &mut Vec::new()).map_err(|error| error.to_string())
}

/// The `apiVersion` and `kind` of an object, which select its message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) api_version: Cow<'static, str>,
    pub(crate) kind: Cow<'static, str>,
}

impl Type {
    /// Returns a type from its names.
    pub(crate) fn new(api_version: impl Into<Cow<'static, str>>, kind: impl Into<Cow<'static, str>>) -> Self {
        Self { api_version: api_version.into(), kind: kind.into() }
    }

    /// Returns the type that an object's `apiVersion` and `kind` name.
    pub(crate) fn of(object: &Value) -> Self {
        let text = |name: &str| object[name].as_str().unwrap_or_default().to_owned();
        Self::new(text("apiVersion"), text("kind"))
    }

    fn message(&self) -> Result<&'static table::Message, Status> {
        table::of_kind(&self.api_version, &self.kind)
            .ok_or_else(|| failed(&format!("{}, Kind={} has no protobuf form", self.api_version, self.kind)))
    }

    /// Appends the part of an envelope that precedes the object.
    fn envelope_start(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(MAGIC);
        let start = out.len();
        wire::bytes(out, 1, self.api_version.as_bytes());
        wire::bytes(out, 2, self.kind.as_bytes());
        wire::wrap(out, start, 1);
    }

    /// Encodes an object, in its envelope. It skips members of `json` that the message does not
    /// have: from a whole object, `PartialObjectMetadata` takes the metadata.
    pub(crate) fn encode<'de, D>(&self, json: D) -> Result<Vec<u8>, Status>
    where
        D: Deserializer<'de, Error = serde_json::Error>,
    {
        let mut out = Vec::with_capacity(1024);
        self.enveloped(json, &mut out)?;
        Ok(out)
    }

    /// Encodes a watch event: its length in four bytes, big-endian, then a `WatchEvent`.
    pub(crate) fn event<'de, D>(&self, event: &str, json: D) -> Result<Vec<u8>, Status>
    where
        D: Deserializer<'de, Error = serde_json::Error>,
    {
        let mut out = Vec::with_capacity(1024);
        out.extend_from_slice(&[0; 4]);
        wire::bytes(&mut out, 1, event.as_bytes());
        let object = out.len();
        self.enveloped(json, &mut out)?;
        // The event's `object` is a `RawExtension`, and the envelope is its `raw`.
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

    /// Appends an object as field 2, which is `raw` in an envelope and `items` in a list.
    pub(crate) fn item<'de, D>(&self, json: D, out: &mut Vec<u8>) -> Result<(), Status>
    where
        D: Deserializer<'de, Error = serde_json::Error>,
    {
        let start = out.len();
        encode::object(self.message()?, json, out).map_err(|error| failed(&error.to_string()))?;
        wire::wrap(out, start, 2);
        Ok(())
    }

    /// Encodes the parts of a list that precede and follow its items. `self` is the type of the
    /// list, `metadata` its `ListMeta`, and `items` the size of the encoded items in bytes.
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
