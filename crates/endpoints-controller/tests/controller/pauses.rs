//! Tests with a server that asks for a pause: 429, and 503 with Retry-After.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_endpoints_controller::ControllerOptions;

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
