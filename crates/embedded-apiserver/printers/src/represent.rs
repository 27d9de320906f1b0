//! Content negotiation: finds out if a client wants objects, tables or only metadata, after the
//! apiserver's `endpoints/handlers/negotiation`, and makes the metadata-only forms.

use kube_endpoint_apiserver_rules::status::Status;
use serde_json::{Value, json};

/// A version of the `meta.k8s.io` group, for tables and partial objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetaVersion {
    /// `meta.k8s.io/v1`
    V1,
    /// `meta.k8s.io/v1beta1`
    V1Beta1,
}

impl MetaVersion {
    /// Returns the version as in `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// The form in which a client wants objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Representation {
    /// Complete objects.
    Object,
    /// As rows of a table, one table for the whole answer or for each watch event.
    Table(MetaVersion),
    /// Metadata only: `PartialObjectMetadata`, also for the events of a watch.
    Metadata(MetaVersion),
    /// A list with metadata only: `PartialObjectMetadataList`.
    MetadataList(MetaVersion),
}

/// The encoding of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`
    Json,
    /// `application/vnd.kubernetes.protobuf`
    Protobuf,
}

impl Encoding {
    /// All encodings, in the order in which a wildcard selects them.
    const ALL: [Self; 2] = [Self::Json, Self::Protobuf];

    /// Returns the media type.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// Returns the media type of a stream of watch events.
    pub fn watch_media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
        }
    }
}

/// Returns the encoding and the representation that an `Accept` header selects. An empty header and
/// `*/*` select the object in JSON. This skips elements that the server cannot serve: other media
/// types, unknown representations, tables in protobuf. `protobuf` is false for custom resources,
/// whose objects have no protobuf encoding.
///
/// # Errors
/// 406 NotAcceptable if the server can serve no element. The message lists the media types of
/// watches if `watch` is true.
pub fn negotiate(accept: &str, watch: bool, protobuf: bool) -> Result<(Encoding, Representation), Status> {
    if accept.trim().is_empty() {
        return Ok((Encoding::Json, Representation::Object));
    }
    for (range, encoding) in acceptable(accept) {
        let version = match (range.parameter("g"), range.parameter("v")) {
            (Some("meta.k8s.io"), Some("v1")) => Some(MetaVersion::V1),
            (Some("meta.k8s.io"), Some("v1beta1")) => Some(MetaVersion::V1Beta1),
            _ => None,
        };
        match (range.parameter("as"), version) {
            (None, _) if protobuf || encoding != Encoding::Protobuf => {
                return Ok((encoding, Representation::Object));
            }
            (Some("Table"), Some(version)) if encoding != Encoding::Protobuf => {
                return Ok((encoding, Representation::Table(version)));
            }
            (Some("PartialObjectMetadata"), Some(version)) => {
                return Ok((encoding, Representation::Metadata(version)));
            }
            (Some("PartialObjectMetadataList"), Some(version)) => {
                return Ok((encoding, Representation::MetadataList(version)));
            }
            _ => {}
        }
    }
    let stream = if watch { ";stream=watch" } else { "" };
    let served = |encoding: &Encoding| match encoding {
        Encoding::Json => true,
        Encoding::Protobuf => protobuf,
    };
    let encodings = Encoding::ALL.into_iter().filter(served);
    let accepted: Vec<String> =
        encodings.map(|encoding| format!("{}{stream}", encoding.media_type())).collect();
    let accepted = accepted.join(", ");
    let message = format!("only the following media types are accepted: {accepted}");
    Err(Status::new(406, "NotAcceptable", message))
}

/// Returns the encoding of errors: that of the first element of the `Accept` header without `as`,
/// or JSON if there is none.
pub fn negotiate_error(accept: &str) -> Encoding {
    let mut plain = acceptable(accept).into_iter().filter(|(range, _)| range.parameter("as").is_none());
    plain.next().map_or(Encoding::Json, |(_, encoding)| encoding)
}

/// Returns the elements of an `Accept` header that match an encoding, each with every encoding that
/// it matches.
fn acceptable(accept: &str) -> Vec<(MediaRange<'_>, Encoding)> {
    let mut found = Vec::new();
    for range in media_ranges(accept) {
        let watch = range.parameter("stream").is_none_or(|stream| stream == "watch");
        for encoding in Encoding::ALL {
            if watch && [encoding.media_type(), "application/*", "*/*"].contains(&range.media_type) {
                found.push((range.clone(), encoding));
            }
        }
    }
    found
}

/// Returns the metadata of `object` as a PartialObjectMetadata.
pub fn partial(object: &Value, version: MetaVersion) -> Value {
    let metadata = object.get("metadata").cloned().unwrap_or_else(|| json!({}));
    json!({"kind": "PartialObjectMetadata", "apiVersion": version.api_version(), "metadata": metadata})
}

/// One element of an `Accept` header.
#[derive(Clone)]
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

    /// Compares as `goautoneg` does: by quality, and wildcards last.
    fn goes_before(&self, other: &Self) -> bool {
        let wildcard = |range: &Self| (range.media_type.starts_with("*/"), range.media_type.ends_with("/*"));
        let ((any, any_subtype), (other_any, other_any_subtype)) = (wildcard(self), wildcard(other));
        self.quality() > other.quality() || (!any && other_any) || (!any_subtype && other_any_subtype)
    }
}

/// Returns the elements of an `Accept` header, in order of preference.
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
    // goautoneg's comparison is not transitive, so the algorithm matters: Go sorts short slices by
    // insertion.
    for end in 1..ranges.len() {
        let mut at = end;
        while at > 0 && ranges[at].goes_before(&ranges[at - 1]) {
            ranges.swap(at, at - 1);
            at -= 1;
        }
    }
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
            assert_eq!(negotiate(accept, false, true), Ok((Encoding::Json, expected)), "{accept}");
        };
        check("", Object);
        check("*/*", Object);
        check("application/json", Object);
        check("application/json, */*", Object);
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
    fn the_encoding_is_negotiated() {
        use Encoding::{Json, Protobuf};
        use Representation::{Metadata, Object, Table};
        let check = |accept: &str, expected: (Encoding, Representation), error: Encoding| {
            assert_eq!(negotiate(accept, true, true), Ok(expected), "{accept}");
            assert_eq!(negotiate_error(accept), error, "{accept}");
        };
        check("application/vnd.kubernetes.protobuf", (Protobuf, Object), Protobuf);
        check("application/vnd.kubernetes.protobuf,application/json", (Protobuf, Object), Protobuf);
        check("application/json,application/vnd.kubernetes.protobuf", (Json, Object), Json);
        check("*/*, application/vnd.kubernetes.protobuf;stream=watch", (Protobuf, Object), Protobuf);
        check("application/vnd.kubernetes.protobuf;q=0.5, application/json", (Json, Object), Json);
        check(
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
            (Protobuf, Metadata(MetaVersion::V1)),
            Json,
        );
        let table = "as=Table;g=meta.k8s.io;v=v1";
        check(
            &format!("application/vnd.kubernetes.protobuf;{table},application/json;{table}"),
            (Json, Table(MetaVersion::V1)),
            Json,
        );
        check(
            &format!("application/vnd.kubernetes.protobuf;{table},application/vnd.kubernetes.protobuf"),
            (Protobuf, Object),
            Protobuf,
        );
    }

    #[test]
    fn unsupported_media_types_are_refused() {
        for accept in [
            "application/yaml",
            "application/json;as=Table;v=v1;g=x",
            "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1",
            "application/json;stream=other",
        ] {
            assert_eq!(negotiate(accept, false, true).unwrap_err().code, 406, "{accept}");
            assert_eq!(negotiate_error("text/yaml"), Encoding::Json, "{accept}");
        }
        let protobuf = "application/vnd.kubernetes.protobuf";
        assert_eq!(
            negotiate(protobuf, true, false).unwrap_err().message,
            "only the following media types are accepted: application/json;stream=watch"
        );
        let both = format!("{protobuf}, application/json");
        assert_eq!(negotiate(&both, false, false), Ok((Encoding::Json, Representation::Object)));
        assert_eq!(
            negotiate("text/html", true, true).unwrap_err().message,
            "only the following media types are accepted: application/json;stream=watch, \
             application/vnd.kubernetes.protobuf;stream=watch"
        );
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
