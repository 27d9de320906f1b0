//! Tests faults, and their records in the request log.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use kube_endpoint_embedded_apiserver::{
    Details, EmbeddedApiServer, Fault, FaultRule, LoggedRequest, ServiceError, User, refusals,
};
use serde_json::json;

use crate::protocol::common::*;

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

#[tokio::test(start_paused = true)]
async fn the_log_names_the_user_of_a_known_token() {
    let user = User { name: "alice".to_owned(), groups: Vec::new() };
    let (server, raw) = start(EmbeddedApiServer::builder().token("secret", user));
    for token in ["secret", "wrong"] {
        let ask = Request::get(PODS).header("authorization", format!("Bearer {token}"));
        raw.call(ask.body(Full::default()).unwrap()).await.unwrap();
    }
    raw.get(PODS).await.expect(200);
    let users: Vec<String> = server.request_log().into_iter().map(|entry| entry.request.user).collect();
    assert_eq!(users, ["alice", "", ""]);
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_one_verb_and_kind_lasts_for_its_span() {
    let (server, raw) = started();
    let outage = Duration::from_secs(10)..Duration::from_secs(200);
    let refuse = Fault::Refuse { status: 503, retry_after: None };
    server.add_fault(FaultRule::on(refuse, "list", "pods").during(outage));
    for (sleep, expected) in [(0, 200), (10, 503), (189, 503), (1, 200)] {
        pass(sleep).await;
        raw.get(PODS).await.expect(expected);
        raw.get(SERVICES).await.expect(200);
    }
    let pods = |entry: &&LoggedRequest| entry.request.plural() == "pods";
    let statuses: Vec<_> = server.request_log().iter().filter(pods).map(|entry| entry.status).collect();
    assert_eq!(statuses, [200, 503, 503, 200]);
}

#[tokio::test(start_paused = true)]
async fn a_half_open_connection_is_silent_and_does_not_end() {
    let (server, raw) = started();
    let uri = format!("{PODS}?watch=1&resourceVersion=4&allowWatchBookmarks=true&timeoutSeconds=600");
    server.add_fault(FaultRule::on(Fault::SilenceWatch { after: 1 }, "watch", "pods").times(1));
    let (mut faulty, mut silenced) = (raw.watch(&uri).await, raw.watch(&uri).await);
    for name in ["a", "b"] {
        raw.post(PODS, &pod(name)).await.expect(201);
    }
    assert_eq!(faulty.short().await, "ADDED a@5");
    assert_eq!(silenced.short().await, "ADDED a@5");
    assert_eq!(server.open_watches().len(), 2);
    assert_eq!(server.silence_watches(|watch| watch.plural() == "services"), 0);
    assert_eq!(server.silence_watches(|watch| watch.namespace == "default"), 2);
    server.close_watches();
    assert_eq!(server.break_watches(|_| true), 0, "a half-open connection does not notice");
    assert!(server.open_watches().is_empty());
    let hour = Duration::from_secs(3600);
    assert!(tokio::time::timeout(hour, faulty.short()).await.is_err());
    assert!(tokio::time::timeout(hour, silenced.short()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn open_watches_of_one_kind_are_broken() {
    let (server, raw) = started();
    let mut pods = raw.watch(&format!("{PODS}?watch=1")).await;
    let mut services = raw.watch(&format!("{SERVICES}?watch=1")).await;
    assert_eq!(server.break_watches(|watch| watch.plural() == "pods"), 1);
    assert!(pods.error().await.unwrap().contains("connection reset"));
    raw.post(SERVICES, &service("a")).await.expect(201);
    assert_eq!(services.short().await, "ADDED a@5");
    drop((pods, services));
    assert!(server.open_watches().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_answer_never_arrives() {
    let (server, raw) = started();
    for (applied, count) in [(false, 0), (true, 1)] {
        let fault = Fault::NeverAnswer { applied };
        server.add_fault(FaultRule::on(fault, "create", "services").times(1));
        let answer = raw.call(request("POST", SERVICES, service("a").to_string()));
        assert!(tokio::time::timeout(Duration::from_secs(86_400), answer).await.is_err());
        assert_eq!(server.count("services"), count);
    }
    let statuses: Vec<_> = server.request_log().iter().map(|entry| entry.status).collect();
    assert_eq!(statuses, [0, 201]);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_is_undone_changes_nothing_and_is_checked_as_ever() {
    let (server, raw) = started();
    let made = raw.post(SERVICES, &service("a")).await.expect(201);
    let path = format!("{SERVICES}/a");
    let mut changed = made.clone();
    changed["metadata"]["labels"] = json!({"x": "y"});
    let mut late = changed.clone();
    late["metadata"]["resourceVersion"] = "1".into();
    let undone = server.add_fault(FaultRule::on(Fault::UndoUpdate, "update", "services"));
    assert_eq!(raw.put(&path, &changed).await.expect(200), made);
    raw.put(&path, &late).await.refused(409, "Conflict");
    server.remove_fault(undone);
    let updated = raw.put(&path, &changed).await.expect(200);
    assert_eq!(updated["metadata"]["labels"], json!({"x": "y"}));
    assert_ne!(updated["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_has_the_given_code_reason_details_and_retry_after() {
    let (server, raw) = started();
    let mut status = refusals::webhook_denied("deny.example.com", 429, "TooManyRequests", "slow down");
    status.details = Some(Box::new(Details { retry_after_seconds: 32, ..Details::default() }));
    server.add_fault(FaultRule::on(Fault::RefuseWith(status), "create", "services").times(1));
    let reply = raw.post(SERVICES, &service("a")).await;
    let message = reply.refused(429, "TooManyRequests");
    assert_eq!(message, "admission webhook \"deny.example.com\" denied the request: slow down");
    assert_eq!(reply.headers["retry-after"], "32");
    let quantities = ["count/services=1", "count/services=5", "count/services=5"];
    let status = refusals::quota_exceeded("services", "a", "few", quantities);
    server.add_fault(FaultRule::on(Fault::RefuseWith(status), "create", "services").times(1));
    let reply = raw.post(SERVICES, &service("a")).await;
    assert_eq!(
        reply.refused(403, "Forbidden"),
        "services \"a\" is forbidden: exceeded quota: few, requested: count/services=1, used: count/services=5, \
         limited: count/services=5"
    );
    assert_eq!(reply.json()["details"], json!({"name": "a", "kind": "services"}));
    raw.post(SERVICES, &service("a")).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_is_answered_404_while_the_object_exists() {
    let (server, raw) = started();
    raw.post(SERVICES, &service("a")).await.expect(201);
    let not_found = Fault::Refuse { status: 404, retry_after: None };
    server.add_fault(FaultRule::on(not_found, "delete", "services").times(1));
    let uri = format!("{SERVICES}/a");
    let message = raw.delete(&uri, &json!({})).await.refused(404, "NotFound");
    assert_eq!(message, "services \"a\" not found");
    assert_eq!(server.count("services"), 1);
    raw.delete(&uri, &json!({})).await.expect(200);
}

#[tokio::test(start_paused = true)]
async fn continue_tokens_are_refused() {
    let (server, raw) = started();
    for name in ["a", "b"] {
        raw.post(PODS, &pod(name)).await.expect(201);
    }
    let token = raw.get(&format!("{PODS}?limit=1")).await.expect(200)["metadata"]["continue"].clone();
    let second = format!("{PODS}?limit=1&continue={}", token.as_str().unwrap());
    for (status, reason) in [(400, "BadRequest"), (500, "InternalError"), (410, "Expired")] {
        let refuse = Fault::Refuse { status, retry_after: None };
        server.add_fault(FaultRule::new(refuse, |request| request.parameter("continue").is_some()).times(1));
        raw.get(&format!("{PODS}?limit=1&continue=")).await.expect(200);
        raw.get(&second).await.refused(status, reason);
    }
    assert_eq!(names(&raw.get(&second).await.expect(200)), ["b"]);
}
