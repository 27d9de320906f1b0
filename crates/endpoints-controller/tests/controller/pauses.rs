//! Tests with a server that asks for a pause: 429, and 503 with Retry-After.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_endpoints_controller::ControllerOptions;
use serde_json::json;

use crate::controller::harness::{Harness, addresses, pod, server, service};

async fn started() -> Harness {
    Harness::start(&server([pod("a", 1, true)]), ControllerOptions::default()).await
}

fn busy(status: u16, retry_after: u32) -> Fault {
    Fault::Refuse { status, retry_after: Some(retry_after) }
}

/// Returns the requests and their times, in seconds since the server started.
fn asked(harness: &Harness) -> Vec<(u128, String)> {
    harness.timed_writes().into_iter().map(|(at, write)| (at / 1000, write)).collect()
}

/// Returns true if each time is `seconds` after the one before, or later by up to a tenth of that
/// and a second.
fn are_apart(times: &[u128], seconds: u128) -> bool {
    times.windows(2).all(|pair| (seconds..=seconds + seconds / 10 + 1).contains(&(pair[1] - pair[0])))
}

#[tokio::test(start_paused = true)]
async fn a_requested_pause_delays_every_sync_of_the_key() {
    for status in [429, 503] {
        let harness = started().await;
        harness.fault(busy(status, 20), "create", 2);
        harness.create(&service("web")).await;
        for number in 2..12 {
            harness.load([pod(&format!("p{number}"), number, true)]);
            harness
                .patch("services", "web", json!({"metadata": {"labels": {"x": number.to_string()}}}))
                .await;
            harness.pass(Duration::from_secs(1)).await;
        }
        harness.pass(Duration::from_secs(60)).await;
        let times: Vec<u128> = asked(&harness).iter().map(|(at, _)| *at).collect();
        assert!(times.len() == 3 && are_apart(&times, 20), "{times:?}");
        let made = harness.get("endpoints", "web").unwrap();
        assert_eq!(addresses(&made).len(), 11);
        let trigger_time =
            &made["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"];
        assert_eq!(trigger_time, "2026-01-01T00:00:02Z", "the trigger time of the oldest change");
        assert_eq!(harness.events(), [""; 0], "it is no failure");
        assert_eq!(harness.controller.pending(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_busy_is_retried_after_each_requested_pause_without_limit() {
    let harness = started().await;
    harness.fault(busy(429, 30), "create", 100);
    harness.create(&service("web")).await;
    harness.pass(Duration::from_secs(3400)).await;
    let times: Vec<u128> = asked(&harness).iter().map(|(at, _)| *at).collect();
    assert!(times.len() == 101 && are_apart(&times, 30), "{times:?}");
    assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["10.1.0.1"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_busy_server_without_retry_after_is_retried_with_backoff() {
    let harness = started().await;
    harness.fault(Fault::Refuse { status: 429, retry_after: None }, "create", 4);
    harness.create(&service("web")).await;
    harness.pass(Duration::from_secs(60)).await;
    let attempts = harness.timed_writes();
    let waits: Vec<u128> = attempts.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(waits.iter().zip(0..).all(|(wait, power)| wait.abs_diff(5 << power) <= 2), "{waits:?}");
    assert_eq!(attempts.len(), 5);
    assert_eq!(harness.events().len(), 1, "those are failures");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_a_service_deleted_during_a_pause_are_deleted_after_it() {
    let harness = started().await;
    harness.create(&service("web")).await;
    harness.pass(Duration::from_secs(1)).await;
    harness.fault(busy(429, 20), "update", 1);
    harness.load([pod("b", 2, true)]);
    harness.pass(Duration::from_secs(1)).await;
    // The API server deletes them as well; the cache does not show it yet.
    harness.stall_watch("endpoints", Duration::from_secs(60)).await;
    harness.delete("services", "web").await;
    harness.pass(Duration::from_secs(100)).await;
    let asked = asked(&harness);
    let asked: Vec<(u128, &str)> = asked.iter().map(|(at, write)| (*at, write.as_str())).collect();
    assert_eq!(
        asked,
        [(2, "create endpoints 201"), (3, "update endpoints 429"), (23, "delete endpoints 404")]
    );
    assert_eq!(harness.controller.pending(), 0);
    harness.create(&service("web")).await;
    harness.moment().await;
    assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["10.1.0.1", "10.1.0.2"]);
    harness.nothing_is_remembered().await;
}
