//! Response bodies: one buffer, or a stream of chunks.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::Stream;
use http_body::{Frame, SizeHint};

/// The connection broke while a response was being read; only faults cause this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("connection reset while the answer was being read")]
pub struct ConnectionReset;

type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, ConnectionReset>> + Send>>;

enum Kind {
    Once(Option<Bytes>),
    Stream(Chunks),
}

/// The body of a response.
pub struct Body(Kind);

impl Body {
    /// A body of one buffer, whose length is known.
    pub(crate) fn once(bytes: impl Into<Bytes>) -> Self {
        Self(Kind::Once(Some(bytes.into())))
    }

    /// A streamed body.
    pub(crate) fn stream(
        chunks: impl Stream<Item = Result<Bytes, ConnectionReset>> + Send + 'static,
    ) -> Self {
        Self(Kind::Stream(Box::pin(chunks)))
    }
}

impl std::fmt::Debug for Body {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self.0 {
            Kind::Once(_) => "Body::Once",
            Kind::Stream(_) => "Body::Stream",
        })
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = ConnectionReset;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionReset>>> {
        match &mut self.0 {
            Kind::Once(bytes) => {
                Poll::Ready(bytes.take().filter(|b| !b.is_empty()).map(|b| Ok(Frame::data(b))))
            }
            Kind::Stream(chunks) => {
                chunks.as_mut().poll_next(context).map(|next| next.map(|chunk| chunk.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Kind::Once(bytes) => bytes.as_ref().is_none_or(Bytes::is_empty),
            Kind::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Kind::Once(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Kind::Stream(_) => SizeHint::default(),
        }
    }
}
