//! Tests of pages that a program adds, and of streams of server-sent events.
#![expect(clippy::disallowed_methods, reason = "it talks over real sockets")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube_endpoint_serving::{
    Event, Limits, MountedPages, PageAnswer, PageHandler, PageRequest, event_stream, page,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::common::{Client, NOBODY, Running, SCRAPER, start, until};

const SHORT: Duration = Duration::from_millis(300);

/// Pages at `/ui`: they record the requests, and make the events of streams from `state`.
#[derive(Clone, Default)]
pub(crate) struct Mounted {
    pub(crate) state: Arc<AtomicU64>,
    pub(crate) made: Arc<AtomicU64>,
    /// Streams that have begun and not ended.
    pub(crate) open: Arc<AtomicU64>,
}

struct OpenStream(Arc<AtomicU64>);

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Mounted {
    pub(crate) fn pages(&self) -> MountedPages {
        MountedPages::new("/ui", Arc::new(self.clone()))
    }

    pub(crate) fn open(&self) -> u64 {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns a stream with an event every 20 ms: the state, and `filler` bytes.
    fn events(&self, filler: usize) -> PageAnswer {
        self.open.fetch_add(1, Ordering::Relaxed);
        let (this, guard) = (self.clone(), OpenStream(Arc::clone(&self.open)));
        let events = stream::unfold((this, guard), move |(this, guard)| async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            this.made.fetch_add(1, Ordering::Relaxed);
            let data = format!("{}{}", this.state.load(Ordering::Relaxed), " ".repeat(filler));
            Some((Event { name: "status", data: data.into() }, (this, guard)))
        });
        event_stream(events.boxed())
    }
}

impl PageHandler for Mounted {
    fn answer(&self, request: PageRequest) -> BoxFuture<'static, PageAnswer> {
        let this = self.clone();
        async move {
            match (&*request.path, request.query.parse::<usize>()) {
                ("/ui/events", filler) => this.events(filler.unwrap_or_default()),
                ("/ui/may", _) => {
                    let namespace = Some(&*request.query).filter(|namespace| !namespace.is_empty());
                    let may = request.access.may_list("discovery.k8s.io", "endpointslices", namespace).await;
                    page("text/plain", format!("{may:?}"))
                }
                ("/ui/who", _) => page("text/plain", format!("{:?}", request.access.reader())),
                (path, _) => page("text/plain", path.to_owned()),
            }
        }
        .boxed()
    }
}

/// Returns a server with these limits.
async fn with_limits(change: impl FnOnce(&mut Limits)) -> Running {
    start(|options| change(&mut options.limits)).await
}

/// Opens a stream over HTTP/1.1 and reads its head.
async fn open(server: &Running, target: &str) -> TlsStream<TcpStream> {
    let mut stream = Client::default().connect(server.address).await.unwrap();
    let request =
        format!("GET {target} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SCRAPER}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    stream
}

/// Reads until a text has arrived.
async fn read_until(stream: &mut TlsStream<TcpStream>, wanted: &str) -> String {
    let (mut text, mut seen) = (String::new(), 0);
    // This does not search the same text twice: it may be megabytes.
    while !text[seen..].contains(wanted) {
        seen = text.len().saturating_sub(wanted.len());
        let mut bytes = [0; 4096];
        let read = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut bytes)).await;
        let read = read.expect("nothing arrives").unwrap();
        assert!(read > 0, "the connection ended: {text}");
        text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
    text
}

/// Opens a stream over HTTP/2, with this window for its data.
async fn open_http2(server: &Running, target: &str, window: u32) -> hyper::Response<hyper::body::Incoming> {
    let client = Client { protocol: Some("h2"), ..Client::default() };
    let io = TokioIo::new(client.connect(server.address).await.unwrap());
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(window);
    let (mut sender, connection) = builder.handshake(io).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get(format!("https://localhost{target}"))
        .header("authorization", format!("Bearer {SCRAPER}"))
        .body(Empty::<Bytes>::new());
    let answer = sender.send_request(request.unwrap()).await.unwrap();
    // The connection ends when its last sender is dropped.
    tokio::spawn(async move {
        let _sender = sender;
        tokio::time::sleep(Duration::from_secs(60)).await;
    });
    answer
}

#[tokio::test]
async fn pages_are_authorized_by_two_paths() {
    let server = start(|_| {}).await;
    for path in ["/ui", "/ui/", "/ui/a", "/ui/a/b?c", "/ui/%61"] {
        let reply = server.get_with(SCRAPER, path).await;
        assert_eq!(reply.status, 200, "{path}");
        assert!(
            reply.head.contains("cache-control: no-store") && reply.head.contains("nosniff"),
            "{reply:?}"
        );
        let reply = server.get_with(NOBODY, path).await;
        assert_eq!(reply.status, 403, "{path}");
        let named = if path == "/ui" { r#"path \"/ui\""# } else { r#"path \"/ui/\""# };
        assert!(reply.body.contains(named), "{reply:?}");
        assert_eq!(server.get(path).await.status, 403, "{path}");
    }
    // Two users and the anonymous one, two paths each.
    assert_eq!(server.reviews("subjectaccessreviews"), 6);
    assert_eq!(server.get_with(SCRAPER, "/uix").await.status, 403);
}

#[tokio::test]
async fn a_page_learns_which_namespaces_its_reader_may_list() {
    let server = start(|_| {}).await;
    let check = async |token: &str, namespace: &str, want: &str| {
        let reply = server.get_with(token, &format!("/ui/may?{namespace}")).await;
        assert_eq!(reply.body, want, "{namespace:?}");
    };
    for _ in 0..2 {
        check(SCRAPER, "shop", "Ok(true)").await;
        check(SCRAPER, "bank", "Ok(false)").await;
        check(SCRAPER, "", "Ok(false)").await;
    }
    // One question is about the path, and one each about the namespaces and about all.
    assert_eq!(server.reviews("subjectaccessreviews"), 4);
    let sent: Vec<_> = server.api.request_log();
    assert!(sent.iter().any(|entry| format!("{entry:?}").contains("subjectaccessreviews")));
}

#[tokio::test]
async fn a_path_that_needs_no_authentication_shows_nothing_of_a_namespace() {
    let server = start(|options| {
        options.open_paths = kube_endpoint_serving::OpenPaths::parse(&["/ui/*"]).unwrap();
    })
    .await;
    let reply = server.get_with(SCRAPER, "/ui/may?shop").await;
    assert_eq!((reply.status, &*reply.body, server.reviews("subjectaccessreviews")), (200, "Ok(false)", 0));
}

#[tokio::test]
async fn a_stream_outlasts_the_time_limit_of_a_request_and_ends_after_its_own() {
    let server = with_limits(|limits| {
        (limits.request, limits.event_stream) = (SHORT, 4 * SHORT);
    })
    .await;
    let begun = Instant::now();
    let mut stream = open(&server, "/ui/events").await;
    let text = read_until(&mut stream, "\r\n0\r\n\r\n").await;
    assert!(begun.elapsed() >= 4 * SHORT, "{:?}", begun.elapsed());
    assert!(text.starts_with("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"), "{text}");
    assert!(text.contains("retry: 2000\n\n") && text.contains("event: status\ndata: 0\n\n"), "{text}");

    let begun = Instant::now();
    let mut body = open_http2(&server, "/ui/events", 64 * 1024).await.into_body();
    let mut frames = Vec::new();
    while let Some(frame) = body.frame().await {
        frames.extend(frame.unwrap().into_data());
    }
    assert!(begun.elapsed() >= 4 * SHORT, "{:?}", begun.elapsed());
    assert_eq!(frames[..2], [&b"retry: 2000\n\n"[..], b"event: status\ndata: 0\n\n"]);
    until("the end of the streams", async || server.mounted.open() == 0).await;
}

#[tokio::test]
async fn more_streams_than_the_limit_are_refused() {
    let server = with_limits(|limits| limits.event_streams = 2).await;
    let mut streams = Vec::new();
    for _ in 0..2 {
        let mut stream = open(&server, "/ui/events").await;
        read_until(&mut stream, "data: 0").await;
        streams.push(stream);
    }
    let reply = server.get_with(SCRAPER, "/ui/events").await;
    assert_eq!(reply.status, 503);
    assert!(reply.head.contains("retry-after: 10") && reply.body.contains("too many clients"), "{reply:?}");
    // Other pages are not concerned.
    assert_eq!(server.get_with(SCRAPER, "/ui/").await.status, 200);
    drop(streams.pop());
    until("the end of a stream", async || server.mounted.open() == 1).await;
    let mut stream = open(&server, "/ui/events").await;
    read_until(&mut stream, "data: 0").await;
}

#[tokio::test]
async fn head_of_a_stream_has_no_body_and_takes_no_place() {
    let server = with_limits(|limits| limits.event_streams = 1).await;
    for _ in 0..3 {
        let request = format!(
            "HEAD /ui/events HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAuthorization: Bearer {SCRAPER}\r\n\r\n"
        );
        let reply = Client::default().send(server.address, &request).await.unwrap();
        assert_eq!((reply.status, &*reply.body), (200, ""));
        assert!(reply.head.contains("text/event-stream"), "{reply:?}");
    }
    assert_eq!(server.mounted.open(), 0);
}

#[tokio::test]
async fn a_client_that_reads_nothing_is_cut_off_and_little_is_made_for_it() {
    let server = with_limits(|limits| limits.write = 2 * SHORT).await;
    let stream = open(&server, "/ui/events?4000000").await;
    until("the stream", async || server.mounted.open() == 1).await;
    until("the end of the stream", async || server.mounted.open() == 0).await;
    // The server made as many events as fit the buffers of both sockets, a few megabytes, and not
    // one event every 20 ms.
    let made = server.mounted.made.load(Ordering::Relaxed);
    assert!((1..15).contains(&made), "{made}");
    drop(stream);
}

#[tokio::test]
async fn an_http2_client_that_grants_no_window_is_cut_off() {
    let server = with_limits(|limits| limits.write = SHORT).await;
    let answer = open_http2(&server, "/ui/events?100000", 1000).await;
    assert_eq!(answer.status(), 200);
    until("the end of the stream", async || server.mounted.open() == 0).await;
    // One event is partly sent, and one waits for the window.
    assert_eq!(server.mounted.made.load(Ordering::Relaxed), 2);
    let ended = answer.into_body().collect().await;
    assert!(ended.is_err(), "the connection was not closed");
}

#[tokio::test]
async fn a_client_that_pauses_reads_the_newest_state_next() {
    let server = start(|_| {}).await;
    let mut stream = open(&server, "/ui/events?1000000").await;
    read_until(&mut stream, "data: 0").await;
    // The server makes events until the buffers are full.
    let made = || server.mounted.made.load(Ordering::Relaxed);
    let mut before = made();
    loop {
        tokio::time::sleep(2 * SHORT).await;
        if std::mem::replace(&mut before, made()) == made() {
            break;
        }
    }
    for state in 1..=1000 {
        server.mounted.state.store(state, Ordering::Relaxed);
    }
    let text = read_until(&mut stream, "data: 1000 ").await;
    let states = text.split("data: ").skip(1).map(|event| event.split(' ').next().unwrap());
    let newer: Vec<&str> = states.filter(|state| !["0", "1000"].contains(state)).collect();
    assert_eq!(newer, [""; 0]);
}

#[tokio::test]
async fn the_end_of_the_server_ends_streams_at_once() {
    let server = start(|_| {}).await;
    let mut stream = open(&server, "/ui/events").await;
    read_until(&mut stream, "data: 0").await;
    let mounted = server.mounted.clone();
    let begun = Instant::now();
    drop(server);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    until("the end of the stream", async || mounted.open() == 0).await;
}
