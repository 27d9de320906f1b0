//! Response bodies: one buffer, or a stream of chunks.

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};

/// The connection broke while the client read a response. Only faults cause this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection reset while the answer was being read")]
pub struct ConnectionReset;

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, ConnectionReset>;

/// Returns a body of one buffer, whose length is known.
pub(crate) fn once(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// Returns a streamed body.
pub(crate) fn stream(chunks: impl Stream<Item = Result<Bytes, ConnectionReset>> + Send + 'static) -> Body {
    StreamBody::new(chunks.map_ok(Frame::data)).boxed_unsync()
}
