//! Tests a server that is no Kubernetes API server: the process is not ready, and its log reports
//! the fault once.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use crate::common::Process;

/// Returns a server that gives one answer to every request.
fn server(head: &'static str, body: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            lines.take_while(|line| !line.is_empty()).for_each(drop);
            let length = body.len();
            let _ = write!(
                stream,
                "HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
        }
    });
    address
}

/// Returns the page of a health check, which is open to everybody.
async fn page(port: u16, path: &str) -> (u16, String) {
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
    config.accept_invalid_certs = true;
    let client = kube::Client::try_from(config).unwrap();
    let request = http::Request::get(path).body(kube::client::Body::empty()).unwrap();
    let answer = client.send(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = answer.into_body().collect_bytes().await.unwrap();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn a_server_of_something_else_is_named_once_and_the_process_is_not_ready() {
    let html = "<!DOCTYPE html>\n<html><body>Please log in.</body></html>\n";
    let cases = [
        (
            "404 Not Found\r\ncontent-type: text/plain; charset=utf-8",
            "404 page not found\n",
            r#"404 Not Found with text/plain: "404 page not found""#,
            "the API server answered 404: 404 page not found",
        ),
        (
            "200 OK\r\ncontent-type: text/html",
            html,
            r#"200 OK with text/html: "<!DOCTYPE html> <html><body>Please log in.</body></html>""#,
            "the API server's answer is invalid: ",
        ),
        (
            "302 Found\r\ncontent-type: text/html\r\nlocation: https://login.example/start?state=secret",
            html,
            "302 Found, which redirects to https://login.example/start",
            "the API server answered 302: it redirects to https://login.example/start",
        ),
    ];
    for (head, body, answer, of_list) in cases {
        let folder = tempfile::tempdir().unwrap();
        let address = server(head, body);
        let kubeconfig = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}/")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        // A port that was free a moment ago.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let secure_port = format!("--secure-port={port}");
        let arguments =
            ["--kubeconfig=kubeconfig", "--leader-elect=false", &secure_port, "--bind-address=127.0.0.1"];
        let mut process = Process::start(folder.path(), &arguments);
        const LINE: &str = "the answer is not that of a Kubernetes API server";
        let line = process.wait_for_line(LINE);
        for part in
            ["ERROR", &format!("url=\"http://{address}/api/v1\""), &format!("answer={answer}"), "--master"]
        {
            assert!(line.contains(part), "{part}: {line}");
        }
        let of_kinds = process.wait_for_line("cannot list this kind");
        assert!(of_kinds.contains(of_list), "{of_kinds}");
        let (status, text) = page(port, "/readyz").await;
        assert_eq!(status, 500);
        assert!(text.contains("[-]informer-sync failed"), "{text}");
        let why = process
            .wait_for_line("readyz: checks fail: informer-sync: the caches have not been filled yet: ");
        for kind in ["pods", "services", "nodes", "endpointslices", "endpoints"] {
            assert!(why.contains(&format!("{kind} not listed")), "{why}");
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let lines = process.finish();
        assert_eq!(lines.iter().filter(|line| line.contains(LINE)).count(), 1, "{lines:#?}");
        assert!(lines.iter().all(|line| !line.contains("all caches are synced") && !line.contains("secret")));
    }
}
