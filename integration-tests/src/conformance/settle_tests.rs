//! Tests settling under a paused clock, with a server whose outputs are a function of time.

use std::convert::Infallible;
use std::time::Duration;

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;

/// Returns a server whose only event has the reason that `outputs` returns for the seconds since
/// the start.
fn server(outputs: impl Fn(f64) -> String + Clone + Send + 'static) -> Api {
    let start = Instant::now();
    let service = tower::service_fn(move |request: Request<Body>| {
        let reason = outputs(start.elapsed().as_secs_f64());
        let items =
            if request.uri().path().ends_with("/events") { json!([event(&reason)]) } else { json!([]) };
        let list = json!({"kind": "List", "items": items}).to_string();
        async move { Ok::<_, Infallible>(Response::new(Body::from(list.into_bytes()))) }
    });
    Api::new(Client::new(service, "default"), "ns")
}

fn event(reason: &str) -> Value {
    json!({"type": "Normal", "reason": reason, "reportingComponent": "endpoint-controller",
        "involvedObject": {"kind": "Service", "name": "web"}})
}

fn form(reason: &str) -> Value {
    json!({"endpoints": {}, "slices": [], "events": [format!("Normal {reason} Service/web")]})
}

/// Checks the result and the duration of a step that expects "done", with a quiet time of 2 s and a
/// limit of 10 s.
async fn check(outputs: impl Fn(f64) -> String + Clone + Send + 'static, reason: &str, seconds: f64) {
    let step = json!({"name": "s", "do": [], "quiet": 2, "limit": 10, "expect": {}});
    let step: Step = serde_json::from_value(step).unwrap();
    let api = server(outputs);
    let start = Instant::now();
    let got = settle(&api, &step, Parts::ALL, &form("done"), &Pace::REAL).await.unwrap();
    assert_eq!(got, form(reason));
    let took = start.elapsed();
    let want = Duration::from_secs_f64(seconds);
    assert!(took >= want && took < want + Pace::REAL.poll, "took {took:?} instead of {want:?}");
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_must_be_unchanged_for_the_quiet_time() {
    check(|_| "done".to_owned(), "done", 2.0).await;
}

#[tokio::test(start_paused = true)]
async fn an_unexpected_snapshot_is_waited_out() {
    check(|now| if now < 4.9 { "early" } else { "done" }.to_owned(), "done", 6.9).await;
}

#[tokio::test(start_paused = true)]
async fn an_expected_snapshot_that_changes_again_is_not_accepted() {
    check(|now| if now < 1.9 { "done" } else { "late" }.to_owned(), "late", 10.1).await;
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_expected_snapshot_ends_at_the_limit() {
    check(|_| "other".to_owned(), "other", 10.1).await;
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_that_keeps_changing_is_taken_after_limit_and_quiet_time() {
    check(|now| format!("at-{}", (now * 2.0).round()), "at-24", 12.1).await;
}
