//! The HTTP/1 connections of writes; [`http1`](crate::http1) says which writes go over them.
//!
//! hyper-util's pool would do. But for each request it clones the connector and the address, makes
//! the future of a connection that is not needed, and starts a task that waits until the answer has
//! been read (docs/performance.md).

use std::sync::{Arc, Weak};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http::header::HOST;
use http::uri::PathAndQuery;
use http::{HeaderValue, Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::rt::{Read, Write};
use kube::client::Body;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Duration, Instant, sleep, timeout};
use tower::{BoxError, Service, ServiceExt};

use crate::error::RequestError;
use crate::http1::WRITES;

/// A connection that was idle for this long is not used again, and closed soon. API servers close
/// theirs after 90 s and load balancers after a minute or more. If a server closes a connection
/// while a request is on its way, nobody knows whether the request was carried out.
const IDLE: Duration = Duration::from_secs(30);

/// So many connections are made at a time. A server that does not answer must not cause any number
/// of them.
const MOST_AT_A_TIME: usize = WRITES;

/// An attempt to make a connection ends after this time, also if the configuration has no limit: it
/// does not end with its request.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(30);

/// A request that waits for a new connection looks for a free one after this time, then after twice
/// as long each time up to [`LONGEST_PAUSE`]. So an address that does not answer delays it little.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(8);

/// Connections to one server. A request takes one that is free, the one that was used last, or
/// opens one, and takes another that becomes free meanwhile. They close when the last clone is
/// dropped, those with a request under way when it is answered.
pub(crate) struct WriteConnections<C>(Arc<Shared<C>>);

impl<C> Clone for WriteConnections<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

struct Shared<C> {
    connector: C,
    server: Uri,
    /// None if the server's address is no valid header, which fails before.
    host: Option<HeaderValue>,
    unused: Arc<Unused>,
}

/// Connections whose last request was answered. The answer may not have been read to its end.
#[derive(Default)]
struct Unused(Mutex<State>);

#[derive(Default)]
struct State {
    connections: Vec<Connection>,
    /// How many are being made.
    making: usize,
    /// True if a task closes what is idle for too long.
    is_watched: bool,
}

struct Connection {
    sender: SendRequest<Body>,
    last_answer: Instant,
}

impl<C> WriteConnections<C> {
    /// No connection is opened yet. `connector` gets the server's address.
    pub(crate) fn new(connector: C, server: Uri) -> Self {
        let host = host_of(&server).and_then(|host| HeaderValue::try_from(host).ok());
        Self(Arc::new(Shared { connector, server, host, unused: Arc::default() }))
    }
}

/// The value of `Host`: the port is left out if it is the scheme's.
fn host_of(server: &Uri) -> Option<String> {
    let host = server.host()?;
    Some(match (server.scheme_str(), server.port_u16()) {
        (_, None) | (Some("https"), Some(443)) | (Some("http"), Some(80)) => host.to_owned(),
        (_, Some(port)) => format!("{host}:{port}"),
    })
}

impl<C> Shared<C>
where
    C: Service<Uri, Error = BoxError> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Send + Unpin + 'static,
    C::Future: Send,
{
    async fn connect(&self) -> Result<Connection, RequestError> {
        let stream =
            self.connector.clone().oneshot(self.server.clone()).await.map_err(RequestError::Connect)?;
        let connect = |error: hyper::Error| RequestError::Connect(error.into());
        let (mut sender, connection) = handshake(stream).await.map_err(connect)?;
        let (failed, failure) = oneshot::channel();
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = &error as &dyn std::error::Error, "a connection for writes ended");
                drop(failed.send(error));
            }
        });
        match sender.ready().await {
            Ok(()) => Ok(Connection { sender, last_answer: Instant::now() }),
            // The task knows why.
            Err(closed) => Err(connect(failure.await.unwrap_or(closed))),
        }
    }

    /// A free connection, or a new one; and whether it is new.
    async fn connection(self: &Arc<Self>) -> Result<(Connection, bool), RequestError> {
        let mut making = None;
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(free) = self.unused.take() {
                if let Some(made) = making.as_mut().and_then(no_longer_wanted) {
                    self.unused.put(made);
                }
                return Ok((free, false));
            }
            if making.is_none() {
                making = self.make();
            }
            match &mut making {
                Some(making) => match timeout(pause, making).await {
                    Ok(Ok(Ok(made))) => return Ok((made, true)),
                    Ok(Ok(Err(error))) => {
                        return self.unused.take().map(|free| (free, false)).ok_or(error);
                    }
                    Ok(Err(_)) => return Err(RequestError::Connect("the attempt was interrupted".into())),
                    Err(_) => {}
                },
                None => sleep(pause).await,
            }
            pause = (2 * pause).min(LONGEST_PAUSE);
        }
    }

    /// Begins to make a connection, unless enough are being made. It is kept if nobody waits for it
    /// any more.
    fn make(self: &Arc<Self>) -> Option<oneshot::Receiver<Made>> {
        let making = Making::begin(&self.unused)?;
        let (result, receiver) = oneshot::channel();
        let shared = Arc::clone(self);
        tokio::spawn(async move {
            let made = timeout(LONGEST_ATTEMPT, shared.connect()).await;
            let made = made.unwrap_or_else(|late| Err(RequestError::Connect(late.into())));
            drop(making);
            if let Err(Ok(connection)) = result.send(made) {
                shared.unused.put(connection);
            }
        });
        Some(receiver)
    }

    async fn send(self: Arc<Self>, mut request: Request<Body>) -> Result<Response<Incoming>, RequestError> {
        let path = std::mem::take(request.uri_mut()).into_parts().path_and_query;
        *request.uri_mut() = path.unwrap_or_else(|| PathAndQuery::from_static("/")).into();
        if let Some(host) = &self.host {
            request.headers_mut().entry(HOST).or_insert_with(|| host.clone());
        }
        loop {
            let (mut connection, is_new) = self.connection().await?;
            match connection.sender.try_send_request(request).await {
                Ok(answer) => {
                    connection.last_answer = Instant::now();
                    self.unused.put(connection);
                    return Ok(answer);
                }
                Err(mut error) => match error.take_message() {
                    // The server had closed the connection before anything was sent.
                    Some(unsent) if !is_new => request = unsent,
                    _ => return Err(RequestError::Send(error.into_error())),
                },
            }
        }
    }
}

type Made = Result<Connection, RequestError>;

/// A connection that was made before this call. One that is made later is kept by its task.
fn no_longer_wanted(making: &mut oneshot::Receiver<Made>) -> Option<Connection> {
    making.close();
    making.try_recv().ok()?.ok()
}

/// One of the connections that are being made.
struct Making(Arc<Unused>);

impl Making {
    fn begin(unused: &Arc<Unused>) -> Option<Self> {
        let mut state = unused.0.lock();
        if state.making == MOST_AT_A_TIME {
            return None;
        }
        state.making += 1;
        Some(Self(Arc::clone(unused)))
    }
}

impl Drop for Making {
    fn drop(&mut self) {
        self.0.0.lock().making -= 1;
    }
}

impl Unused {
    /// The free connection that was used last.
    fn take(&self) -> Option<Connection> {
        let mut state = self.0.lock();
        state.close_idle();
        let at = state.connections.iter().rposition(|connection| connection.sender.is_ready())?;
        Some(state.connections.remove(at))
    }

    fn put(self: &Arc<Self>, connection: Connection) {
        let mut state = self.0.lock();
        state.connections.push(connection);
        if !std::mem::replace(&mut state.is_watched, true) {
            tokio::spawn(watch(Arc::downgrade(self)));
        }
    }
}

impl State {
    fn close_idle(&mut self) {
        let now = Instant::now();
        let is_usable =
            |connection: &Connection| !connection.sender.is_closed() && now < connection.last_answer + IDLE;
        self.connections.retain(is_usable);
    }
}

/// Closes idle connections, until none is left.
async fn watch(unused: Weak<Unused>) {
    loop {
        sleep(IDLE).await;
        let Some(unused) = unused.upgrade() else { return };
        let mut state = unused.0.lock();
        state.close_idle();
        if state.connections.is_empty() {
            state.is_watched = false;
            return;
        }
    }
}

impl<C> Service<Request<Body>> for WriteConnections<C>
where
    C: Service<Uri, Error = BoxError> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Send + Unpin + 'static,
    C::Future: Send,
{
    type Response = Response<Incoming>;
    type Error = RequestError;
    type Future = BoxFuture<'static, Result<Response<Incoming>, RequestError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), RequestError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Arc::clone(&self.0).send(request).boxed()
    }
}

#[cfg(test)]
mod tests;
