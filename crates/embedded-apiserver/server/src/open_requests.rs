//! Counts the requests of a connection that are not answered, so that a connection without one can
//! end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Frame, SizeHint};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use crate::body::{Body, ConnectionReset};

/// The requests of a connection. Clones count for the same connection.
#[derive(Clone)]
pub(crate) struct OpenRequests(Arc<Mutex<State>>);

struct State {
    open: usize,
    /// The time of the latest end of a request, or that of the connection's start.
    quiet_since: Instant,
}

/// An open request. Dropping it ends it.
struct Open(OpenRequests);

impl Drop for Open {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        state.open -= 1;
        state.quiet_since = Instant::now();
    }
}

/// The body of an answer. Its request ends when the connection has taken all of it.
struct Counted {
    body: Body,
    _open: Open,
}

impl http_body::Body for Counted {
    type Data = Bytes;
    type Error = ConnectionReset;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionReset>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl OpenRequests {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(State { open: 0, quiet_since: Instant::now() })))
    }

    /// Counts a request as open until the whole body of its answer is sent.
    pub(crate) fn while_open<F, E>(&self, answering: F) -> impl Future<Output = F::Output> + use<F, E>
    where
        F: Future<Output = Result<Response<Body>, E>>,
    {
        self.0.lock().open += 1;
        let open = Open(self.clone());
        async move {
            let answer = answering.await?;
            Ok(answer.map(|body| Counted { body, _open: open }.boxed_unsync()))
        }
    }

    /// Waits until no request was open for a time.
    pub(crate) async fn none_for(&self, time: Duration) {
        loop {
            let end = {
                let state = self.0.lock();
                let since = if state.open > 0 { Instant::now() } else { state.quiet_since };
                since + time
            };
            if end <= Instant::now() {
                return;
            }
            sleep_until(end).await;
        }
    }
}
