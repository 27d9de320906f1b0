//! The HTTP/1 connections of writes; [`http1`](crate::http1) says which writes go over them.
//!
//! hyper-util's pool would do. But for each request it clones the connector and the address, makes the future of a connection that
//! is not needed, and starts a task that waits until the answer has been read (docs/performance.md).

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

/// A connection that was idle for this long is not used again, and closed soon. API servers close theirs after 90 s and load
/// balancers after a minute or more. If a server closes a connection while a request is on its way, nobody knows whether the request
/// was carried out.
const IDLE: Duration = Duration::from_secs(30);

/// So many connections are made at a time. A server that does not answer must not cause any number of them.
const MOST_AT_A_TIME: usize = WRITES;

/// An attempt to make a connection ends after this time, also if the configuration has no limit: it does not end with its request.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(30);

/// A request that waits for a new connection looks for a free one after this time, then after twice as long each time up to
/// [`LONGEST_PAUSE`]. So an address that does not answer delays it little.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(8);

/// Connections to one server. A request takes one that is free, the one that was used last, or opens one, and takes another that
/// becomes free meanwhile. They close when the last clone is dropped, those with a request under way when it is answered.
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
    /// Whether a task closes what is idle for too long.
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

    /// Begins to make a connection, unless enough are being made. It is kept if nobody waits for it any more.
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
mod tests {
    use std::io::{Error, ErrorKind};
    use std::pin::Pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use http_body_util::BodyExt;
    use hyper::rt::ReadBufCursor;
    use hyper_util::rt::TokioIo;
    use kube_endpoint_core_model::causes;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::sync::mpsc;
    use tower::service_fn;

    use super::*;

    #[test]
    fn the_port_of_the_scheme_is_left_out_of_the_host() {
        let check = |server: &'static str, want: &str| {
            assert_eq!(host_of(&Uri::from_static(server)).as_deref(), Some(want));
        };
        check("https://api.example:6443", "api.example:6443");
        check("https://api.example:443/prefix", "api.example");
        check("https://api.example", "api.example");
        check("http://api.example:80", "api.example");
        check("http://api.example:443", "api.example:443");
        check("https://[2001:db8::1]:6443", "[2001:db8::1]:6443");
    }

    type Connected = TokioIo<DuplexStream>;

    /// Connections of which the server's ends come out of a channel; after so many, none comes about.
    fn connections(
        most: usize,
    ) -> (
        WriteConnections<
            impl Service<Uri, Response = Connected, Error = BoxError, Future: Send> + Clone + Send + Sync,
        >,
        mpsc::UnboundedReceiver<DuplexStream>,
        Arc<AtomicUsize>,
    ) {
        let (ends, servers) = mpsc::unbounded_channel();
        let asked = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&asked);
        let connector = service_fn(move |_: Uri| {
            let number = counter.fetch_add(1, Ordering::Relaxed);
            let (client, server) = duplex(1 << 16);
            drop(ends.send(server));
            async move {
                if number >= most {
                    std::future::pending::<()>().await;
                }
                Ok::<_, BoxError>(TokioIo::new(client))
            }
        });
        (WriteConnections::new(connector, Uri::from_static("http://api.example:8080")), servers, asked)
    }

    fn write() -> Request<Body> {
        Request::put("http://api.example:8080/api/v1/x?y=z").body(Body::from(b"body".to_vec())).unwrap()
    }

    /// Reads a request and answers it after some time. Returns its text.
    async fn answer(server: &mut DuplexStream, after: Duration) -> String {
        let mut request = Vec::new();
        while !request.ends_with(b"body") {
            request.push(server.read_u8().await.unwrap());
        }
        sleep(after).await;
        server.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.unwrap();
        String::from_utf8(request).unwrap()
    }

    async fn text(answer: Result<Response<Incoming>, RequestError>) -> String {
        String::from_utf8(answer.unwrap().into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_connects_takes_a_connection_that_becomes_free() {
        let (mut writes, mut servers, asked) = connections(1);
        let start = Instant::now();
        tokio::spawn(async move {
            let mut server = servers.recv().await.unwrap();
            for _ in 0..3 {
                answer(&mut server, Duration::from_millis(100)).await;
            }
        });
        let answers = join_all((0..3).map(|_| text_of(writes.call(write())))).await;
        assert_eq!(answers, ["ok"; 3]);
        assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
        assert_eq!(asked.load(Ordering::Relaxed), 3);
    }

    async fn text_of(answer: BoxFuture<'static, Result<Response<Incoming>, RequestError>>) -> String {
        text(answer.await).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_does_not_answer_causes_few_connections() {
        let (mut writes, _servers, asked) = connections(0);
        for _ in 0..10 {
            let given_up =
                join_all((0..100).map(|_| timeout(Duration::from_secs(1), writes.call(write())))).await;
            assert!(given_up.iter().all(Result::is_err));
        }
        assert_eq!(asked.load(Ordering::Relaxed), MOST_AT_A_TIME);
        sleep(LONGEST_ATTEMPT).await;
        assert!(timeout(Duration::from_secs(1), writes.call(write())).await.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), MOST_AT_A_TIME + 1, "these attempts have ended");
    }

    #[tokio::test(start_paused = true)]
    async fn writes_that_wait_for_one_connection_take_it_soon_after_one_another() {
        let (mut writes, mut servers, _) = connections(1);
        let start = Instant::now();
        tokio::spawn(async move {
            let mut server = servers.recv().await.unwrap();
            for _ in 0..WRITES {
                answer(&mut server, Duration::from_millis(3)).await;
            }
        });
        let answers = join_all((0..WRITES).map(|_| text_of(writes.call(write())))).await;
        assert_eq!(answers, ["ok"; WRITES]);
        // They take 24 ms by themselves.
        assert!(start.elapsed() < Duration::from_millis(80), "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_whose_own_attempt_fails_takes_a_free_connection() {
        let (ends, mut servers) = mpsc::unbounded_channel();
        let asked = Arc::new(AtomicUsize::new(0));
        let connector = service_fn(move |_: Uri| {
            let is_first = asked.fetch_add(1, Ordering::Relaxed) == 0;
            let (client, server) = duplex(1 << 16);
            drop(ends.send(server));
            async move {
                if is_first {
                    return Ok(TokioIo::new(client));
                }
                // After the second look, before the third.
                sleep(Duration::from_millis(5)).await;
                Err::<Connected, BoxError>("refused".into())
            }
        });
        let mut writes = WriteConnections::new(connector, Uri::from_static("http://api.example:8080"));
        tokio::spawn(async move {
            let mut server = servers.recv().await.unwrap();
            for _ in 0..2 {
                answer(&mut server, Duration::from_millis(4)).await;
            }
        });
        let (first, second) = (writes.call(write()), writes.call(write()));
        assert_eq!(tokio::join!(text_of(first), text_of(second)), ("ok".to_owned(), "ok".to_owned()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_nobody_waits_for_any_more_is_kept() {
        let (mut writes, mut servers, asked) = connections(2);
        // The first connection is made, and the request is given up before it is sent.
        drop(futures::poll!(writes.call(write())));
        sleep(FIRST_PAUSE).await;
        let mut server = servers.recv().await.unwrap();
        let (answered, _) = tokio::join!(text_of(writes.call(write())), answer(&mut server, Duration::ZERO));
        assert_eq!((&*answered, asked.load(Ordering::Relaxed)), ("ok", 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_was_not_sent_is_sent_once_over_another_connection() {
        let (mut writes, mut servers, asked) = connections(2);
        let first = tokio::spawn(writes.call(write()));
        let mut server = servers.recv().await.unwrap();
        let sent = answer(&mut server, Duration::ZERO).await;
        insta::assert_snapshot!(sent.replace("\r\n", "\n"), @r"
        PUT /api/v1/x?y=z HTTP/1.1
        host: api.example:8080
        content-length: 4

        body
        ");
        assert_eq!(text(first.await.unwrap()).await, "ok");
        sleep(Duration::from_millis(1)).await;
        // The task of the connection does not run before the next request is handed to it.
        drop(server);
        let mut second = writes.call(write());
        assert!(futures::poll!(&mut second).is_pending());
        assert_eq!(asked.load(Ordering::Relaxed), 1, "the connection looked usable");
        let second = tokio::spawn(second);
        let another = timeout(Duration::from_secs(1), servers.recv()).await;
        let mut server = another.expect("there is no other connection").unwrap();
        assert_eq!(answer(&mut server, Duration::ZERO).await, sent);
        assert_eq!(text(second.await.unwrap()).await, "ok");
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    }

    /// A connection that is reset at once.
    struct Reset;

    impl Read for Reset {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: ReadBufCursor<'_>,
        ) -> Poll<Result<(), Error>> {
            Poll::Ready(Err(ErrorKind::ConnectionReset.into()))
        }
    }

    impl Write for Reset {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Error>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_reason_why_a_new_connection_ended_is_told() {
        let connector = service_fn(|_: Uri| std::future::ready(Ok::<_, BoxError>(Reset)));
        let mut writes = WriteConnections::new(connector, Uri::from_static("http://api.example:8080"));
        let error = writes.call(write()).await.unwrap_err();
        assert!(error.is_connect());
        insta::assert_snapshot!(causes(&error), @"no connection: connection error: connection reset");
    }
}
