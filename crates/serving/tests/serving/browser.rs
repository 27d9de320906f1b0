//! Pages on loopback, for a browser.

use std::net::SocketAddr;
use std::time::Duration;

use kube_endpoint_serving::{BrowserServer, Limits};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::common::until;
use crate::mounted::Mounted;

struct Running {
    url: String,
    mounted: Mounted,
    task: JoinHandle<()>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn start(change: impl FnOnce(&mut Limits)) -> Running {
    let (mounted, mut limits) = (Mounted::default(), Limits::default());
    change(&mut limits);
    let server = BrowserServer::bind(([127, 0, 0, 1], 0).into(), mounted.pages(), limits).await.unwrap();
    Running { url: server.url(), mounted, task: tokio::spawn(server.run()) }
}

impl Running {
    fn host(&self) -> &str {
        self.url.strip_prefix("http://").unwrap().split('/').next().unwrap()
    }

    async fn send(&self, method: &str, target: &str, headers: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.host()).await.unwrap();
        let request = format!("{method} {target} HTTP/1.1\r\nHost: {}\r\n{headers}\r\n", self.host());
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }

    async fn answer(&self, method: &str, target: &str, headers: &str) -> String {
        let mut stream = self.send(method, target, &format!("Connection: close\r\n{headers}")).await;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }
}

#[tokio::test]
async fn the_printed_address_needs_no_token_and_other_pages_are_refused() {
    let server = start(|_| {}).await;
    assert_eq!(server.url, format!("http://{}/ui/", server.host()));
    let check = async |method: &str, target: &str, headers: &str, want: &str| {
        let answer = server.answer(method, target, headers).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {want} ")), "{method} {target}: {answer}");
        for header in ["x-frame-options: DENY", "cache-control: no-store", "x-content-type-options: nosniff"]
        {
            assert!(answer.contains(header), "{method} {target}: {answer}");
        }
        answer
    };
    check("GET", "/ui/", "Origin: http://evil.example\r\n", "403").await;
    check("GET", "/ui/", "Sec-Fetch-Site: cross-site\r\n", "403").await;
    check("GET", "/ui/", "Host: rebind.example\r\n", "403").await;
    check("GET", "/metrics", "", "404").await;
    check("POST", "/ui/", "", "405").await;
    let page = check("GET", "/ui/a", "", "200").await;
    assert!(page.ends_with("\r\n/ui/a"), "{page}");
    let may = check("GET", "/ui/may?any-namespace", "", "200").await;
    assert!(may.ends_with("Ok(true)"), "{may}");
}

#[tokio::test]
async fn events_arrive_and_their_number_is_limited() {
    let server = start(|limits| limits.event_streams = 1).await;
    let mut stream = server.send("GET", "/ui/events", "").await;
    let mut text = String::new();
    while text.matches("data: 0\n\n").count() < 3 {
        let mut bytes = [0; 1024];
        let read = stream.read(&mut bytes).await.unwrap();
        assert!(read > 0, "the connection ended: {text}");
        text.push_str(std::str::from_utf8(&bytes[..read]).unwrap());
    }
    assert!(text.contains("content-type: text/event-stream"), "{text}");
    let refused = server.answer("GET", "/ui/events", "").await;
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    drop(stream);
    until("the end of the stream", async || {
        server.answer("GET", "/ui/a", "").await;
        server.mounted.open() == 0
    })
    .await;
}

#[tokio::test]
async fn a_browser_that_reads_nothing_is_cut_off() {
    let server = start(|limits| limits.write = Duration::from_millis(300)).await;
    let _stream = server.send("GET", "/ui/events?1000000", "").await;
    until("the stream", async || server.mounted.open() == 1).await;
    until("the end of the stream", async || server.mounted.open() == 0).await;
}

/// Returns what the server sends until it closes the connection.
async fn closed(mut stream: TcpStream) -> String {
    let mut sent = String::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_string(&mut sent)).await;
    ended.expect("the connection was not closed").unwrap();
    sent
}

#[tokio::test]
async fn a_body_that_does_not_come_ends_the_connection_after_the_answer() {
    let server = start(|_| {}).await;
    for header in ["Content-Length: 100\r\n", "Transfer-Encoding: chunked\r\n"] {
        let answer = closed(server.send("GET", "/ui/a", header).await).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
}

#[tokio::test]
async fn a_browser_that_sends_no_whole_head_is_cut_off() {
    let server = start(|limits| limits.head = Duration::from_millis(300)).await;
    for beginning in ["", "GET /ui/ HTTP/1.1\r\nHos"] {
        let mut stream = TcpStream::connect(server.host()).await.unwrap();
        stream.write_all(beginning.as_bytes()).await.unwrap();
        assert_eq!(closed(stream).await.matches("200 OK").count(), 0);
    }
    // The connection stays open for the next request, and none comes.
    let answer = closed(server.send("GET", "/ui/a", "").await).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn an_address_that_is_not_one_of_loopback_is_refused() {
    let bind = async |address: SocketAddr| {
        let bound = BrowserServer::bind(address, Mounted::default().pages(), Limits::default()).await;
        bound.err().map(|error| error.to_string())
    };
    insta::assert_snapshot!(
        bind(([0, 0, 0, 0], 0).into()).await.unwrap(),
        @"cannot serve the status page on 0.0.0.0:0: it has no TLS and shows everything; choose an address of loopback"
    );
    let server = start(|_| {}).await;
    let error = bind(server.host().parse().unwrap()).await.unwrap();
    assert!(error.contains("choose another --embedded-ui-address, or none"), "{error}");
}
