//! The parts of an answer in either encoding: the items of a list, the events of a watch.

use bytes::Bytes;
use kube_endpoint_api_client::ContentType;

use crate::Object;
use crate::error::ListWatchError;
use crate::wire::decode::{self, Frame, Page};
use crate::wire::frame_splitter::FrameSplitter;
use crate::wire::line_splitter::LineSplitter;
use crate::wire::list_splitter::ListSplitter;
use crate::wire::protobuf_list::ProtobufList;
use crate::wire::protobuf_watch;

/// Cuts a list into its items while it arrives.
pub(crate) enum ListParts {
    Json(ListSplitter),
    Protobuf(Box<ProtobufList>),
}

impl ListParts {
    pub(crate) fn new(content_type: ContentType, list_kind: &'static str) -> Self {
        match content_type {
            ContentType::Json => Self::Json(ListSplitter::default()),
            ContentType::Protobuf => Self::Protobuf(Box::new(ProtobufList::new(list_kind))),
        }
    }

    /// Adds the next chunk. Call it after [`next`](Self::next) has returned `None`.
    pub(crate) fn push(&mut self, chunk: Bytes) {
        match self {
            Self::Json(list) => list.push(chunk),
            Self::Protobuf(list) => list.push(chunk),
        }
    }

    /// Returns the next complete item, or `None` if it needs another chunk.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, ListWatchError> {
        match self {
            Self::Json(list) => list.next(),
            Self::Protobuf(list) => list.next(),
        }
    }

    /// Returns the page without its items. Call it after the last chunk.
    pub(crate) fn finish<T: Object>(self) -> Result<Page, ListWatchError> {
        match self {
            Self::Json(list) => decode::page::<T>(&decode::text(&list.finish())),
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
