//! Tests with a server that asks for a pause: 429, and 503 with Retry-After. They also check that
//! the controller records an event once.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_mirroring::{ControllerOptions, PlanOptions};
use serde_json::json;

use crate::controller::harness::{Harness, changed, endpoints, server, service};

async fn started() -> Harness {
    Harness::start(&server([service("web")]), ControllerOptions::default()).await
}

fn busy(status: u16, retry_after: u32) -> Fault {
    Fault::Refuse { status, retry_after: Some(retry_after) }
}

/// Returns the times of the requests, in seconds since the server started.
fn asked(harness: &Harness) -> Vec<u128> {
    harness.timed_writes().iter().map(|(at, _)| at / 1000).collect()
}

/// Returns true if each time is `seconds` after the one before, or later by up to a tenth of that
/// and a second.
fn are_apart(times: &[u128], seconds: u128) -> bool {
    times.windows(2).all(|pair| (seconds..=seconds + seconds / 10 + 1).contains(&(pair[1] - pair[0])))
}

#[tokio::test(start_paused = true)]
async fn deletions_happen_after_the_pause() {
    let harness = started().await;
    harness.create(&endpoints("web", &["192.0.2.1"])).await;
    harness.pass(Duration::from_secs(1)).await;
    harness.fault(busy(429, 20), "delete", 1);
    harness.patch("services", "web", json!({"spec": {"selector": {"app": "web"}}})).await;
    harness.pass(Duration::from_secs(60)).await;
    let times = asked(&harness);
    assert!(times.len() == 3 && are_apart(&times[1..], 20), "{times:?}");
    assert_eq!(harness.slices(), [""; 0]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn skipped_addresses_are_reported_again_only_if_they_changed() {
    let options =
        || changed(|options| options.plan = PlanOptions::default().with_max_endpoints_per_subset(2));
    let harness = Harness::start(&server([service("web")]), options()).await;
    harness.create(&endpoints("web", &["192.0.2.1", "192.0.2.2"])).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.events(), [""; 0]);
    // The controller does not mirror the third address: there is an event and no write.
    harness.put("endpoints", &endpoints("web", &["192.0.2.1", "192.0.2.2", "192.0.2.3"])).await;
    harness.pass(Duration::from_secs(1)).await;
    let told = harness.events();
    insta::assert_snapshot!(told.join("\n"), @"Endpoints default/web: TooManyAddressesToMirror A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 1 addresses were skipped");
    let server = harness.crash().await;
    server.clear_request_log();
    let harness = Harness::start(&server, options()).await;
    harness.pass(Duration::from_secs(60)).await;
    let count = |log: Vec<kube_endpoint_embedded_apiserver::LoggedRequest>| {
        log.iter().filter(|it| it.request.method != "GET").count()
    };
    assert_eq!(count(server.request_log()), 0, "not even an event");
    assert_eq!(harness.events(), told);
}
