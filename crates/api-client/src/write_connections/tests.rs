//! A server that the tests play, on a paused clock.

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

/// Answers so many requests, each after this time.
fn serve(mut servers: mpsc::UnboundedReceiver<DuplexStream>, requests: usize, after: Duration) {
    tokio::spawn(async move {
        let mut server = servers.recv().await.unwrap();
        for _ in 0..requests {
            answer(&mut server, after).await;
        }
    });
}

async fn text_of(answer: BoxFuture<'static, Result<Response<Incoming>, RequestError>>) -> String {
    let body = answer.await.unwrap().into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_request_that_connects_takes_a_connection_that_becomes_free() {
    let (mut writes, servers, asked) = connections(1);
    let start = Instant::now();
    serve(servers, 3, Duration::from_millis(100));
    let answers = join_all((0..3).map(|_| text_of(writes.call(write())))).await;
    assert_eq!(answers, ["ok"; 3]);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(asked.load(Ordering::Relaxed), 3);
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
    let (mut writes, servers, _) = connections(1);
    let start = Instant::now();
    serve(servers, WRITES, Duration::from_millis(3));
    let answers = join_all((0..WRITES).map(|_| text_of(writes.call(write())))).await;
    assert_eq!(answers, ["ok"; WRITES]);
    // They take 24 ms by themselves.
    assert!(start.elapsed() < Duration::from_millis(80), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_own_attempt_fails_takes_a_free_connection() {
    let (ends, servers) = mpsc::unbounded_channel();
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
    serve(servers, 2, Duration::from_millis(4));
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
    let first = tokio::spawn(text_of(writes.call(write())));
    let mut server = servers.recv().await.unwrap();
    let sent = answer(&mut server, Duration::ZERO).await;
    insta::assert_snapshot!(sent.replace("\r\n", "\n"), @r"
    PUT /api/v1/x?y=z HTTP/1.1
    host: api.example:8080
    content-length: 4

    body
    ");
    assert_eq!(first.await.unwrap(), "ok");
    sleep(Duration::from_millis(1)).await;
    // The task of the connection does not run before the next request is handed to it.
    drop(server);
    let mut second = writes.call(write());
    assert!(futures::poll!(&mut second).is_pending());
    assert_eq!(asked.load(Ordering::Relaxed), 1, "the connection looked usable");
    let second = tokio::spawn(text_of(second));
    let another = timeout(Duration::from_secs(1), servers.recv()).await;
    let mut server = another.expect("there is no other connection").unwrap();
    assert_eq!(answer(&mut server, Duration::ZERO).await, sent);
    assert_eq!(second.await.unwrap(), "ok");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

/// A connection that is reset at once.
struct Reset;

impl Read for Reset {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, _: ReadBufCursor<'_>) -> Poll<Result<(), Error>> {
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
