//! Content negotiation: whether a client wants objects, tables or only metadata, after the apiserver's
//! `endpoints/handlers/negotiation`, and the metadata-only forms themselves.

use kube_endpoint_apiserver_rules::status::Status;
use serde_json::{Value, json};

/// A version of the `meta.k8s.io` group, in which tables and partial objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`
    V1,
    /// `meta.k8s.io/v1beta1`
    V1Beta1,
}

impl MetaVersion {
    /// As in `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// In which form a client wants objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    /// As they are.
    Object,
    /// As rows of a table, one table for the whole answer or for each watch event.
    Table(MetaVersion),
    /// Metadata only: `PartialObjectMetadata`, also for the events of a watch.
    Metadata(MetaVersion),
    /// A list with metadata only: `PartialObjectMetadataList`.
    MetadataList(MetaVersion),
}

/// The form that an `Accept` header asks for; no header and `*/*` mean the object. Only JSON is written: a header
/// that admits none is refused (406).
pub fn negotiate(accept: &str) -> Result<Representation, Status> {
    if accept.trim().is_empty() {
        return Ok(Representation::Object);
    }
    for range in media_ranges(accept) {
        if !matches!(range.media_type, "application/json" | "application/*" | "*/*") {
            continue;
        }
        let version = match (range.parameter("g"), range.parameter("v")) {
            (Some("meta.k8s.io"), Some("v1")) => Some(MetaVersion::V1),
            (Some("meta.k8s.io"), Some("v1beta1")) => Some(MetaVersion::V1Beta1),
            _ => None,
        };
        match (range.parameter("as"), version) {
            (None, _) => return Ok(Representation::Object),
            (Some("Table"), Some(version)) => return Ok(Representation::Table(version)),
            (Some("PartialObjectMetadata"), Some(version)) => return Ok(Representation::Metadata(version)),
            (Some("PartialObjectMetadataList"), Some(version)) => {
                return Ok(Representation::MetadataList(version));
            }
            _ => {}
        }
    }
    Err(Status::new(
        406,
        "NotAcceptable",
        "only the following media types are accepted: application/json, application/json;stream=watch",
    ))
}

/// The metadata of `object` alone.
pub fn partial(object: &Value, version: MetaVersion) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": metadata})
}

/// One element of an `Accept` header.
pub(crate) struct MediaRange<'a> {
    /// Type and subtype, such as `application/json`.
    pub(crate) media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> MediaRange<'a> {
    pub(crate) fn parameter(&self, name: &str) -> Option<&'a str> {
        self.parameters.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    fn quality(&self) -> f32 {
        self.parameter("q").and_then(|q| q.parse().ok()).unwrap_or(1.0)
    }
}

/// The elements of an `Accept` header, the preferred one first.
pub(crate) fn media_ranges(accept: &str) -> Vec<MediaRange<'_>> {
    let mut ranges: Vec<MediaRange<'_>> = accept
        .split(',')
        .map(|range| {
            let mut parts = range.split(';').map(str::trim);
            let media_type = parts.next().unwrap_or_default();
            let parameters = parts.filter_map(|part| part.split_once('=')).collect();
            MediaRange { media_type, parameters }
        })
        .collect();
    ranges.sort_by(|a, b| b.quality().total_cmp(&a.quality()));
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_negotiated() {
        use MetaVersion::{V1, V1Beta1};
        use Representation::{Metadata, MetadataList, Object, Table};
        let check = |accept: &str, expected: Representation| {
            assert_eq!(negotiate(accept), Ok(expected), "{accept}");
        };
        check("", Object);
        check("*/*", Object);
        check("application/json", Object);
        check("application/json, */*", Object);
        check("application/vnd.kubernetes.protobuf,application/json", Object);
        check("application/vnd.kubernetes.protobuf, */*;q=0.1", Object);
        check(
            "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
            Table(V1),
        );
        check(
            "application/json;as=Table;v=v9;g=meta.k8s.io,application/json;as=Table;g=meta.k8s.io;v=v1beta1",
            Table(V1Beta1),
        );
        check("application/json;q=0.5, application/json; as=Table; v=v1; g=meta.k8s.io", Table(V1));
        check("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", Metadata(V1));
        check(
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            MetadataList(V1),
        );
        check("application/json;stream=watch", Object);
    }

    #[test]
    fn what_is_not_json_is_refused() {
        for accept in
            ["application/vnd.kubernetes.protobuf", "application/yaml", "application/json;as=Table;v=v1;g=x"]
        {
            assert_eq!(negotiate(accept).unwrap_err().code, 406, "{accept}");
        }
    }

    #[test]
    fn a_partial_object_has_metadata_only() {
        let pod = json!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}, "spec": {}});
        assert_eq!(
            partial(&pod, MetaVersion::V1),
            json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}})
        );
    }
}
