//! One connection: the TLS handshake, HTTP/1 or HTTP/2, and the time limits.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH};
use http::{HeaderValue, Method, Request, Response, Version};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use crate::authentication::Peer;
use crate::connections::Place;
use crate::event_streams::{AnswerBody, Progress};
use crate::handshakes::Handshakes;
use crate::limits::Limits;
use crate::respond;
use crate::service::{Answered, Service};
use crate::timed_io::TimedIo;

/// The time limit for a connection to end after the server has told it to.
const CLOSING: Duration = Duration::from_secs(5);

/// The state that all connections share.
pub(crate) struct Shared {
    pub(crate) service: Service,
    pub(crate) handshakes: Handshakes,
    pub(crate) limits: Limits,
}

/// The state that the requests of one connection share.
struct State {
    shared: Arc<Shared>,
    peer: Peer,
    place: Place,
    requests: Mutex<Requests>,
    /// Notified when the server has to close the connection after its answers.
    close: Notify,
}

struct Requests {
    /// The requests that the server is answering, by a number that grows.
    open: BTreeMap<u64, Answering>,
    next: u64,
    idle_since: Instant,
}

/// A request that the server is answering.
struct Answering {
    begun: Instant,
    /// Set if the answer is a stream of events.
    events: Option<Progress>,
}

impl Answering {
    /// Returns the time by which the client must have taken more of the answer.
    fn deadline(&self, limits: &Limits) -> Instant {
        let Some(events) = &self.events else { return self.begun + limits.request };
        let end = self.begun + limits.event_stream + limits.request;
        events.deadline(limits.write).map_or(end, |deadline| deadline.min(end))
    }
}

impl State {
    fn begin(self: &Arc<Self>) -> Open {
        let mut requests = self.requests.lock();
        let number = requests.next;
        requests.next += 1;
        requests.open.insert(number, Answering { begun: Instant::now(), events: None });
        self.place.request_begins();
        Open { state: Arc::clone(self), number, last: false }
    }

    /// Returns true if an answer is a stream of events.
    fn has_events(&self) -> bool {
        self.requests.lock().open.values().any(|answering| answering.events.is_some())
    }

    /// Returns the time at which the connection is too slow, unless by then a request ends, the
    /// client takes an event, or a request begins.
    fn deadline(&self) -> Instant {
        let (requests, limits) = (self.requests.lock(), &self.shared.limits);
        let open = requests.open.values().map(|answering| answering.deadline(limits)).min();
        open.unwrap_or(requests.idle_since + limits.idle)
    }
}

/// A request that has begun. Dropping it ends it.
struct Open {
    state: Arc<State>,
    number: u64,
    /// True if the connection closes after this request.
    last: bool,
}

impl Open {
    /// Notes that the answer is a stream of events, which lasts longer than a request.
    fn streams(&self, events: Progress) {
        if let Some(answering) = self.state.requests.lock().open.get_mut(&self.number) {
            answering.events = Some(events);
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut requests = self.state.requests.lock();
        requests.open.remove(&self.number);
        requests.idle_since = Instant::now();
        self.state.place.request_ends();
        if self.last {
            self.state.close.notify_one();
        }
    }
}

/// The body of an answer. Its request ends when the connection has taken all of it.
struct Counted {
    body: AnswerBody,
    _open: Open,
}

impl Body for Counted {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Pin::new(&mut self.get_mut().body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Serves a connection until it ends. Clients cause most of its errors, so this logs them at the
/// debug level.
pub(crate) async fn serve(stream: TcpStream, shared: Arc<Shared>, place: Place) {
    // The option keeps the kernel from delaying small answers; a socket without it still works.
    let _ = stream.set_nodelay(true);
    let address = place.peer();
    let tls = match timeout(shared.limits.handshake, shared.handshakes.accept(stream, address)).await {
        Ok(Ok(tls)) => tls,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let (_, session) = tls.get_ref();
    let http2 = session.alpn_protocol() == Some(b"h2");
    let chain = session.peer_certificates().unwrap_or_default();
    let state = Arc::new(State {
        peer: Peer::new(chain.to_vec()),
        place,
        requests: Mutex::new(Requests { open: BTreeMap::new(), next: 0, idle_since: Instant::now() }),
        close: Notify::new(),
        shared,
    });
    let limits = &state.shared.limits;
    let io = TokioIo::new(TimedIo::new(tls, limits.write));
    let service = service_fn(|request| answer(Arc::clone(&state), request));
    let ended = if http2 {
        let connection = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .max_concurrent_streams(limits.streams)
            .max_header_list_size(u32::try_from(limits.head_bytes).unwrap_or(u32::MAX))
            .max_pending_accept_reset_streams(limits.pending_resets)
            .max_local_error_reset_streams(limits.pending_resets)
            .initial_stream_window_size(64 * 1024)
            .initial_connection_window_size(64 * 1024)
            .max_send_buf_size(64 * 1024)
            .serve_connection(io, service);
        drive(connection, http2::Connection::graceful_shutdown, &state).await
    } else {
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(limits.head)
            .max_buf_size(limits.head_bytes.max(8192))
            .max_headers(limits.headers)
            .serve_connection(io, service);
        drive(connection, http1::Connection::graceful_shutdown, &state).await
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// Runs a connection of hyper, of either version, until it ends or takes too long.
async fn drive<C: Future<Output = hyper::Result<()>>>(
    connection: C,
    shut_down: fn(Pin<&mut C>),
    state: &State,
) -> hyper::Result<()> {
    let mut connection = pin!(connection);
    let mut close = pin!(state.close.notified());
    let mut closing: Option<Instant> = None;
    let mut alarm = pin!(sleep_until(state.deadline()));
    // Requests begin and end during a poll of the connection, and each moves the deadline.
    poll_fn(|cx| {
        if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
            return Poll::Ready(ended);
        }
        if closing.is_none() && close.as_mut().poll(cx).is_ready() {
            shut_down(connection.as_mut());
            closing = Some(Instant::now() + CLOSING);
            // The next poll begins there.
            cx.waker().wake_by_ref();
        }
        loop {
            let deadline = closing.map_or_else(|| state.deadline(), |end| end.min(state.deadline()));
            // hyper drives an HTTP/2 stream in a task of its own, which does not wake this one when
            // an event begins to wait.
            let recheck = state.has_events().then(|| Instant::now() + state.shared.limits.write);
            let wake = recheck.map_or(deadline, |recheck| recheck.min(deadline));
            if wake != alarm.deadline() {
                alarm.as_mut().reset(wake);
            }
            if alarm.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            if deadline <= Instant::now() {
                tracing::debug!("a connection was closed because its client took too long");
                return Poll::Ready(Ok(()));
            }
        }
    })
    .await
}

async fn answer(state: Arc<State>, request: Request<Incoming>) -> Result<Response<Counted>, hyper::Error> {
    let mut open = state.begin();
    let (parts, body) = request.into_parts();
    let answering = state.shared.service.answer(
        &parts.method,
        &parts.uri,
        &parts.headers,
        !body.is_end_stream(),
        &state.peer,
    );
    // The time limit of the connection is longer, so that the client gets the error.
    let answered = timeout(state.shared.limits.request / 2, answering).await;
    let Answered { answer, authenticated } = answered.unwrap_or_else(|_| Answered {
        answer: respond::internal_error("the answer took too long"),
        authenticated: false,
    });
    let (mut head, mut body) = answer.into_parts();
    if authenticated {
        state.place.authenticated();
    } else if parts.version == Version::HTTP_2 {
        // As upstream, a client without credentials may send one request on a connection, against
        // clients that abuse HTTP/2. The GOAWAY comes after the answer, because some clients take
        // an earlier one as the end of their request.
        open.last = true;
    } else {
        head.headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    if parts.method == Method::HEAD {
        if let Some(length) = body.size_hint().exact() {
            head.headers.insert(CONTENT_LENGTH, length.into());
        }
        body = AnswerBody::whole("");
    }
    if let Some(events) = body.progress() {
        open.streams(events);
    }
    Ok(Response::from_parts(head, Counted { body, _open: open }))
}
