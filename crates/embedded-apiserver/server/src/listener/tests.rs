//! Tests that no client holds a connection without end.

use tokio::io::DuplexStream;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::*;
use crate::EmbeddedApiServer;

const VERSION: &str = "GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// A connection to a server.
struct Client {
    stream: DuplexStream,
    closing: watch::Sender<bool>,
    task: JoinHandle<()>,
    start: Instant,
}

impl Client {
    fn connect() -> Self {
        let server = EmbeddedApiServer::builder().build().unwrap();
        let (stream, of_server) = tokio::io::duplex(1 << 16);
        let (closing, closed) = watch::channel(false);
        let closed = Closing(closed);
        let connection =
            Connection { address: ([127, 0, 0, 1], 80).into(), has_tls: false, closing: closed.clone() };
        let service = ApiService::new(Arc::clone(&server.inner), Some(connection));
        let task = tokio::spawn(async move {
            serve(of_server, service, closed).await;
            drop(server);
        });
        Self { stream, closing, task, start: Instant::now() }
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    /// Reads until the server closes the connection. Returns the answer and the seconds since the
    /// connection began.
    async fn end(mut self) -> (String, u64) {
        let mut answer = Vec::new();
        self.stream.read_to_end(&mut answer).await.unwrap();
        self.task.await.unwrap();
        (String::from_utf8_lossy(&answer).into_owned(), self.start.elapsed().as_secs())
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_when_no_request_comes() {
    for sent in ["", "GE", "GET /version HTTP/1.1\r\nHost: lo", PREFACE] {
        let mut client = Client::connect();
        client.send(sent).await;
        let (answer, seconds) = client.end().await;
        assert!((QUIET.as_secs()..=(QUIET + DRAIN).as_secs()).contains(&seconds), "{sent:?}: {seconds} s");
        assert!(!answer.contains("200 OK"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_ends_some_time_after_its_last_request() {
    let mut client = Client::connect();
    for _ in 0..3 {
        client.send(VERSION).await;
        tokio::time::sleep(QUIET - Duration::from_secs(1)).await;
    }
    let (answer, seconds) = client.end().await;
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 3, "{answer}");
    assert_eq!(seconds, 3 * QUIET.as_secs() - 2);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_midway_is_answered_and_ends_the_connection() {
    let head = "POST /api/v1/namespaces/default/pods HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n";
    for body in ["Content-Length: 100\r\n\r\n{", "Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n5"] {
        let mut client = Client::connect();
        client.send(&format!("{head}{body}")).await;
        let (answer, seconds) = client.end().await;
        assert!(answer.starts_with("HTTP/1.1 504 Gateway Timeout\r\n"), "{answer}");
        assert!(answer.contains("the request did not complete within the allotted timeout"), "{answer}");
        assert_eq!(seconds, 60);
    }
}

#[tokio::test(start_paused = true)]
async fn a_watch_keeps_its_connection() {
    let mut client = Client::connect();
    client.send(&VERSION.replace("/version", "/api/v1/pods?watch=true&timeoutSeconds=7200")).await;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!client.task.is_finished());
    client.closing.send_replace(true);
    let (answer, seconds) = client.end().await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert_eq!(seconds, 3600);
}
