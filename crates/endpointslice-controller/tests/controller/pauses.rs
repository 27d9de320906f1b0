//! Tests with a server that asks for a pause: 429, and 503 with Retry-After.

use kube_endpoint_embedded_apiserver::Fault;
use serde_json::json;

use crate::controller::harness::{Harness, seconds};
use crate::controller::objects::{pod, service};

fn busy(status: u16, retry_after: u32) -> Fault {
    Fault::Refuse { status, retry_after: Some(retry_after) }
}

/// Returns the times of the requests, in seconds since the server started.
fn asked(harness: &Harness) -> Vec<u128> {
    harness.timed_requests().iter().map(|(at, _)| at / 1000).collect()
}

/// Returns true if each time is `seconds` after the one before, or later by up to a tenth of that
/// and a second.
fn are_apart(times: &[u128], seconds: u128) -> bool {
    times.windows(2).all(|pair| (seconds..=seconds + seconds / 10 + 1).contains(&(pair[1] - pair[0])))
}

#[tokio::test(start_paused = true)]
async fn a_requested_pause_delays_every_sync_of_the_key() {
    for status in [429, 503] {
        let harness = Harness::with([pod("a", 1, true)]).await;
        harness.fault(busy(status, 20), "create", 2);
        harness.create(&service("web")).await;
        for number in 2..12 {
            harness.load([pod(&format!("p{number}"), number, true)]);
            harness
                .patch("services", "web", json!({"metadata": {"labels": {"x": number.to_string()}}}))
                .await;
            harness.pass(seconds(1)).await;
        }
        harness.pass(seconds(60)).await;
        let times = asked(&harness);
        assert!(times.len() == 3 && are_apart(&times, 20), "{times:?}");
        assert_eq!(harness.endpoints("web").len(), 11);
        assert_eq!(harness.events(), [""; 0], "it is no failure");
        assert_eq!(harness.controller.pending(), 0);
        assert_eq!(harness.controller.state_counts().deferred, 0);
    }
}
