//! Tests that the controller collects the changes of the pods of a large Service before it writes.

use std::time::Duration;

use kube_endpoint_endpoints_controller::ControllerOptions;
use kube_endpoint_testing::numbered_pods;
use serde_json::json;

use crate::controller::harness::{Harness, changed, pod, server, service};

/// Makes a pod of a Service ready every ten milliseconds, 20 times. Returns when the controller
/// wrote, in milliseconds from the first write, which comes at once. If `edited`, the Service
/// changes after 45 ms.
async fn written_at(options: ControllerOptions, pods: usize, edited: bool) -> Vec<u128> {
    let (unready, ready) = (numbered_pods(pod, 0..20, false), numbered_pods(pod, 20..pods, true));
    let server = server(unready.chain(ready).chain([service("web")]));
    let harness = Harness::start(&server, options).await;
    harness.pass(Duration::from_secs(5)).await;
    let patch = edited.then(|| json!({"metadata": {"labels": {"team": "blue"}}}));
    let written = harness.written_at(numbered_pods(pod, 0..20, true), patch).await;
    let subset = &harness.get("endpoints", "web").unwrap()["subsets"][0];
    assert!(subset["notReadyAddresses"].is_null(), "all changes are published");
    written
}

#[tokio::test(start_paused = true)]
async fn changes_of_a_large_service_are_written_together() {
    let written = written_at(ControllerOptions::default(), 1000, false).await;
    assert_eq!(written, [0, 100, 200]);
}

/// Only changed pods among the first 1,000 by name are published.
#[tokio::test(start_paused = true)]
async fn no_change_waits_longer_than_150_milliseconds() {
    let (unready, ready) = (numbered_pods(pod, 0..20, false), numbered_pods(pod, 20..4000, true));
    let server = server(unready.chain(ready).chain([service("web")]));
    let harness = Harness::start(&server, ControllerOptions::default()).await;
    harness.pass(Duration::from_secs(5)).await;
    let written = harness.written_at(numbered_pods(pod, 0..20, true), None).await;
    assert_eq!(written, [0, 150, 300]);
}

#[tokio::test(start_paused = true)]
async fn another_change_of_a_large_service_is_written_at_once() {
    let written = written_at(ControllerOptions::default(), 1000, true).await;
    assert_eq!(written, [0, 45, 145, 245], "it takes the changes of pods along");
}

#[tokio::test(start_paused = true)]
async fn each_change_of_a_small_service_is_written_at_once() {
    let written = written_at(ControllerOptions::default(), 999, false).await;
    assert_eq!(written.len(), 20, "{written:?}");
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_each_change_is_written_at_once() {
    let options = changed(|options| options.runtime.write_spacing = false);
    let written = written_at(options, 1000, false).await;
    assert_eq!(written.len(), 20, "{written:?}");
}

/// Clients must not use a pod that has gone.
#[tokio::test(start_paused = true)]
async fn pods_that_leave_a_large_service_are_written_at_once() {
    let server = server(numbered_pods(pod, 0..1000, true).chain([service("web")]));
    let harness = Harness::start(&server, ControllerOptions::default()).await;
    harness.pass(Duration::from_secs(5)).await;
    let written = harness.written_at(numbered_pods(pod, 0..20, false), None).await;
    assert_eq!(written, (0..20).map(|change| change * 10).collect::<Vec<u128>>());
}

#[tokio::test(start_paused = true)]
async fn the_first_ready_pod_of_a_large_service_is_written_at_once() {
    let server = server(numbered_pods(pod, 0..1000, false).chain([service("web")]));
    let harness = Harness::start(&server, ControllerOptions::default()).await;
    harness.pass(Duration::from_secs(5)).await;
    let joins = numbered_pods(pod, 1000..1001, false).chain(numbered_pods(pod, 0..10, true));
    let written = harness.written_at(joins, None).await;
    assert_eq!(written[..2], [0, 10], "a pod that is not ready, then the first ready one");
    assert!(written.len() < 6, "the others together: {written:?}");
}
