//! Tests the listener: HTTP/1.1 and HTTP/2 over loopback, tokens, discovery, shutdown.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube_endpoint_embedded_apiserver::{
    EmbeddedApiServer, Fault, FaultRule, ListenError, ListenOptions, Listener, User,
};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::protocol::common::*;

fn any_port() -> SocketAddr {
    "127.0.0.1:0".parse().unwrap()
}

/// Sends one request over a new connection, as text.
async fn exchange(listener: &Listener, request: &str) -> String {
    let mut stream = TcpStream::connect(listener.address()).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn get(listener: &Listener, path: &str, header: &str) -> String {
    exchange(
        listener,
        &format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{header}\r\n"),
    )
    .await
}

#[tokio::test]
async fn it_speaks_http_1() {
    let (server, _) = started();
    let listener = server.listen(any_port()).await.unwrap();
    let answer = get(&listener, "/readyz", "").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("\r\n\r\nok"), "{answer}");
    let answer = get(&listener, "/nowhere", "").await;
    assert!(answer.starts_with("HTTP/1.1 404 Not Found\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n404 page not found\n"), "{answer}");
    let answer = get(&listener, "/api/v1/pods?watch=1&timeoutSeconds=1", "").await;
    assert!(answer.contains("transfer-encoding: chunked"), "{answer}");
    let answer = get(&listener, "/api", "").await;
    assert!(answer.contains(&format!("\"serverAddress\":\"{}\"", listener.address())), "{answer}");
    listener.shutdown().await;
}

#[tokio::test]
async fn health_and_version() {
    let (server, _) = started();
    let listener = server.listen(any_port()).await.unwrap();
    for path in ["/healthz", "/livez", "/readyz", "/readyz/ping"] {
        assert!(get(&listener, path, "").await.ends_with("\r\n\r\nok"), "{path}");
    }
    let answer = get(&listener, "/readyz?verbose", "").await;
    assert!(answer.ends_with("[+]ping ok\n[+]log ok\nreadyz check passed\n"), "{answer}");
    let answer = get(&listener, "/readyz/nothing", "").await;
    assert!(answer.starts_with("HTTP/1.1 404 Not Found"), "{answer}");
    let answer = get(&listener, "/version", "").await;
    assert!(answer.contains("\"major\":\"1\"") && answer.contains("\"minor\":\"36\""), "{answer}");
    listener.shutdown().await;
}

#[tokio::test]
async fn http1_and_http2_requests_are_served() {
    let (server, _) = started();
    let listener = server.listen(any_port()).await.unwrap();
    let old = exchange(&listener, "GET /healthz HTTP/1.0\r\n\r\n").await;
    assert!(old.starts_with("HTTP/1.0 200 OK\r\n"), "{old}");
    let request = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\nGET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(exchange(&listener, request).await.matches("200 OK").count(), 2, "a connection is kept");
    assert!(exchange(&listener, "nonsense\r\n\r\n").await.starts_with("HTTP/1.1 400 Bad Request"));
    let body = endpoints("web").to_string();
    let mut stream = TcpStream::connect(listener.address()).await.unwrap();
    let head = format!(
        "POST /api/v1/namespaces/default/endpoints HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: \
         application/json\r\ncontent-length: {}\r\nexpect: 100-continue\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 Created"), "{answer}");
    listener.shutdown().await;
}

/// Watchers that disconnect leak neither sockets nor tasks.
#[tokio::test]
async fn watchers_that_disconnect_leak_nothing() {
    let (server, raw) = started();
    let listener = server.listen(any_port()).await.unwrap();
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    let mut streams = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(listener.address()).await.unwrap();
        stream.write_all(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
        let mut head = [0; 15];
        stream.read_exact(&mut head).await.unwrap();
        streams.push(stream);
    }
    assert!(tasks() >= before + 100);
    for stream in &streams {
        stream.set_zero_linger().unwrap();
    }
    drop(streams);
    for _ in 0..200 {
        if tasks() == before {
            raw.get(PODS).await.expect(200);
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} tasks are left", tasks() - before);
}

#[tokio::test]
async fn it_speaks_http_2() {
    let (server, _) = started();
    let listener = server.listen(any_port()).await.unwrap();
    let stream = TokioIo::new(TcpStream::connect(listener.address()).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let uri = format!("http://{}/version", listener.address());
    let response =
        sender.send_request(Request::get(uri).body(Full::<Bytes>::default()).unwrap()).await.unwrap();
    assert_eq!(response.version(), http::Version::HTTP_2);
    let text = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(serde_json::from_slice::<Value>(&text).unwrap()["major"], "1");
    drop(sender);
    listener.shutdown().await;
}

#[tokio::test]
async fn other_addresses_than_loopback_need_an_option() {
    let (server, _) = started();
    let error = server.listen("0.0.0.0:0".parse().unwrap()).await.unwrap_err();
    assert!(matches!(error, ListenError::NotLoopback(_)), "{error}");
    let options = ListenOptions { allow_any_address: true, ..ListenOptions::default() };
    let listener = server.listen_with("0.0.0.0:0".parse().unwrap(), options).await.unwrap();
    let error = server.listen(listener.address()).await.unwrap_err();
    assert!(matches!(error, ListenError::NotLoopback(_)));
    let first = server.listen(any_port()).await.unwrap();
    let error = server.listen(first.address()).await.unwrap_err();
    assert!(matches!(error, ListenError::Bind { .. }), "{error}");
}

#[tokio::test]
async fn a_required_token_is_checked() {
    let user = User { name: "alice".to_owned(), groups: vec![] };
    let builder = EmbeddedApiServer::builder().token("secret", user).require_token();
    let (server, raw) = start(builder);
    let listener = server.listen(any_port()).await.unwrap();
    for (header, expected) in [
        ("", "401 Unauthorized"),
        ("authorization: Bearer wrong\r\n", "401 Unauthorized"),
        ("authorization: Basic secret\r\n", "401 Unauthorized"),
        ("authorization: Bearer secret\r\n", "200 OK"),
    ] {
        let answer = get(&listener, PODS, header).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}\r\n")), "{header}: {answer}");
    }
    assert!(get(&listener, "/livez", "").await.starts_with("HTTP/1.1 200 OK"));
    let wrong = get(&listener, "/livez", "authorization: Bearer wrong\r\n").await;
    assert!(wrong.starts_with("HTTP/1.1 401 Unauthorized"), "{wrong}");
    assert!(
        wrong.ends_with(r#"{"apiVersion":"v1","code":401,"kind":"Status","message":"Unauthorized","metadata":{},"reason":"Unauthorized","status":"Failure"}"#),
        "{wrong}"
    );
    raw.get(PODS).await.expect(200);
    let kubeconfig = server.kubeconfig(listener.address());
    assert_eq!(kubeconfig, server.kubeconfig_of(&listener));
    assert!(kubeconfig.contains("user: {token: \"secret\"}"), "{kubeconfig}");
    assert!(
        kubeconfig.contains(&format!("cluster: {{server: \"http://{}\"}}\n", listener.address())),
        "{kubeconfig}"
    );
    listener.shutdown().await;
}

#[tokio::test]
async fn requests_of_web_pages_are_refused() {
    let (server, raw) = started();
    let listener = server.listen(any_port()).await.unwrap();
    let port = listener.address().port();
    let get_as = async |host: &str, header: &str| {
        let request = format!("GET /readyz HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{header}\r\n");
        exchange(&listener, &request).await
    };
    for host in ["localhost".to_owned(), format!("127.0.0.1:{port}"), "[::1]:1".to_owned()] {
        assert!(get_as(&host, "").await.starts_with("HTTP/1.1 200 OK"), "{host}");
    }
    // DNS rebinding: the page's own name has the address of this server.
    let answer = get_as(&format!("rebind.example:{port}"), "").await;
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden"), "{answer}");
    assert!(answer.contains(&format!("use http://127.0.0.1:{port} ")), "{answer}");
    assert!(answer.contains("\"reason\":\"Forbidden\""), "{answer}");
    for origin in ["http://evil.example", "null", "http://localhost"] {
        let answer = get_as("localhost", &format!("origin: {origin}\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403 Forbidden"), "{answer}");
        assert!(answer.contains(&format!("Origin: {origin}")), "{answer}");
    }
    // HTTP/2 has the host in the URI.
    let stream = TokioIo::new(TcpStream::connect(listener.address()).await.unwrap());
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let request = Request::get("http://rebind.example/readyz").body(Full::<Bytes>::default()).unwrap();
    assert_eq!(sender.send_request(request).await.unwrap().status(), 403);
    drop(sender);
    raw.call(Request::get(PODS).header("host", "in.process").body(Full::default()).unwrap()).await.unwrap();
    listener.shutdown().await;
}

#[tokio::test]
async fn every_host_that_a_request_names_must_be_this_server() {
    let user = User { name: "alice".to_owned(), groups: vec![] };
    let (server, _) = start(EmbeddedApiServer::builder().token("secret", user).require_token());
    let listener = server.listen(any_port()).await.unwrap();
    let ask = async |target: &str, headers: &str| {
        let answer =
            exchange(&listener, &format!("GET {target} HTTP/1.1\r\nconnection: close\r\n{headers}\r\n"))
                .await;
        answer.split(' ').nth(1).unwrap().to_owned()
    };
    let own = "host: localhost\r\nauthorization: Bearer secret\r\n";
    for (target, headers, expected) in [
        (PODS.to_owned(), own.to_owned(), "200"),
        (format!("http://LOCALHOST:1{PODS}"), own.to_owned(), "200"),
        (format!("http://rebind.example{PODS}"), own.to_owned(), "403"),
        (format!("http://localhost{PODS}"), own.replace("localhost", "rebind.example"), "403"),
        (PODS.to_owned(), format!("{own}host: rebind.example\r\n"), "403"),
        // Resolvers look a name with a dot at its end up like any other.
        (PODS.to_owned(), own.replace("localhost", "localhost."), "403"),
        // A page reaches loopback by this address in some browsers.
        (PODS.to_owned(), own.replace("localhost", "0.0.0.0"), "403"),
        // A token in the URI would end up in histories and logs.
        (format!("{PODS}?access_token=secret"), "host: localhost\r\n".to_owned(), "401"),
        (
            format!("{PODS}?watch=1"),
            format!("{own}origin: null\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"),
            "403",
        ),
        // More header fields than the listener reads.
        (PODS.to_owned(), format!("{own}{}", "x: y\r\n".repeat(200)), "431"),
    ] {
        assert_eq!(ask(&target, &headers).await, expected, "{target} {}", &headers[..headers.len().min(200)]);
    }
    listener.shutdown().await;
}

#[tokio::test]
async fn a_write_needs_a_known_content_type() {
    let (server, raw) = started();
    let listener = server.listen(any_port()).await.unwrap();
    let body = endpoints("web").to_string();
    let post = async |header: &str| {
        let head =
            "POST /api/v1/namespaces/default/endpoints HTTP/1.1\r\nhost: localhost\r\nconnection: close";
        let request = format!("{head}\r\n{header}content-length: {}\r\n\r\n{body}", body.len());
        exchange(&listener, &request).await
    };
    // A page may send these types without asking first.
    for header in [
        "",
        "content-type: text/plain\r\n",
        "content-type: application/x-www-form-urlencoded\r\n",
        "content-type: multipart/form-data\r\n",
    ] {
        let answer = post(header).await;
        assert!(answer.starts_with("HTTP/1.1 415 Unsupported Media Type"), "{answer}");
        assert!(answer.contains("accepted media types include: application/json"), "{answer}");
    }
    assert_eq!(server.count("endpoints"), 0);
    let answer = post("content-type: application/json; charset=utf-8\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 201 Created"), "{answer}");
    // In process a missing type means JSON, as on the real server.
    let uri = "/api/v1/namespaces/default/endpoints";
    let request = Request::post(uri).body(Full::new(endpoints("two").to_string().into())).unwrap();
    assert_eq!(raw.call(request).await.unwrap().status, 201);
    listener.shutdown().await;
}

/// The watch has more to send than the client and the system buffer, so it never waits.
#[tokio::test]
async fn shutting_down_ends_a_watch_that_has_a_backlog() {
    const CHANGES: usize = 400;
    let (server, raw) = started();
    raw.post(PODS, &pod("a")).await.expect(201);
    let version = server.resource_version();
    for change in 0..CHANGES {
        let long = format!("{change}-{}", "x".repeat(100_000));
        raw.merge(&format!("{PODS}/a"), &json!({"metadata": {"annotations": {"long": long}}}))
            .await
            .expect(200);
    }
    let listener = server.listen(any_port()).await.unwrap();
    let mut stream = TcpStream::connect(listener.address()).await.unwrap();
    let request =
        format!("GET /api/v1/pods?watch=1&resourceVersion={version} HTTP/1.1\r\nhost: localhost\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).await.unwrap();
    let read = async {
        let mut text = Vec::new();
        stream.read_to_end(&mut text).await.unwrap();
        String::from_utf8(text).unwrap()
    };
    let ((), text) = tokio::join!(biased; listener.shutdown(), read);
    assert!(text.ends_with("0\r\n\r\n"), "the stream ends in order");
    let sent = text.matches(r#""type":"MODIFIED""#).count();
    assert!((1..CHANGES).contains(&sent), "{sent} changes were sent");
}

#[tokio::test]
async fn shutting_down_ends_watches_and_closes_the_port() {
    let (server, _) = started();
    let listener = server.listen(any_port()).await.unwrap();
    let address = listener.address();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /api/v1/pods?watch=1 HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).await.unwrap();
    tokio::time::timeout(Duration::from_secs(4), listener.shutdown()).await.unwrap();
    let mut rest = String::new();
    stream.read_to_string(&mut rest).await.unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "the stream ends in order: {rest}");
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn lost_answers_break_the_connection() {
    let (server, _) = started();
    let listener = server.listen(any_port()).await.unwrap();
    server.add_fault(FaultRule::on(Fault::ApplyAndLoseAnswer, "list", "pods"));
    assert_eq!(get(&listener, PODS, "").await, "");
    listener.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn discovery_lists_every_resource() {
    let (_server, raw) = started();
    let group = raw.get("/apis/discovery.k8s.io").await.expect(200);
    assert_eq!(group["preferredVersion"]["groupVersion"], "discovery.k8s.io/v1");
    let resources = raw.get("/apis/discovery.k8s.io/v1").await.expect(200);
    assert_eq!(resources["resources"][0]["name"], "endpointslices");
    for path in
        ["/", "/api", "/api/v1", "/apis", "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/version"]
    {
        raw.get(path).await.expect(200);
    }
    raw.post("/version", &json!({})).await.refused(405, "MethodNotAllowed");
    raw.send("OPTIONS", PODS, "", "").await.refused(405, "MethodNotAllowed");
}
