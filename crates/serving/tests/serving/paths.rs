//! Tests that no spelling of a path opens a closed page.

use kube_endpoint_serving::OpenPaths;

use crate::common::{Client, SCRAPER, start};

/// Spellings that some programs take for an open path, and others for `/metrics`.
const TRICKS: [&str; 24] = [
    "//metrics",
    "/healthz/../metrics",
    "//healthz/../metrics",
    "/healthz/..%2fmetrics",
    "/healthz/%2e%2e/metrics",
    "/healthz%2f..%2fmetrics",
    "/healthz%2f%2e%2e%2fmetrics",
    "/%2e%2e/metrics",
    "/./metrics",
    "/livez/./../metrics",
    "/livez/ping/../../metrics",
    "/healthz/",
    "/healthz/metrics",
    "/healthz%2fmetrics",
    "/healthz//metrics",
    "/healthz;/metrics",
    "/healthz;/../metrics",
    "/healthz\\..\\metrics",
    "/metrics/",
    "/metrics%2f",
    "/METRICS",
    "http://localhost/metrics",
    "http://localhost/healthz/../metrics",
    "https://healthz/metrics",
];

/// Spellings that are no valid path.
const INVALID: [&str; 5] = ["/healthz%", "/healthz%2", "/healthz%00", "/healthz%ff", "/metrics%0a"];

#[tokio::test]
async fn path_tricks_on_the_open_paths_are_refused() {
    let server = start(|_| {}).await;
    for path in TRICKS {
        let reply = server.get(path).await;
        assert!([400, 403].contains(&reply.status), "{path}: {reply:?}");
        assert!(!reply.body.contains("workqueue"), "{path}: {reply:?}");
    }
    for path in INVALID {
        assert_eq!(server.get(path).await.status, 400, "{path}");
        assert_eq!(server.get_with(SCRAPER, path).await.status, 400, "{path}");
    }
}

#[tokio::test]
async fn path_tricks_on_open_prefixes_are_refused() {
    let server =
        start(|options| options.open_paths = OpenPaths::parse(&["/healthz*", "/livez/*", "/"]).unwrap())
            .await;
    for path in TRICKS {
        let reply = server.get(path).await;
        // Below an open prefix the server has nothing but single checks.
        assert!([400, 403, 404].contains(&reply.status), "{path}: {reply:?}");
        assert!(!reply.body.contains("workqueue"), "{path}: {reply:?}");
    }
    assert_eq!(server.get("/livez/ping").await.status, 200);
    assert_eq!(server.get("/livez%2fping").await.status, 200);
    assert_eq!(server.get("/").await.status, 404);
    assert_eq!(server.get("/metrics").await.status, 403);
}

#[tokio::test]
async fn an_absolute_uri_and_an_escaped_letter_are_the_same_path() {
    let server = start(|_| {}).await;
    for path in ["http://elsewhere/healthz", "/%68ealthz", "/healthz?/../metrics", "/livez?a=/metrics"] {
        assert_eq!(server.get(path).await.body, "ok", "{path}");
    }
    assert_eq!(server.get_with(SCRAPER, "/m%65trics").await.status, 200);
    // The server authorizes the path that it serves.
    assert_eq!(server.get_with(SCRAPER, "/metrics/%2e%2e/metrics/slis").await.status, 403);
}

#[tokio::test]
async fn only_get_and_head_are_allowed() {
    let server = start(|_| {}).await;
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT", "FOO"] {
        let target = if method == "CONNECT" { "localhost:1" } else { "/healthz" };
        let request = format!("{method} {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        let reply = Client::default().send(server.address, &request).await.unwrap();
        assert_eq!(reply.status, 405, "{method}");
    }
    let request = "HEAD /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let reply = Client::default().send(server.address, request).await.unwrap();
    assert!(
        reply.status == 200 && reply.body.is_empty() && reply.head.contains("content-length: 2"),
        "{reply:?}"
    );
}
