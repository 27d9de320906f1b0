//! Tests a server that is no Kubernetes API server: no command takes its answers for empty lists.

use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;

use crate::server::{Shop, stderr, stdout};

/// Returns a server that gives one answer to every request.
async fn server(head: &'static str, body: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            while stream.read_line(&mut line).await.is_ok_and(|length| length > 2) {
                line.clear();
            }
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            let _ = stream.get_mut().write_all(answer.as_bytes()).await;
        }
    });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_of_the_answers_of_a_server_of_something_else() {
    let shop = Shop::start(Vec::new()).await;
    let pages = [
        ("404 Not Found\r\ncontent-type: text/plain", "404 page not found\n"),
        ("404 Not Found\r\ncontent-type: text/html", "<html>\n<h1>404 Not Found</h1>\n</html>\n"),
        ("200 OK\r\ncontent-type: text/html", "<html>Please log in.</html>"),
        ("200 OK", ""),
        ("200 OK\r\ncontent-type: application/json", "{}"),
        (
            "200 OK\r\ncontent-type: application/json",
            r#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"9"},"items":[]}"#,
        ),
        ("200 OK\r\ncontent-type: application/json", r#"{"items":[]}"#),
        (
            "200 OK\r\ncontent-type: application/json",
            r#"{"kind":"Status","apiVersion":"v1","status":"Success"}"#,
        ),
        ("302 Found\r\nlocation: https://login.example/", "<a>Found</a>"),
    ];
    let mut text = String::new();
    for (head, body) in pages {
        let address = server(head, body).await;
        std::fs::write(shop.kubeconfig.path(), shop.server.kubeconfig(address)).unwrap();
        text +=
            &format!("# {} {}\n", head.lines().collect::<Vec<_>>().join(" "), body.trim().replace('\n', " "));
        for arguments in [
            &["explain", "cart"][..],
            &["explain", "pod/cart-0"],
            &["lint"],
            &["diff"],
            &["cleanup"],
            &["doctor"],
            &["retire"],
        ] {
            let output = shop.run(arguments).await;
            assert_eq!(output.status.code(), Some(2), "{head} {arguments:?}: {}", stdout(&output));
            assert_eq!(stdout(&output), "", "{head} {arguments:?}");
            text += &format!("$ {}\n{}", arguments.join(" "), stderr(&output));
        }
    }
    assert_eq!(shop.requests(), [""; 0]);
    insta::assert_snapshot!(text);
}
