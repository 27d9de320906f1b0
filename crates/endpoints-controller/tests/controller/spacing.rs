//! Tests that the controller collects the changes of the pods of a large Service before it writes.
//! The tests of the endpointslice controller show what does not wait.

use std::time::Duration;

use kube_endpoint_endpoints_controller::ControllerOptions;
use kube_endpoint_testing::numbered_pods;

use crate::controller::harness::{Harness, pod, server, service};

/// Starts the controller for a Service with these pods. The first 20 are ready if `ready`; the
/// others are.
async fn started(pods: usize, ready: bool) -> Harness {
    let (changing, others) = (numbered_pods(pod, 0..20, ready), numbered_pods(pod, 20..pods, true));
    let server = server(changing.chain(others).chain([service("web")]));
    let harness = Harness::start(&server, ControllerOptions::default()).await;
    harness.pass(Duration::from_secs(5)).await;
    harness
}

/// Only changed pods among the first 1,000 by name are published.
#[tokio::test(start_paused = true)]
async fn changes_of_a_large_service_are_written_together_after_150_milliseconds_at_most() {
    for (pods, want) in [(1000, [0, 100, 200]), (4000, [0, 150, 300])] {
        let harness = started(pods, false).await;
        assert_eq!(harness.written_at(numbered_pods(pod, 0..20, true), None).await, want, "{pods}");
        let subset = &harness.get("endpoints", "web").unwrap()["subsets"][0];
        assert!(subset["notReadyAddresses"].is_null(), "all changes are published");
    }
}
