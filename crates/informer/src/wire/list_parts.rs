//! The parts of an answer in either encoding: the items of a list, the events of a watch.

use bytes::Bytes;
use kube_endpoint_api_client::ContentType;

use crate::Object;
use crate::error::{ListWatchError, excerpt};
use crate::wire::decode::{self, Frame, Page, Raw};
use crate::wire::frame_splitter::FrameSplitter;
use crate::wire::line_splitter::LineSplitter;
use crate::wire::protobuf_list::ProtobufList;
use crate::wire::protobuf_watch;

/// The most bytes of a page in JSON. A page has 500 objects, unless the server cannot continue a
/// list.
const MAX_JSON_PAGE: usize = 256 << 20;

/// The items of a list. Those in protobuf are cut out of the answer while it arrives. JSON is for
/// EndpointSelectors, and for servers and settings without protobuf, so each page is read whole.
pub(crate) enum ListParts {
    Json(Vec<u8>),
    Protobuf(Box<ProtobufList>),
}

impl ListParts {
    pub(crate) fn new(content_type: ContentType, list_kind: &'static str) -> Self {
        match content_type {
            ContentType::Json => Self::Json(Vec::new()),
            ContentType::Protobuf => Self::Protobuf(Box::new(ProtobufList::new(list_kind))),
        }
    }

    /// Adds the next chunk, and hands complete items to `use_item`.
    pub(crate) fn push(
        &mut self,
        chunk: Bytes,
        mut use_item: impl FnMut(Raw<'_>),
    ) -> Result<(), ListWatchError> {
        match self {
            Self::Json(page) if page.len() + chunk.len() > MAX_JSON_PAGE => {
                let text = excerpt(page);
                Err(ListWatchError::InvalidResponse(format!("more than {MAX_JSON_PAGE} bytes: {text}")))
            }
            Self::Json(page) => {
                page.extend_from_slice(&chunk);
                Ok(())
            }
            Self::Protobuf(list) => {
                list.push(chunk);
                while let Some(item) = list.next()? {
                    use_item(Raw::Protobuf(&item));
                }
                Ok(())
            }
        }
    }

    /// Hands the remaining items to `use_item`, and returns the page without them. Call it after
    /// the last chunk.
    pub(crate) fn finish<T: Object>(self, use_item: impl FnMut(Raw<'_>)) -> Result<Page, ListWatchError> {
        match self {
            Self::Json(page) => decode::page::<T>(&decode::text(&page), use_item),
            Self::Protobuf(list) => list.finish(),
        }
    }
}

/// Cuts a watch into its events.
pub(crate) enum WatchParts {
    Json(LineSplitter),
    Protobuf(FrameSplitter),
}

impl WatchParts {
    pub(crate) fn new(content_type: ContentType) -> Self {
        match content_type {
            ContentType::Json => Self::Json(LineSplitter::default()),
            ContentType::Protobuf => Self::Protobuf(FrameSplitter::default()),
        }
    }

    /// Adds the next chunk. Call it after [`next`](Self::next) has returned `None`.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        match self {
            Self::Json(lines) => lines.push(chunk),
            Self::Protobuf(frames) => frames.push(chunk),
        }
    }

    /// Returns the next complete event, or `None` if it needs another chunk.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, ListWatchError> {
        match self {
            Self::Json(lines) => lines.next(),
            Self::Protobuf(frames) => frames.next(),
        }
    }

    /// Decodes an event and hands it to `use_frame`.
    pub(crate) fn with_frame<R>(
        &self,
        event: &[u8],
        use_frame: impl FnOnce(Frame<'_>) -> R,
    ) -> Result<R, ListWatchError> {
        match self {
            Self::Json(_) => {
                let text = decode::text(event);
                Ok(use_frame(decode::frame(&text)?))
            }
            Self::Protobuf(_) => Ok(use_frame(protobuf_watch::frame(event)?)),
        }
    }
}
