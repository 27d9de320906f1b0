//! The encodings in which the client sends objects and asks for them.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube_endpoint_core_model::protobuf;
use parking_lot::Mutex;

/// An encoding of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentType {
    /// Kubernetes' protobuf, which costs client and server least. The server may answer in JSON.
    #[default]
    Protobuf,
    Json,
}

impl ContentType {
    /// All encodings.
    pub const ALL: [Self; 2] = [Self::Protobuf, Self::Json];

    /// Returns the media type.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Protobuf => protobuf::CONTENT_TYPE,
            Self::Json => "application/json",
        }
    }

    /// Returns the value of `Accept` that asks for objects.
    pub fn accept(self) -> &'static str {
        match self {
            Self::Protobuf => "application/vnd.kubernetes.protobuf,application/json",
            Self::Json => "application/json",
        }
    }

    /// Returns the value of `Accept` that asks for the metadata of objects only. A server that does
    /// not know that form answers with whole objects.
    pub const fn accept_metadata(self) -> &'static str {
        match self {
            Self::Protobuf => {
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,\
                 application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
            }
            Self::Json => "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json",
        }
    }

    /// Returns the encoding of an answer by its `Content-Type`: JSON, unless it is protobuf.
    pub fn of_answer(headers: &http::HeaderMap) -> Self {
        let value =
            headers.get(http::header::CONTENT_TYPE).map(http::HeaderValue::as_bytes).unwrap_or_default();
        if value == protobuf::CONTENT_TYPE.as_bytes() {
            return Self::Protobuf;
        }
        let media_type = value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if media_type.eq_ignore_ascii_case(protobuf::CONTENT_TYPE.as_bytes()) {
            Self::Protobuf
        } else {
            Self::Json
        }
    }
}

/// The encoding of a client, and the resources for which the server refused it. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encodings {
    wanted: ContentType,
    json_only: Arc<Mutex<BTreeSet<String>>>,
}

impl Encodings {
    pub(crate) fn new(wanted: ContentType) -> Self {
        Self { wanted, json_only: Arc::default() }
    }

    pub(crate) fn wanted(&self) -> ContentType {
        self.wanted
    }

    pub(crate) fn of(&self, resource: &str) -> ContentType {
        match self.wanted {
            ContentType::Protobuf if !self.json_only.lock().contains(resource) => ContentType::Protobuf,
            _ => ContentType::Json,
        }
    }

    pub(crate) fn refused(&self, resource: &str, sent: ContentType, code: u16) -> bool {
        if sent == ContentType::Json || !matches!(code, 406 | 415) {
            return false;
        }
        if self.json_only.lock().insert(resource.to_owned()) {
            tracing::warn!(
                resource,
                code,
                "the API server refuses protobuf for this resource; JSON is used from now on"
            );
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, HeaderValue, header::CONTENT_TYPE};

    #[test]
    fn the_encoding_of_an_answer_is_its_media_type() {
        let check = |value: &'static str, want: ContentType| {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(value))]);
            assert_eq!(ContentType::of_answer(&headers), want, "{value}");
        };
        check("application/vnd.kubernetes.protobuf", ContentType::Protobuf);
        check("application/vnd.kubernetes.protobuf;stream=watch", ContentType::Protobuf);
        check("Application/vnd.kubernetes.Protobuf ; x=y", ContentType::Protobuf);
        check("application/vnd.kubernetes.protobufs", ContentType::Json);
        check("application/json", ContentType::Json);
        check("text/html", ContentType::Json);
        check("", ContentType::Json);
        assert_eq!(ContentType::of_answer(&HeaderMap::new()), ContentType::Json);
    }

    #[test]
    fn a_refusal_is_of_one_resource() {
        let encodings = Encodings::default();
        let shared = encodings.clone();
        assert!(!encodings.refused("leases", ContentType::Protobuf, 400));
        assert!(!encodings.refused("leases", ContentType::Json, 415));
        assert_eq!(encodings.of("leases"), ContentType::Protobuf);
        assert!(encodings.refused("leases", ContentType::Protobuf, 415));
        assert!(encodings.refused("events", ContentType::Protobuf, 406));
        assert_eq!(shared.of("leases"), ContentType::Json);
        assert_eq!(shared.of("events"), ContentType::Json);
        assert_eq!(shared.of("pods"), ContentType::Protobuf);
        assert_eq!(Encodings::new(ContentType::Json).of("pods"), ContentType::Json);
    }
}
