//! Protocols, and peers that have silently gone.
#![expect(clippy::disallowed_methods, clippy::disallowed_types, reason = "it talks over real sockets")]

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::join_all;
use http::{Request, Version};
use http_body_util::BodyExt;
use kube::Config;
use kube::client::Body;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

use super::server::STREAMS;
use super::{Authority, Credentials, Server, config, get, limits};
use crate::client::{client, client_with_answer_limit, client_with_silence_limit};
use crate::timeouts::Timeouts;

/// A TCP proxy. Once told to stop, it forwards nothing on the connections that it has, and keeps
/// them open: no FIN, no RST, like a machine that lost its power. New connections work.
struct Proxy {
    port: u16,
    stopped: watch::Sender<usize>,
    swallowed: Arc<AtomicUsize>,
}

impl Proxy {
    async fn start(target: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (stopped, stops) = watch::channel(0);
        let swallowed = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&swallowed);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", target)).await.unwrap();
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                for (mut from, mut to) in [(from_client, to_server), (from_server, to_client)] {
                    let (mut stops, counter) = (stops.clone(), Arc::clone(&counter));
                    stops.mark_unchanged();
                    tokio::spawn(async move {
                        let mut buffer = [0; 4096];
                        while let Ok(length @ 1..) = from.read(&mut buffer).await {
                            if stops.has_changed().unwrap_or(true) {
                                counter.fetch_add(length, Ordering::SeqCst);
                            } else {
                                to.write_all(&buffer[..length]).await.unwrap();
                            }
                        }
                        // Both halves stay here, so that nothing closes.
                        if stops.has_changed().unwrap_or(true) {
                            std::future::pending::<()>().await;
                        }
                        drop(to);
                    });
                }
            }
        });
        Self { port, stopped, swallowed }
    }

    fn stop(&self) {
        self.stopped.send_modify(|times| *times += 1);
    }
}

fn pinging() -> Timeouts {
    Timeouts { probe_after: Duration::from_millis(200), ping_answer: Duration::from_secs(1), ..limits() }
}

/// Starts a server. Returns it, the file with its CA, and a configuration for it.
async fn start() -> (Server, Credentials, Config) {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    let config = config(&server, &files.path("ca.crt"));
    (server, files, config)
}

/// As [`start`], with a proxy in front of the server.
async fn start_behind_proxy() -> (Server, Proxy, Credentials, Config) {
    let (server, files, mut config) = start().await;
    let proxy = Proxy::start(server.port).await;
    config.cluster_url = format!("https://127.0.0.1:{}", proxy.port).parse().unwrap();
    (server, proxy, files, config)
}

#[tokio::test]
async fn a_watch_over_http2_ends_when_its_peer_falls_silent() {
    let (server, proxy, _files, config) = start_behind_proxy().await;
    let client = client(config, pinging()).await.unwrap();

    let mut watch = client.send(get("/watch")).await.unwrap().into_body();
    assert_eq!(server.last().version, Version::HTTP_2);
    assert_eq!(server.send("first"), 1);
    assert_eq!(watch.frame().await.unwrap().unwrap().into_data().unwrap(), "first");

    proxy.stop();
    let end = timeout(Duration::from_secs(20), watch.frame()).await.expect("the silence was not noticed");
    assert!(end.unwrap().is_err(), "a watch that was cut off must not look complete");
    assert!(proxy.swallowed.load(Ordering::SeqCst) > 0, "no PING was lost");

    let answer = timeout(Duration::from_secs(20), client.send(get("/after"))).await.unwrap().unwrap();
    assert_eq!(answer.status(), 200, "the next request takes a new connection");
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_request_on_a_dead_connection_fails_within_the_silence_limit() {
    let (server, proxy, _files, config) = start_behind_proxy().await;
    let client = client_with_silence_limit(config, Duration::from_secs(4)).await.unwrap();
    assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
    proxy.stop();
    // The default limits would take 40 s.
    let failed =
        timeout(Duration::from_secs(20), client.send(get("/"))).await.expect("the silence was not noticed");
    assert!(failed.is_err());
    let answer = timeout(Duration::from_secs(20), client.send(get("/after"))).await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(server.connections(), 2);
}

/// hyper's pool does not count open streams as use of a connection.
#[tokio::test]
async fn a_request_long_after_the_last_one_goes_over_the_connection_of_the_watches() {
    let (server, _files, config) = start().await;
    let client = client(config, Timeouts::default()).await.unwrap();
    let mut watch = client.send(get("/watch")).await.unwrap().into_body();
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(600)).await;
    tokio::time::resume();
    assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
    assert_eq!(server.connections(), 1);
    server.send("first");
    assert_eq!(watch.frame().await.unwrap().unwrap().into_data().unwrap(), "first");
}

#[tokio::test]
async fn a_quiet_watch_over_http2_stays_open_as_long_as_pings_are_answered() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    let limits =
        Timeouts { probe_after: Duration::from_millis(20), ping_answer: Duration::from_secs(10), ..limits() };
    let client = client(config(&server, &files.path("ca.crt")), limits).await.unwrap();
    let mut watch = client.send(get("/watch")).await.unwrap().into_body();
    // Time for many pings.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(server.send("still there"), 1);
    assert_eq!(watch.frame().await.unwrap().unwrap().into_data().unwrap(), "still there");
    assert_eq!(server.connections(), 1);
}

/// All watches of 100 namespaces begin at once, as at a start and after an outage.
#[tokio::test]
async fn watches_of_namespaces_that_begin_together_share_connections() {
    let (server, _files, config) = start().await;
    let client = client(config, limits()).await.unwrap();
    let kinds = ["pods", "services", "endpoints", "endpointslices"];
    let path = |number: usize| {
        format!("/api/v1/namespaces/team-{}/{}?watch=true", number / kinds.len(), kinds[number % kinds.len()])
    };
    let watches = join_all((0..400).map(|number| client.send(get(&path(number))))).await;
    assert!(watches.iter().all(|watch| watch.as_ref().is_ok_and(|watch| watch.status() == 200)));
    assert_eq!(server.send("event"), 400);
    assert!(server.connections() <= 64, "{}", server.connections());
}

#[tokio::test]
async fn watches_and_requests_share_one_connection_over_http2() {
    let (server, _files, config) = start().await;
    let client = client(config, limits()).await.unwrap();
    let _watch = client.send(get("/watch")).await.unwrap();
    for answer in join_all((0..20).map(|_| client.send(get("/")))).await {
        assert_eq!(answer.unwrap().status(), 200);
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_write_waits_for_a_stream_of_its_connection() {
    let (server, _files, config) = start().await;
    let client = client(config, limits()).await.unwrap();
    let mut watches = Vec::new();
    for _ in 0..STREAMS {
        watches.push(client.send(get("/watch")).await.unwrap());
    }
    let write = Request::put("/api/v1/namespaces/shop/endpoints/cart").body(Body::empty()).unwrap();
    let mut write = pin!(client.send(write));
    assert!(timeout(Duration::from_millis(200), &mut write).await.is_err(), "no stream was left");
    drop(watches.pop());
    let answer = timeout(Duration::from_secs(20), write).await.expect("a watch has ended");
    assert_eq!(answer.unwrap().status(), 200);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn unread_watches_delay_no_request() {
    let (server, _files, config) = start().await;
    let client = client(config, limits()).await.unwrap();
    let mut watches = Vec::new();
    for _ in 0..8 {
        watches.push(client.send(get("/watch")).await.unwrap());
    }
    assert_eq!(server.send(vec![b'x'; 4 << 20]), watches.len());
    // Time for the server to send as much as it may.
    for _ in 0..50 {
        // Headers always pass; it is the body that needs room in the window.
        let answer =
            async { client.send(get("/")).await.unwrap().into_body().collect().await.unwrap().to_bytes() };
        let answer = timeout(Duration::from_secs(20), answer).await;
        assert_eq!(answer.expect("the unread watches hold the request up"), "ok");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_server_without_http2_is_used_over_http1() {
    let authority = Authority::new();
    let server = Server::with_protocols(&authority, &["http/1.1"]).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    let client = client(config(&server, &files.path("ca.crt")), limits()).await.unwrap();
    let _watch = client.send(get("/watch")).await.unwrap();
    assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
    assert_eq!(server.last().version, Version::HTTP_11);
    assert_eq!(server.connections(), 2, "a watch needs an HTTP/1 connection for itself");
}

#[tokio::test]
async fn a_proxy_of_the_kubeconfig_is_asked_for_a_tunnel() {
    let authority = Authority::new();
    let server = Server::start(&authority).await;
    let files = Credentials::new();
    files.write("ca.crt", authority.pem());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = config(&server, &files.path("ca.crt"));
    config.proxy_url =
        Some(format!("http://user:p%40ss@{}", listener.local_addr().unwrap()).parse().unwrap());
    let target = server.port;
    let proxy = tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            asked.push(client.read_u8().await.unwrap());
        }
        client.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.unwrap();
        let mut server = TcpStream::connect(("127.0.0.1", target)).await.unwrap();
        tokio::spawn(async move { tokio::io::copy_bidirectional(&mut client, &mut server).await });
        String::from_utf8(asked).unwrap().to_lowercase()
    });
    let client = client(config, limits()).await.unwrap();
    assert_eq!(client.send(get("/")).await.unwrap().status(), 200);
    assert_eq!(server.last().version, Version::HTTP_2);
    let asked = proxy.await.unwrap();
    assert!(asked.starts_with(&format!("connect 127.0.0.1:{target} http/1.1\r\n")), "{asked}");
    // user:p@ss
    assert!(asked.contains("proxy-authorization: basic dxnlcjpwqhnz\r\n"), "{asked}");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_and_an_answer_that_has_begun_is_not() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let limit = Duration::from_secs(1);
    let silent = client_with_answer_limit(config.clone(), limit).await.unwrap();
    // The kernel accepts the connection, and nobody reads from it.
    let error = timeout(Duration::from_secs(20), silent.send(get("/version"))).await.unwrap().unwrap_err();
    let error = crate::why_request_failed(&error);
    assert_eq!(
        error,
        format!(
            "http://{address} has not begun to answer within 1s; check the server in the kubeconfig (--kubeconfig FILE and \
             --context NAME choose it), and whether something else listens there"
        )
    );
    drop(silent);
    let server = async {
        drop(listener.accept().await.unwrap());
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        assert!(connection.read(&mut request).await.unwrap() > 0);
        connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n").await.unwrap();
        tokio::time::sleep(2 * limit).await;
        connection.write_all(b"event").await.unwrap();
        connection
    };
    let watch = client_with_answer_limit(config, limit).await.unwrap();
    let asked = async { watch.send(get("/watch")).await.unwrap().into_body().collect().await.unwrap() };
    let (_connection, body) = tokio::join!(server, asked);
    assert_eq!(body.to_bytes(), "event");
}
