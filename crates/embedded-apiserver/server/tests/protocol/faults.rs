//! Faults, and what the request log says about them.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, ServiceError};
use serde_json::json;

use crate::common::*;

fn request(method: &str, uri: &str, body: String) -> Request<Full<Bytes>> {
    Request::builder().method(method).uri(uri).body(Full::new(body.into())).unwrap()
}

#[tokio::test(start_paused = true)]
async fn requests_are_refused_a_number_of_times() {
    let fault = Fault::Refuse { status: 429, retry_after: Some(7) };
    let rule = FaultRule::on(fault, "create", "services").after(1).times(1);
    let (server, raw) = start(EmbeddedApiServer::builder().fault(rule));
    raw.post(SERVICES, &service("a")).await.expect(201);
    let reply = raw.post(SERVICES, &service("b")).await;
    reply.refused(429, "TooManyRequests");
    assert_eq!(reply.headers["retry-after"], "7");
    assert_eq!(reply.json()["details"]["retryAfterSeconds"], 7);
    raw.post(SERVICES, &service("b")).await.expect(201);
    assert_eq!(server.count("services"), 2);
    let log = server.request_log();
    let seen: Vec<_> = log.iter().map(|entry| (entry.request.verb, entry.status)).collect();
    assert_eq!(seen, [("create", 201), ("create", 429), ("create", 201)]);
    assert_eq!(server.writes()["services"], 3);
}

#[tokio::test(start_paused = true)]
async fn responses_are_lost_before_or_after_the_write() {
    let (server, raw) = started();
    let after = server.add_fault(FaultRule::on(Fault::ApplyAndLoseAnswer, "create", "services"));
    let error = raw.call(request("POST", SERVICES, service("a").to_string())).await.unwrap_err();
    assert!(matches!(error, ServiceError::AnswerLost));
    assert_eq!(server.count("services"), 1);
    assert!(server.remove_fault(after));
    server.add_fault(FaultRule::new(Fault::LoseRequest, |request| request.is_write()));
    let error = raw.call(request("POST", SERVICES, service("b").to_string())).await.unwrap_err();
    assert!(matches!(error, ServiceError::RequestLost));
    assert_eq!(server.count("services"), 1);
    raw.get(SERVICES).await.expect(200);
    let statuses: Vec<_> = server.request_log().iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [201, 0, 200]);
}

#[tokio::test(start_paused = true)]
async fn delays_take_virtual_time() {
    let (server, raw) = started();
    let by_name = |request: &kube_endpoint_embedded_apiserver::RequestInfo| request.name == "slow";
    server.add_fault(FaultRule::new(Fault::Delay(Duration::from_secs(30)), by_name));
    let start = tokio::time::Instant::now();
    raw.get(&format!("{PODS}/slow")).await.refused(404, "NotFound");
    assert_eq!(start.elapsed().as_secs(), 30);
    assert_eq!(server.request_log()[0].at, Duration::from_secs(30));
}

#[tokio::test(start_paused = true)]
async fn a_delayed_response_comes_after_the_watch_event() {
    let (server, raw) = started();
    let rule = FaultRule::on(Fault::DelayAnswer(Duration::from_secs(30)), "create", "services");
    server.add_fault(rule.times(1));
    let mut watch = raw.watch(&format!("{SERVICES}?watch=1&resourceVersion=4")).await;
    let start = tokio::time::Instant::now();
    let object = service("a");
    let (created, seen_after) = tokio::join!(raw.post(SERVICES, &object), async {
        assert_eq!(watch.short().await, "ADDED a@5");
        start.elapsed()
    });
    created.expect(201);
    assert_eq!((seen_after.as_secs(), start.elapsed().as_secs()), (0, 30));
    assert_eq!(
        server.request_log().last().unwrap().at,
        Duration::ZERO,
        "the log tells when it was carried out"
    );
    raw.post(SERVICES, &service("b")).await.expect(201);
    assert_eq!(start.elapsed().as_secs(), 30);
}

#[tokio::test(start_paused = true)]
async fn watches_are_cut_broken_stalled_and_expired() {
    let (server, raw) = started();
    let uri = format!("{PODS}?watch=1&resourceVersion={}", server.resource_version());
    for name in ["a", "b", "c"] {
        raw.post(PODS, &pod(name)).await.expect(201);
    }
    server.add_fault(FaultRule::on(Fault::CutWatch { after: 2 }, "watch", "pods").times(1));
    assert_eq!(drain(raw.watch(&uri).await).await, ["ADDED a@5", "ADDED b@6"]);

    server.add_fault(FaultRule::on(Fault::BreakWatch { after: 1 }, "watch", "pods").times(1));
    let mut broken = raw.watch(&uri).await;
    assert_eq!(broken.short().await, "ADDED a@5");
    assert!(broken.error().await.unwrap().contains("connection reset"));

    server.add_fault(FaultRule::on(Fault::StallWatch(Duration::from_secs(90)), "watch", "pods").times(1));
    let mut stalled = raw.watch(&uri).await;
    let start = tokio::time::Instant::now();
    assert_eq!(stalled.short().await, "ADDED a@5");
    assert_eq!(start.elapsed().as_secs(), 90);

    server.add_fault(FaultRule::on(Fault::ExpireWatch, "watch", "pods").times(1));
    assert_eq!(raw.watch(&uri).await.take(2).await, ["ERROR too old resource version: 4 (7)", "(end)"]);
    assert_eq!(raw.watch(&uri).await.short().await, "ADDED a@5");
}

#[tokio::test(start_paused = true)]
async fn stale_reads() {
    let (server, raw) = started();
    raw.post(PODS, &pod("a")).await.expect(201);
    raw.merge(&format!("{PODS}/a"), &json!({"metadata": {"labels": {"new": "yes"}}})).await.expect(200);
    raw.post(PODS, &pod("b")).await.expect(201);
    server.add_fault(FaultRule::new(Fault::ServeOlder { versions: 2 }, |_| true));
    let list = raw.get(PODS).await.expect(200);
    assert_eq!((names(&list), version_of(&list)), (vec!["a"], 5));
    let one = raw.get(&format!("{PODS}/a")).await.expect(200);
    assert!(one["metadata"]["labels"].get("new").is_none());
    raw.get(&format!("{PODS}/b")).await.refused(404, "NotFound");
    server.clear_faults();
    raw.get(&format!("{PODS}/b")).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn the_log_contains_requests() {
    let (server, raw) = started();
    let ask = Request::get(format!("{PODS}?watch=1&labelSelector=a")).header("user-agent", "tester/1.0");
    raw.call(ask.uri(format!("{PODS}?labelSelector=a")).body(Full::default()).unwrap()).await.unwrap();
    let log = server.request_log();
    let request = &log[0].request;
    assert_eq!(
        (request.verb, request.plural(), &*request.namespace, &*request.user_agent, &*request.query),
        ("list", "pods", "default", "tester/1.0", "labelSelector=a")
    );
    server.clear_request_log();
    assert!(server.request_log().is_empty());
}
