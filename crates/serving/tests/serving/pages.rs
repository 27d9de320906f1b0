//! Tests of the content of the pages.

use kube_endpoint_serving::Probe;
use serde_json::Value;

use crate::common::{Client, SCRAPER, start};

#[tokio::test]
async fn failing_checks_answer_500_and_withhold_the_reason() {
    let server = start(|_| {}).await;
    server.health.add(Probe::Livez, "workers", || Err("the worker of endpoints ended".to_owned()));
    for path in ["/healthz", "/livez"] {
        let reply = server.get(path).await;
        let page = path.trim_start_matches('/');
        let expected = format!("[+]ping ok\n[-]workers failed: reason withheld\n{page} check failed\n");
        assert_eq!((reply.status, &*reply.body), (500, &*expected));
    }
    assert_eq!(server.get("/livez?exclude=workers").await.body, "ok");
    assert_eq!(server.get("/readyz?verbose").await.body, "[+]ping ok\nreadyz check passed\n");
    let reply = server.get_with(SCRAPER, "/livez/workers").await;
    assert_eq!((reply.status, &*reply.body), (500, "internal server error: the worker of endpoints ended\n"));
}

#[tokio::test]
async fn configz_flagz_and_statusz_are_served_as_text_and_json() {
    let server = start(|_| {}).await;
    let mut shown = String::new();
    for (path, accept) in [
        ("/configz", "*/*"),
        ("/flagz", "*/*"),
        ("/flagz", "application/json"),
        ("/statusz", "text/plain"),
        ("/statusz", "application/json;v=v1beta1;g=config.k8s.io;as=Statusz"),
        ("/statusz", "application/yaml"),
    ] {
        let headers = format!("Authorization: Bearer {SCRAPER}\r\nAccept: {accept}\r\n");
        let reply = Client::default().get(server.address, path, &headers).await;
        let body = match serde_json::from_str::<Value>(&reply.body) {
            Ok(json) => format!("{json:#}"),
            Err(_) => reply.body,
        };
        shown += &format!("=== GET {path} Accept: {accept}\n{}\n{body}\n", reply.status);
    }
    insta::assert_snapshot!(shown);
}
