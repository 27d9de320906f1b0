//! HTTP/2.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use crate::common::{Client, Running, SCRAPER, start};

type Sender = http2::SendRequest<Empty<Bytes>>;

async fn connect(server: &Running) -> (Sender, JoinHandle<hyper::Result<()>>) {
    let client = Client { protocol: Some("h2"), ..Client::default() };
    let stream = client.connect(server.address).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    (sender, tokio::spawn(connection))
}

fn request(path: &str, token: &str) -> Request<Empty<Bytes>> {
    let request = Request::get(format!("https://localhost{path}"));
    request.header("authorization", format!("Bearer {token}")).body(Empty::new()).unwrap()
}

#[tokio::test]
async fn an_authenticated_client_has_many_requests_at_once() {
    let server = start(|_| {}).await;
    let (sender, _connection) = connect(&server).await;
    let replies = join_all((0..100).map(|_| {
        let mut sender = sender.clone();
        async move { sender.send_request(request("/metrics", SCRAPER)).await.unwrap() }
    }));
    for reply in replies.await {
        assert_eq!(reply.status(), StatusCode::OK);
        assert!(reply.into_body().collect().await.unwrap().to_bytes().starts_with(b"workqueue_depth"));
    }
    assert_eq!(server.reviews("tokenreviews"), 1);
}

#[tokio::test]
async fn the_connection_of_a_client_without_credentials_ends_with_its_request() {
    let server = start(|_| {}).await;
    for (path, status) in [("/healthz", 200), ("/metrics", 401)] {
        let (mut sender, connection) = connect(&server).await;
        let reply = sender.send_request(request(path, "wrong")).await.unwrap();
        assert_eq!(reply.status(), status);
        let ended = tokio::time::timeout(Duration::from_secs(10), connection).await;
        assert!(ended.is_ok(), "the connection was not closed");
        assert!(sender.send_request(request(path, SCRAPER)).await.is_err());
    }
}

#[tokio::test]
async fn a_flood_of_resets_ends_the_connection() {
    let server = start(|_| {}).await;
    let client = Client { protocol: Some("h2"), ..Client::default() };
    let stream = client.connect(server.address).await.unwrap();
    let (mut reading, mut writing) = tokio::io::split(stream);
    let mut flood = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    flood.extend([0, 0, 0, 4, 0, 0, 0, 0, 0]);
    for stream in (1..4001_u32).step_by(2) {
        // HEADERS with END_STREAM and END_HEADERS: `GET`, `https`, `/`, from the static table; then
        // RST_STREAM.
        flood.extend([0, 0, 3, 1, 5]);
        flood.extend(stream.to_be_bytes());
        flood.extend([0x82, 0x87, 0x84]);
        flood.extend([0, 0, 4, 3, 0]);
        flood.extend(stream.to_be_bytes());
        flood.extend([0, 0, 0, 8]);
    }
    // The server may close the connection before the client has sent all of it.
    let _ = writing.write_all(&flood).await;
    let _ = writing.flush().await;
    let mut sent = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(10), reading.read_to_end(&mut sent)).await;
    assert!(ended.is_ok(), "the connection was not closed");
    // GOAWAY with ENHANCE_YOUR_CALM, the error for a client that asks for too much.
    let calm = sent.windows(17).any(|frame| frame[3] == 7 && frame[13..17] == [0, 0, 0, 11]);
    assert!(calm, "{}", sent.escape_ascii());
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn http2_can_be_turned_off() {
    let server = start(|options| options.http2 = false).await;
    let client = Client { protocol: Some("h2"), ..Client::default() };
    assert!(client.connect(server.address).await.is_err());
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn an_oversized_header_is_refused() {
    let server = start(|_| {}).await;
    let (mut sender, _connection) = connect(&server).await;
    let reply = sender.send_request(request("/metrics", &"x".repeat(100_000))).await;
    let refused = reply.map_or(true, |reply| reply.status() == 431);
    assert!(refused);
    assert_eq!(server.reviews("tokenreviews"), 0);
}
