//! Reads the answers to requests.

use kube_endpoint_api_client::ContentType;
use kube_endpoint_core_model::protobuf::{self, Envelope};
use kube_endpoint_core_model::{Interner, ObjectMeta, ResourceVersion};
use serde::{Deserialize, Deserializer};

use crate::error::WriteError;
use crate::send::Answer;

/// The fault of an answer that is no stored object.
const NO_VERSION: &str = "it has no resourceVersion";

/// The metadata of an object on the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct PartialObjectMetadata {
    pub metadata: ObjectMeta,
}

impl PartialObjectMetadata {
    /// Reads the metadata from an answer, which may have the whole object.
    pub(super) fn read(answer: &Answer, path: &str) -> Result<Self, WriteError> {
        let read: Self = match answer.content_type {
            ContentType::Json => {
                serde_json::from_slice(&answer.body).map_err(|error| unreadable(path, &error))?
            }
            ContentType::Protobuf => {
                let envelope = Envelope::read(&answer.body).map_err(|error| unreadable(path, &error))?;
                let metadata = protobuf::object_meta(envelope.object, &mut Interner::default());
                Self { metadata: metadata.map_err(|error| unreadable(path, &error))? }
            }
        };
        // A `Status` has metadata, too.
        if read.version().is_none() { Err(unreadable(path, &NO_VERSION)) } else { Ok(read) }
    }

    /// The resource version.
    pub fn version(&self) -> ResourceVersion {
        self.metadata.resource_version
    }
}

/// A page of a list that has the metadata of the objects only. `M` reads the metadata of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataPage<M> {
    pub items: Vec<M>,
    /// The token of the next page; `None` after the last one.
    pub next: Option<String>,
}

#[derive(Deserialize)]
struct RawPage<M> {
    metadata: RawPageMeta,
    /// An empty list may be null.
    items: Option<Vec<RawItem<M>>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPageMeta {
    #[serde(rename = "continue")]
    token: String,
}

#[derive(Deserialize)]
struct RawItem<M> {
    metadata: M,
}

impl<'de, M: Deserialize<'de>> Deserialize<'de> for MetadataPage<M> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let RawPage { metadata, items } = RawPage::deserialize(deserializer)?;
        let items = items.into_iter().flatten().map(|item| item.metadata).collect();
        Ok(Self { items, next: Some(metadata.token).filter(|token| !token.is_empty()) })
    }
}

/// The part of the answer to a write that is read.
#[derive(Deserialize)]
struct Stored {
    metadata: StoredMeta,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StoredMeta {
    resource_version: ResourceVersion,
}

/// Reads the version that a write has stored from an answer, which may have the whole object.
///
/// # Errors
///
/// If the answer has no version, as a Status has none.
pub(super) fn stored_version(answer: &Answer, path: &str) -> Result<ResourceVersion, WriteError> {
    let version = match answer.content_type {
        ContentType::Json => {
            let stored: Stored =
                serde_json::from_slice(&answer.body).map_err(|error| unreadable(path, &error))?;
            stored.metadata.resource_version
        }
        ContentType::Protobuf => {
            let envelope = Envelope::read(&answer.body).map_err(|error| unreadable(path, &error))?;
            protobuf::resource_version(envelope.object).map_err(|error| unreadable(path, &error))?
        }
    };
    if version.is_none() { Err(unreadable(path, &NO_VERSION)) } else { Ok(version) }
}

/// The error for an answer that is not what was asked for. Nobody knows if the request had an
/// effect.
pub(super) fn unreadable(path: &str, error: &dyn std::fmt::Display) -> WriteError {
    WriteError::Unknown(format!("the answer to {path} cannot be read: {error}"))
}
