//! Slow, oversized and numerous requests.
#![expect(clippy::disallowed_methods, reason = "it talks over real sockets")]

use std::time::{Duration, Instant};

use futures::future::join_all;
use kube_endpoint_serving::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::rustls::version::{TLS12, TLS13};

use crate::common::{Client, Reply, Running, SCRAPER, read_reply, start};

const SHORT: Duration = Duration::from_millis(300);

/// Returns a server with one short time limit.
async fn with_limits(change: impl FnOnce(&mut Limits)) -> Running {
    start(|options| change(&mut options.limits)).await
}

/// Returns the time until the server closes a connection, and what it sends before.
async fn closed(stream: &mut (impl AsyncReadExt + Unpin)) -> (Duration, Vec<u8>) {
    let (start, mut sent) = (Instant::now(), Vec::new());
    let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut sent)).await;
    assert!(ended.is_ok(), "the connection was not closed");
    (start.elapsed(), sent)
}

#[tokio::test]
async fn nothing_is_served_in_the_clear() {
    let server = start(|_| {}).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    stream.flush().await.unwrap();
    let (_, sent) = closed(&mut stream).await;
    assert!(!sent.starts_with(b"HTTP"), "{}", sent.escape_ascii());
}

#[tokio::test]
async fn tls_below_the_minimum_is_refused() {
    let server = start(|options| options.min_tls_version = "VersionTLS13".parse().unwrap()).await;
    let old = Client { versions: Some(&TLS12), ..Client::default() };
    let error = old.connect(server.address).await.unwrap_err();
    assert!(error.to_string().contains("ProtocolVersion"), "{error}");
    let new = Client { versions: Some(&TLS13), ..Client::default() };
    assert_eq!(new.get(server.address, "/healthz", "").await.status, 200);
    let server = start(|_| {}).await;
    assert_eq!(old.get(server.address, "/healthz", "").await.status, 200);
}

#[tokio::test]
async fn tls_1_1_is_refused() {
    let server = start(|_| {}).await;
    // A ClientHello of TLS 1.1 with the suite TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA and no extensions.
    let mut hello = vec![3, 2];
    hello.extend([7; 32]);
    hello.extend([0, 0, 2, 0xc0, 0x13, 1, 0]);
    let mut message = vec![1, 0, 0, u8::try_from(hello.len()).unwrap()];
    message.extend(&hello);
    let mut record = vec![22, 3, 1, 0, u8::try_from(message.len()).unwrap()];
    record.extend(&message);
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(&record).await.unwrap();
    stream.flush().await.unwrap();
    let (_, sent) = closed(&mut stream).await;
    // A fatal alert: protocol_version, or handshake_failure.
    assert!(sent.first() == Some(&21) && [Some(&70), Some(&40)].contains(&sent.last()), "{sent:?}");
}

#[tokio::test]
async fn an_unfinished_handshake_is_cut_off() {
    let server = with_limits(|limits| limits.handshake = SHORT).await;
    for beginning in [&b""[..], &[22, 3, 1, 1, 0, 1]] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(beginning).await.unwrap();
        stream.flush().await.unwrap();
        let (time, _) = closed(&mut stream).await;
        assert!(time >= SHORT / 2, "{time:?}");
    }
}

#[tokio::test]
async fn an_oversized_header_is_refused() {
    let server = start(|_| {}).await;
    let header = format!("Authorization: Bearer {}\r\n", "x".repeat(100_000));
    let reply = Client::default().get(server.address, "/metrics", &header).await;
    assert!([431, 0].contains(&reply.status), "{reply:?}");
    let target = format!("/healthz?{}", "x".repeat(100_000));
    let reply = server.get(&target).await;
    assert!([431, 414, 0].contains(&reply.status), "{reply:?}");
    assert_eq!(server.reviews("tokenreviews"), 0);
}

#[tokio::test]
async fn too_many_headers_are_refused() {
    let server = start(|_| {}).await;
    let headers: String = (0..65).map(|number| format!("X-{number}: x\r\n")).collect();
    assert_eq!(Client::default().get(server.address, "/healthz", &headers).await.status, 431);
    let headers: String = (0..50).map(|number| format!("X-{number}: x\r\n")).collect();
    assert_eq!(Client::default().get(server.address, "/healthz", &headers).await.status, 200);
}

#[tokio::test]
async fn a_slow_header_is_cut_off() {
    let server = with_limits(|limits| limits.head = SHORT).await;
    for beginning in ["", "GET /healthz HTTP/1.1\r\nHost: loc"] {
        let mut stream = Client::default().connect(server.address).await.unwrap();
        stream.write_all(beginning.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let (time, _) = closed(&mut stream).await;
        assert!(time >= SHORT / 2, "{time:?}");
    }
    // A client that sends one byte at a time gets no more time.
    let stream = Client::default().connect(server.address).await.unwrap();
    let (mut reading, mut writing) = tokio::io::split(stream);
    let writer = tokio::spawn(async move {
        while writing.write_all(b"x").await.is_ok() && writing.flush().await.is_ok() {
            tokio::time::sleep(SHORT / 10).await;
        }
    });
    closed(&mut reading).await;
    writer.abort();
}

#[tokio::test]
async fn a_request_with_a_body_is_refused_before_the_body_arrives() {
    let server = start(|_| {}).await;
    for header in ["Content-Length: 1000000000", "Content-Length: 1", "Transfer-Encoding: chunked"] {
        let mut stream = Client::default().connect(server.address).await.unwrap();
        let request = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n{header}\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        // The body never comes.
        let (_, sent) = closed(&mut stream).await;
        assert!(sent.starts_with(b"HTTP/1.1 413"), "{}", sent.escape_ascii());
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_the_answer_is_cut_off() {
    let server = with_limits(|limits| (limits.write, limits.request) = (SHORT, 20 * SHORT)).await;
    // The system would otherwise receive megabytes of answers, which take long on a busy machine.
    let client = Client { receive_buffer: Some(4096), ..Client::default() };
    let stream = client.connect(server.address).await.unwrap();
    let (reading, mut writing) = tokio::io::split(stream);
    let request =
        format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SCRAPER}\r\n\r\n");
    // Answers pile up until the server cannot write; then it stops reading, and closes the
    // connection.
    let writing = async {
        let requests = request.repeat(1000);
        while writing.write_all(requests.as_bytes()).await.is_ok() && writing.flush().await.is_ok() {}
    };
    let cut_off = tokio::time::timeout(Duration::from_secs(20), writing).await;
    assert!(cut_off.is_ok(), "the connection was not closed");
    drop(reading);
    assert_eq!(server.get("/healthz").await.status, 200);
}

#[tokio::test]
async fn an_idle_connection_of_an_authenticated_client_is_closed() {
    let server = with_limits(|limits| limits.idle = SHORT).await;
    let mut stream = Client::default().connect(server.address).await.unwrap();
    let request =
        format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SCRAPER}\r\n\r\n");
    for _ in 0..2 {
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.flush().await.unwrap();
        let mut start = [0; 15];
        stream.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"HTTP/1.1 200 OK");
        let mut rest = vec![0; 1024];
        let read = stream.read(&mut rest).await.unwrap();
        assert!(rest[..read].ends_with(b"} 0\n"), "{}", rest[..read].escape_ascii());
    }
    let (time, sent) = closed(&mut stream).await;
    assert!(time >= SHORT / 2 && sent.is_empty(), "{time:?}");
}

#[tokio::test]
async fn a_client_without_credentials_has_one_request_on_a_connection() {
    let server = start(|_| {}).await;
    let mut stream = Client::default().connect(server.address).await.unwrap();
    let request = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request.repeat(3).as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let (_, sent) = closed(&mut stream).await;
    let sent = String::from_utf8(sent).unwrap();
    assert_eq!(sent.matches("HTTP/1.1 200").count(), 1, "{sent}");
}

#[tokio::test]
async fn probes_are_answered_while_slow_clients_hold_every_connection() {
    const SLOW: usize = 1000;
    let server = with_limits(|limits| limits.connections = 50).await;
    let mut slow = Vec::new();
    for number in 0..SLOW {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        if number % 3 == 0 {
            stream.write_all(&[22, 3, 1]).await.unwrap();
            stream.flush().await.unwrap();
        }
        slow.push(stream);
    }
    let probes = join_all((0..20).map(|_| server.get("/livez"))).await;
    assert!(probes.iter().all(|reply| reply.status == 200), "{probes:?}");
    assert_eq!(server.get_with(SCRAPER, "/metrics").await.status, 200);
    // The server has closed all but 50.
    let mut open = 0;
    for stream in &mut slow {
        let read = tokio::time::timeout(Duration::from_millis(1), stream.read(&mut [0; 1])).await;
        open += usize::from(read.is_err());
    }
    assert!(open < 50, "{open}");
}

#[tokio::test]
async fn slow_clients_do_not_close_the_connection_of_an_authenticated_one() {
    let server = with_limits(|limits| limits.connections = 10).await;
    let mut stream = Client::default().connect(server.address).await.unwrap();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {SCRAPER}\r\n");
    stream.write_all(format!("{request}\r\n").as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    assert_eq!(stream.read_u8().await.unwrap(), b'H');
    let mut slow = Vec::new();
    for _ in 0..100 {
        slow.push(TcpStream::connect(server.address).await.unwrap());
    }
    stream.write_all(format!("{request}Connection: close\r\n\r\n").as_bytes()).await.unwrap();
    stream.flush().await.unwrap();
    let Reply { head, body, .. } = read_reply(&mut stream).await.unwrap();
    assert!(head.starts_with("TTP/1.1 200") && body.contains("HTTP/1.1 200"), "{head}\n{body}");
}
