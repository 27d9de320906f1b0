//! Makes answers in protobuf.

use std::iter::Peekable;
use std::sync::Arc;

use bytes::Bytes;
use futures::{TryStreamExt, stream};
use http::StatusCode;
use kube_endpoint_apiserver_printers::represent::{Encoding, Representation};
use kube_endpoint_apiserver_rules::resource::Resource;
use kube_endpoint_apiserver_rules::status::Status;
use serde_json::Value;

use super::Form;
use crate::answer::{self, Answer};
use crate::body::{self, ConnectionReset};
use crate::protobuf::Type;
use crate::store::Stored;

/// How many bytes of a list the task encodes before it yields.
const CHUNK: usize = 64 * 1024;

/// Returns the event, or an ERROR event if encoding it failed.
pub(super) fn event_or_error(event: Result<Vec<u8>, Status>) -> Bytes {
    let failed = |status: Status| {
        let error = status.to_json();
        // `Status` is in the table, and its JSON has the types of its fields.
        Type::of(&error).event("ERROR", &error).unwrap_or_default()
    };
    event.unwrap_or_else(failed).into()
}

impl Form {
    /// Returns the type for encoding stored JSON, or `None` for JSON.
    pub(super) fn protobuf_type(self, resource: &Resource) -> Option<Type> {
        (self.encoding == Encoding::Protobuf).then(|| match self.representation {
            Representation::Metadata(version) => Type::new(version.api_version(), "PartialObjectMetadata"),
            _ => Type::new(resource.api_version(), resource.kind),
        })
    }

    /// Answers with a list. The length of the list precedes its items, so this encodes all items
    /// before it sends the first. It encodes a list longer than one chunk while the client reads
    /// the answer, and yields after each chunk.
    pub(crate) fn protobuf_list<I>(
        self,
        resource: &'static Resource,
        metadata: &Value,
        objects: I,
    ) -> Result<Answer, Status>
    where
        I: Iterator<Item = Arc<Stored>> + Send + 'static,
    {
        let (list, item) = match self.representation {
            Representation::Metadata(version) | Representation::MetadataList(version) => (
                Type::new(version.api_version(), "PartialObjectMetadataList"),
                Type::new(version.api_version(), "PartialObjectMetadata"),
            ),
            _ => (
                Type::new(resource.api_version(), format!("{}List", resource.kind)),
                Type::new(resource.api_version(), resource.kind),
            ),
        };
        let mut items = Items { objects: objects.peekable(), item };
        let first = items.chunk()?;
        if items.objects.peek().is_none() {
            let (start, end) = list.list(metadata, first.len())?;
            let bytes = [start, first, end].concat();
            return Ok(answer::encoded(self.encoding, StatusCode::OK, bytes));
        }
        let metadata = metadata.clone();
        let chunks = async move {
            let encoded = async {
                let mut chunks = vec![Bytes::new(), first];
                while items.objects.peek().is_some() {
                    tokio::task::yield_now().await;
                    chunks.push(items.chunk()?);
                }
                let (start, end) = list.list(&metadata, chunks.iter().map(Bytes::len).sum())?;
                chunks[0] = start;
                chunks.push(end);
                Ok(chunks)
            };
            match encoded.await {
                Ok(chunks) => Ok(stream::iter(chunks.into_iter().map(Ok))),
                Err::<_, Status>(status) => {
                    tracing::error!(error = %status, "a list cannot be encoded as protobuf");
                    Err(ConnectionReset)
                }
            }
        };
        let body = body::stream(stream::once(chunks).try_flatten());
        Ok(answer::stream(self.encoding.media_type(), body))
    }
}

struct Items<I: Iterator> {
    objects: Peekable<I>,
    item: Type,
}

impl<I: Iterator<Item = Arc<Stored>>> Items<I> {
    /// Encodes the next items.
    fn chunk(&mut self) -> Result<Bytes, Status> {
        let mut chunk = Vec::new();
        while chunk.len() < CHUNK {
            let Some(object) = self.objects.next() else { break };
            let text = object.bytes();
            self.item.item(&mut serde_json::Deserializer::from_slice(&text), &mut chunk)?;
        }
        Ok(chunk.into())
    }
}
