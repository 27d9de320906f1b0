//! Pages that a program adds below a path of its own.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Response, StatusCode};

use crate::access::Access;
use crate::respond;

/// A request for a page below the path of a [`MountedPages`].
#[derive(Clone, Debug)]
pub struct PageRequest {
    /// The decoded path, such as `/ui/api/status`.
    pub path: String,
    /// The query as it was sent, without the question mark; empty if there was none.
    pub query: String,
    pub access: Access,
}

/// The body of a page.
pub enum PageBody {
    Whole(Bytes),
    /// Server-sent events. The server polls the stream for an event only when the client has taken
    /// those before, so the stream can make each event from the state at that time. The server ends
    /// it after [`Limits::event_stream`](crate::Limits::event_stream); a browser then connects
    /// again.
    Events(BoxStream<'static, Event>),
}

/// One server-sent event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The type of the event, without a line break.
    pub name: &'static str,
    /// The data, without a line break, for example JSON in one line.
    pub data: Bytes,
}

impl Event {
    /// Returns the bytes to send.
    pub(crate) fn frame(&self) -> Bytes {
        let mut frame = Vec::with_capacity(self.data.len() + self.name.len() + 16);
        frame.extend_from_slice(b"event: ");
        frame.extend_from_slice(self.name.as_bytes());
        frame.extend_from_slice(b"\ndata: ");
        frame.extend_from_slice(&self.data);
        frame.extend_from_slice(b"\n\n");
        frame.into()
    }
}

/// A page, with its status and headers.
pub type PageAnswer = Response<PageBody>;

/// Answers requests for pages.
pub trait PageHandler: Send + Sync {
    /// Answers a request with GET or HEAD. The answer must come within half of
    /// [`Limits::request`](crate::Limits::request).
    fn answer(&self, request: PageRequest) -> BoxFuture<'static, PageAnswer>;
}

/// Pages of a program: those at a path and below it.
///
/// To read the page at the path, a client needs the right to `get` the path itself; for all pages
/// below, it needs the right to `get` the path with a slash at its end. So a role names both, as in
/// `/ui` and `/ui/*`.
#[derive(Clone)]
pub struct MountedPages {
    prefix: &'static str,
    below: String,
    handler: Arc<dyn PageHandler>,
}

impl MountedPages {
    /// Creates pages at `prefix`, such as `/ui`, and below.
    pub fn new(prefix: &'static str, handler: Arc<dyn PageHandler>) -> Self {
        Self { prefix, below: format!("{prefix}/"), handler }
    }

    /// Returns the path.
    pub fn prefix(&self) -> &'static str {
        self.prefix
    }

    /// Returns true if a decoded path is one of these pages.
    pub(crate) fn contains(&self, path: &str) -> bool {
        path == self.prefix || path.starts_with(&self.below)
    }

    /// Returns the path that a client must be allowed to read. It is one of two, so that no client
    /// can make this process ask the API server about any number of paths.
    pub(crate) fn authorized_path(&self, path: &str) -> &str {
        if path == self.prefix { self.prefix } else { &self.below }
    }

    pub(crate) fn answer(&self, request: PageRequest) -> BoxFuture<'static, PageAnswer> {
        self.handler.answer(request)
    }
}

/// Makes a page of a content type.
pub fn page(content_type: &'static str, body: impl Into<Bytes>) -> PageAnswer {
    let mut answer = Response::new(PageBody::Whole(body.into()));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

/// Makes an answer of server-sent events.
pub fn event_stream(events: BoxStream<'static, Event>) -> PageAnswer {
    let mut answer = Response::new(PageBody::Events(events));
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    answer
}

/// Makes a Kubernetes `Status` with an error. `reason` is its machine-readable reason, such as
/// `NotFound`.
pub fn error_page(code: StatusCode, reason: &str, message: &str) -> PageAnswer {
    page("application/json", respond::status_text(code, reason, message, None)).with_status(code)
}

trait WithStatus {
    fn with_status(self, status: StatusCode) -> Self;
}

impl WithStatus for PageAnswer {
    fn with_status(mut self, status: StatusCode) -> Self {
        *self.status_mut() = status;
        self
    }
}
