//! Tests with writes that fail, that the server refuses, or whose result is unknown.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_endpoints_controller::ControllerOptions;
use serde_json::Value;

use crate::controller::harness::{Harness, addresses, changed, pod, server, service};

async fn started() -> Harness {
    Harness::start(&server([pod("a", 1, true)]), ControllerOptions::default()).await
}

fn refuse(status: u16) -> Fault {
    Fault::Refuse { status, retry_after: None }
}

fn trigger_time(endpoints: &Value) -> &Value {
    &endpoints["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"]
}

#[tokio::test(start_paused = true)]
async fn failures_are_reported_and_retried_with_their_trigger_time() {
    let harness = started().await;
    harness.fault(refuse(500), "create", 1);
    harness.create(&service("web")).await;
    harness.pass(Duration::from_secs(1)).await;
    let created = harness.get("endpoints", "web").unwrap();
    assert_eq!(trigger_time(&created), "2026-01-01T00:00:02Z");
    harness.fault(refuse(500), "update", 1);
    harness.load([pod("b", 2, true)]);
    harness.pass(Duration::from_secs(1)).await;
    let updated = harness.get("endpoints", "web").unwrap();
    assert_eq!(addresses(&updated), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(trigger_time(&updated), "2026-01-01T00:01:02Z");
    insta::assert_snapshot!([harness.writes(), harness.events()].concat().join("\n"), @r"
    create endpoints 500
    create endpoints 201
    update endpoints 500
    update endpoints 200
    Endpoints default/web: FailedToCreateEndpoint Failed to create endpoint for service default/web: an error on the server has prevented the request from succeeding
    Endpoints default/web: FailedToUpdateEndpoint Failed to update endpoint default/web: an error on the server has prevented the request from succeeding
    ");
    harness.nothing_is_remembered().await;
}

/// Related to kubernetes#125638: the retry of the lost update finds that the cache, which does not
/// show the update yet, has what is wanted.
#[tokio::test(start_paused = true)]
async fn an_update_whose_answer_was_lost_is_undone_if_the_pod_is_ready_again_before_the_cache_shows_it() {
    for repair in [true, false] {
        for fault in [Fault::ApplyAndLoseAnswer, Fault::Refuse { status: 503, retry_after: None }] {
            let was_applied = fault == Fault::ApplyAndLoseAnswer;
            let options = changed(|options| options.repair = repair);
            let harness = Harness::start(&server([pod("a", 1, true), service("web")]), options).await;
            harness.stall_watch("endpoints", Duration::from_secs(3)).await;
            harness.requests();
            harness.fault(fault, "update", 1);
            harness.load([pod("a", 1, false)]);
            // This comes before the retry, which comes after 5 ms.
            harness.moment().await;
            harness.load([pod("a", 1, true)]);
            harness.pass(Duration::from_secs(1)).await;
            let shown = addresses(&harness.get("endpoints", "web").unwrap());
            assert_eq!(shown.is_empty(), was_applied, "the cache is behind, so nothing is written");
            harness.pass(Duration::from_millis(2100)).await;
            assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["10.1.0.1"], "{repair}");
            let requests: &[&str] = if was_applied {
                &["update endpoints 200", "get endpoints 200", "update endpoints 200"]
            } else {
                &["update endpoints 503", "get endpoints 200"]
            };
            assert_eq!(harness.requests(), requests);
            harness.nothing_is_remembered().await;
        }
    }
}

/// As above, but at first the server does not say what became of the update.
#[tokio::test(start_paused = true)]
async fn the_outcome_of_a_lost_update_is_asked_for_until_the_server_answers() {
    let options = changed(|options| options.repair = false);
    let harness = Harness::start(&server([pod("a", 1, true), service("web")]), options).await;
    harness.stall_watch("endpoints", Duration::from_secs(3)).await;
    harness.requests();
    harness.fault(Fault::ApplyAndLoseAnswer, "update", 1);
    harness.fault(Fault::Refuse { status: 500, retry_after: None }, "get", 3);
    harness.load([pod("a", 1, false)]);
    harness.moment().await;
    harness.load([pod("a", 1, true)]);
    harness.pass(Duration::from_secs(5)).await;
    assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["10.1.0.1"]);
    let requests = harness.requests();
    assert_eq!(requests.iter().filter(|request| *request == "get endpoints 500").count(), 3);
    assert_eq!(requests.len(), 6, "{requests:?}");
    harness.nothing_is_remembered().await;
}
