//! Tests with another client that undoes every correction.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_endpoints_controller::ControllerOptions;
use serde_json::json;

use crate::controller::harness::{Harness, addresses, pod, server, service};

/// Lets another client remove all addresses within a tenth of a second of each correction, for this
/// number of seconds. Returns the number of corrections.
async fn fight(harness: &Harness, seconds: u64) -> usize {
    let mut corrections = 0;
    for _ in 0..seconds * 10 {
        if !addresses(&harness.get("endpoints", "web").unwrap()).is_empty() {
            harness.patch("endpoints", "web", json!({"subsets": null})).await;
            corrections += 1;
        }
        harness.pass(Duration::from_millis(100)).await;
    }
    corrections
}

async fn started() -> Harness {
    let harness =
        Harness::start(&server([pod("a", 1, true), pod("b", 2, true)]), ControllerOptions::default()).await;
    harness.create(&service("web")).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.writes(), ["create endpoints 201"]);
    harness
}

#[tokio::test(start_paused = true)]
async fn another_client_that_undoes_every_correction_costs_few_writes() {
    let harness = started().await;
    let corrections = fight(&harness, 3600).await;
    assert!((12..=22).contains(&corrections), "{corrections} in an hour");
    assert!(harness.writes().len() <= corrections);
    let events = harness.events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(events[0].contains("ForeignWriteConflict"), "{events:?}");
    harness.pass(Duration::from_secs(301)).await;
    assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()).len(), 2, "it has stopped");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_turns_unready_during_a_fight_is_gone_within_a_second() {
    let harness = started().await;
    fight(&harness, 600).await;
    assert!(addresses(&harness.get("endpoints", "web").unwrap()).is_empty(), "the fight is on");
    harness.writes();
    harness.load([pod("b", 2, false)]);
    harness.pass(Duration::from_millis(900)).await;
    assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["10.1.0.1"]);
    assert_eq!(harness.writes(), ["update endpoints 200"]);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_a_webhook_undoes_is_repeated_ever_more_slowly_until_it_stays() {
    let harness = started().await;
    let undone = harness.server.add_fault(FaultRule::on(Fault::UndoUpdate, "update", "endpoints"));
    harness.load([pod("c", 3, true)]);
    harness.pass(Duration::from_secs(3600)).await;
    let updates = harness.writes().len();
    assert!((12..=22).contains(&updates), "{updates} updates in an hour");
    assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()).len(), 2);
    harness.server.remove_fault(undone);
    harness.pass(Duration::from_secs(7200)).await;
    assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()).len(), 3);
    harness.nothing_is_remembered().await;
}
