//! In which shape a client gets its objects: as they are, as tables, or only their metadata; and in which of the two
//! views of an event.

use bytes::BytesMut;
use http::HeaderMap;
use kube_endpoint_apiserver_printers::represent::{self, MetaVersion, Representation};
use kube_endpoint_apiserver_printers::table::{self, IncludeObject};
use kube_endpoint_apiserver_rules::resource::Resource;
use kube_endpoint_apiserver_rules::status::Status;
use kube_endpoint_apiserver_rules::strategy;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::query::Query;
use crate::store::Stored;

/// What was negotiated for one request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    representation: Representation,
    include: IncludeObject,
    clock: Clock,
}

impl Form {
    /// Reads the `Accept` headers and what the query says about tables.
    pub(crate) fn negotiate(headers: &HeaderMap, query: &Query, clock: Clock) -> Result<Self, Status> {
        let accepted: Vec<&str> =
            headers.get_all(http::header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
        let representation = represent::negotiate(&accepted.join(","))?;
        Ok(Self { representation, include: IncludeObject::parse(query.get("includeObject"))?, clock })
    }

    /// Whether stored bytes can be sent as they are.
    pub(crate) fn is_as_stored(self, resource: &Resource) -> bool {
        self.representation == Representation::Object && resource.storage_resource() == resource
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

    /// One object, which is in the resource's view already. `headers` says whether a table describes its columns.
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

    /// The object of a bookmark; it has nothing that a table could show.
    pub(crate) fn of_bookmark(self, object: Value) -> Value {
        match self.representation {
            Representation::Object | Representation::Table(_) => object,
            Representation::Metadata(version) | Representation::MetadataList(version) => {
                represent::partial(&object, version)
            }
        }
    }

    /// The beginning of a list, up to its first item; `]}` ends it.
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

    /// Appends one item of a list. Whole objects leave out their kind there, as the real server does.
    pub(crate) fn write_item(self, resource: &Resource, stored: &Stored, out: &mut BytesMut) {
        if self.is_as_stored(resource) {
            out.extend_from_slice(b"{");
            out.extend_from_slice(stored.item());
            return;
        }
        let mut object = strategy::convert_from_storage(resource, stored.value());
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
