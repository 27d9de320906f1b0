//! The shape in which a client gets its objects: whole, as tables, or only their metadata; in JSON
//! or in protobuf.

mod protobuf;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use kube_endpoint_apiserver_printers::represent::{self, Encoding, MetaVersion, Representation};
use kube_endpoint_apiserver_printers::table::{self, IncludeObject};
use kube_endpoint_apiserver_rules::resource::Resource;
use kube_endpoint_apiserver_rules::status::Status;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::protobuf as codec;
use crate::query::Query;
use crate::store::{EventKind, Stored};

/// Returns the `Accept` headers of a request as one text.
pub(crate) fn accepted(headers: &HeaderMap) -> String {
    let values = headers.get_all(http::header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values.collect::<Vec<_>>().join(",")
}

/// The negotiated output of one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) encoding: Encoding,
    representation: Representation,
    include: IncludeObject,
    clock: Clock,
}

impl Form {
    /// Reads the `Accept` headers and the query parameter for tables. Only a list can have the
    /// metadata form of a list, and only one object that of an object.
    pub(crate) fn negotiate(
        headers: &HeaderMap,
        verb: &str,
        resource: &Resource,
        query: &Query,
        clock: Clock,
    ) -> Result<Self, Status> {
        let (encoding, representation) =
            represent::negotiate(&accepted(headers), verb == "watch", !resource.is_custom())?;
        let go_type = format!("*{}.{}", resource.go_package(), resource.kind);
        let why = match (verb, representation) {
            ("list", Representation::Metadata(_)) => {
                format!("PartialObjectMetadata, but the requested object is a list ({go_type}List)")
            }
            ("get", Representation::MetadataList(_)) => {
                format!("PartialObjectMetadataList, but the requested object is not a list ({go_type})")
            }
            _ => String::new(),
        };
        if !why.is_empty() {
            return Err(Status::new(406, "NotAcceptable", format!("you requested {why}")));
        }
        let include = IncludeObject::parse(query.get("includeObject"))?;
        Ok(Self { encoding, representation, include, clock })
    }

    /// Returns true if the server can send the stored bytes unchanged.
    fn is_as_stored(self) -> bool {
        self.encoding == Encoding::Json && self.representation == Representation::Object
    }

    /// Encodes a stored object.
    pub(crate) fn stored(self, resource: &Resource, stored: &Stored) -> Result<Bytes, Status> {
        if self.is_as_stored() {
            return Ok(stored.bytes());
        }
        if let Some(of) = self.protobuf_type(resource) {
            return of.encode(&mut serde_json::Deserializer::from_slice(&stored.bytes())).map(Bytes::from);
        }
        let object = self.of_object(resource, stored.value(), true);
        match self.encoding {
            Encoding::Json => Ok(object.to_string().into()),
            Encoding::Protobuf => codec::encode(&object).map(Bytes::from),
        }
    }

    /// Encodes a watch event of an object that has `apiVersion` and `kind`.
    pub(crate) fn event(self, event: &str, object: &Value) -> Bytes {
        match self.encoding {
            Encoding::Json => format!("{}\n", json!({"type": event, "object": object})).into(),
            Encoding::Protobuf => protobuf::event_or_error(codec::Type::of(object).event(event, object)),
        }
    }

    /// Encodes the watch event of a stored object, and calls `out` with each piece of it. If
    /// `headers`, a table describes its columns.
    pub(crate) fn stored_event(
        self,
        resource: &Resource,
        kind: EventKind,
        stored: &Stored,
        headers: bool,
        mut out: impl FnMut(Bytes),
    ) {
        if self.is_as_stored() {
            return stored.event(kind, out);
        }
        out(match self.protobuf_type(resource) {
            Some(of) => {
                let text = stored.bytes();
                let json = &mut serde_json::Deserializer::from_slice(&text);
                protobuf::event_or_error(of.event(kind.name(), json))
            }
            None => {
                let object = stored.value();
                self.event(kind.name(), &self.of_object(resource, object, headers))
            }
        });
    }

    fn table<'a>(
        self,
        resource: &Resource,
        objects: impl IntoIterator<Item = &'a Value>,
        version: MetaVersion,
        headers: bool,
        metadata: Value,
    ) -> Value {
        let options = table::Options { version, include: self.include, headers, now: self.clock.now() };
        table::of(resource, objects, &options, metadata)
    }

    /// Returns the form of one object. If `headers`, a table has column definitions.
    pub(crate) fn of_object(self, resource: &Resource, object: Value, headers: bool) -> Value {
        match self.representation {
            Representation::Object | Representation::MetadataList(_) => object,
            Representation::Metadata(version) => represent::partial(&object, version),
            Representation::Table(version) => {
                let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
                self.table(resource, [&object], version, headers, metadata)
            }
        }
    }

    /// Returns the beginning of a list, up to its first item; `]}` ends it.
    pub(crate) fn list_head(self, resource: &Resource, metadata: &Value) -> String {
        let (kind, version) = match self.representation {
            Representation::Object => (format!("{}List", resource.kind), resource.api_version()),
            Representation::Metadata(version) | Representation::MetadataList(version) => {
                ("PartialObjectMetadataList".to_owned(), version.api_version().to_owned())
            }
            Representation::Table(version) => {
                let empty = self.table(resource, [], version, true, metadata.clone());
                return format!(
                    r#"{{"kind":"Table","apiVersion":{},"metadata":{metadata},"columnDefinitions":{},"rows":["#,
                    empty["apiVersion"], empty["columnDefinitions"]
                );
            }
        };
        format!(r#"{{"kind":"{kind}","apiVersion":"{version}","metadata":{metadata},"items":["#)
    }

    /// Returns a list without items, if it differs from an empty `items`: as on the real server,
    /// that of a list of metadata is null.
    pub(crate) fn empty_list(self, resource: &Resource, metadata: &Value) -> Option<String> {
        let of_metadata =
            matches!(self.representation, Representation::Metadata(_) | Representation::MetadataList(_));
        of_metadata.then(|| format!("{}null}}", self.list_head(resource, metadata).trim_end_matches('[')))
    }

    /// Appends one item of a list. As on the real server, complete objects have no kind there.
    pub(crate) fn write_item(self, resource: &Resource, stored: &Stored, out: &mut BytesMut) {
        if self.is_as_stored() {
            out.extend_from_slice(b"{");
            out.extend_from_slice(stored.item());
            return;
        }
        let mut object = stored.value();
        let item = match self.representation {
            Representation::Object => {
                for field in ["apiVersion", "kind"] {
                    object.as_object_mut().and_then(|fields| fields.remove(field));
                }
                object
            }
            Representation::Metadata(version) | Representation::MetadataList(version) => {
                represent::partial(&object, version)
            }
            Representation::Table(version) => {
                self.table(resource, [&object], version, false, Value::Null)["rows"][0].take()
            }
        };
        out.extend_from_slice(item.to_string().as_bytes());
    }
}
