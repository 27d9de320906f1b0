//! Tests which changes start a sync, when, and what the sync publishes.

use kube_endpoint_endpointslice_controller::{ControllerOptions, PlanOptions};
use kube_endpoint_testing::without_an_address;
use serde_json::json;

use crate::controller::harness::{Harness, changed, millis, seconds, server};
use crate::controller::objects::{MANAGED_BY, MANAGER, SERVICE_NAME, node, pod, service, trigger_time};

fn batched(period: u64) -> ControllerOptions {
    changed(|options| options.batch_period = seconds(period))
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_service_become_a_slice() {
    let harness = Harness::with([pod("a", 1, true), pod("b", 2, false)]).await;
    assert_eq!(harness.requests(), [""; 0]);
    harness.create(&service("web")).await;
    harness.moment().await;
    let made = harness.slice("web");
    assert_eq!(made["metadata"]["labels"], json!({SERVICE_NAME: "web", MANAGED_BY: MANAGER}));
    assert_eq!(trigger_time(&made), "2026-01-01T00:00:02Z");
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2!"]);
    harness.pass(seconds(3600)).await;
    assert_eq!(harness.requests(), ["create endpointslices 201"]);
    assert_eq!(harness.controller.pending(), 0);
    assert_eq!(harness.events(), [""; 0]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn one_pod_that_turns_ready_is_one_write_and_one_sync() {
    let harness = Harness::with([pod("a", 1, true), pod("b", 2, false), service("web")]).await;
    harness.requests();
    let before = harness.syncs();
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(3600)).await;
    assert_eq!(harness.requests(), ["update endpointslices 200"], "the echo of our own write starts no sync");
    assert_eq!(harness.syncs() - before, 1.0);
    assert_eq!(trigger_time(&harness.slice("web")), "2026-01-01T00:01:02Z");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_service_is_one_write_and_one_sync() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(1);
    let options = changed(|options| options.plan = plan);
    let harness = Harness::start(&server([pod("a", 1, true), pod("b", 2, true)]), options).await;
    harness.create(&service("web")).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), ["create endpointslices 201", "create endpointslices 201"]);
    assert_eq!(harness.syncs(), 1.0);
    let before = harness.syncs();
    harness.delete("pods", "a").await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), ["delete endpointslices 200"]);
    assert_eq!(harness.syncs() - before, 1.0, "the echo of a deletion starts no sync");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn changes_that_do_not_affect_endpoints_start_no_sync() {
    let harness = Harness::with([pod("a", 1, true), service("web")]).await;
    harness.requests();
    let before = harness.syncs();
    let mut annotated = pod("a", 1, true);
    annotated["metadata"]["annotations"] = json!({"x": "y"});
    harness.load([annotated]);
    let mut other = pod("other", 9, true);
    other["metadata"]["labels"] = json!({"app": "other"});
    harness.load([other, node("third", "zone-c", 4)]);
    harness.pass(seconds(60)).await;
    assert_eq!(harness.syncs(), before);
    // Any change of a Service starts a sync, which finds nothing to write.
    harness.patch("services", "web", json!({"metadata": {"annotations": {"x": "y"}}})).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.syncs() - before, 1.0);
    assert_eq!(harness.requests(), [""; 0]);
    harness.nothing_is_remembered().await;
}

/// No endpoint depends on where a pod without an address runs, nor on its containers.
#[tokio::test(start_paused = true)]
async fn a_pod_starts_no_sync_until_it_has_an_address() {
    let harness = Harness::with([pod("a", 1, true), service("web")]).await;
    harness.requests();
    let before = harness.syncs();
    let [new, bound @ ..] = without_an_address(&pod("b", 2, true));
    harness.load([new]);
    harness.pass(seconds(60)).await;
    let created = harness.syncs();
    assert_eq!(created - before, 1.0, "a new pod");
    for (restarts, pod) in bound.into_iter().enumerate() {
        harness.load([pod]);
        harness.pass(seconds(60)).await;
        assert_eq!(harness.syncs(), created, "{restarts} restarts");
    }
    assert_eq!(harness.requests(), [""; 0]);
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(60)).await;
    assert_eq!(harness.syncs() - created, 1.0);
    assert_eq!(harness.requests(), ["update endpointslices 200"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing() {
    let harness = Harness::with([pod("a", 1, true), pod("b", 2, false), service("web")]).await;
    let server = harness.crash().await;
    server.clear_request_log();
    let harness = Harness::start(&server, ControllerOptions::default()).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), [""; 0]);
    assert_eq!(harness.syncs(), 1.0);
}

#[tokio::test(start_paused = true)]
async fn the_batch_period_delays_syncs_caused_by_pods_only() {
    let harness = Harness::start(&server([pod("a", 1, true)]), batched(5)).await;
    harness.create(&service("web")).await;
    harness.pass(seconds(1)).await;
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(2)).await;
    harness.load([pod("c", 3, true)]);
    harness.pass(seconds(10)).await;
    harness.patch("services", "web", json!({"spec": {"ports": [{"port": 80, "targetPort": 9090}]}})).await;
    harness.pass(seconds(1)).await;
    let writes = harness.timed_requests();
    let writes: Vec<(u128, &str)> = writes.iter().map(|(at, write)| (*at, write.as_str())).collect();
    assert_eq!(
        writes,
        [
            (2000, "create endpointslices 201"),
            // Five seconds after the first of two pods.
            (8000, "update endpointslices 200"),
            (15_000, "update endpointslices 200"),
        ]
    );
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2", "10.1.0.3"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn many_changes_of_pods_within_the_batch_period_are_one_write() {
    let harness = Harness::start(&server([service("web")]), batched(2)).await;
    harness.requests();
    let before = harness.syncs();
    for round in 0..10 {
        harness.load((1..50).map(|number| pod(&format!("p{number}"), number, (number + round) % 2 == 0)));
        harness.pass(millis(100)).await;
    }
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), ["update endpointslices 200"]);
    assert_eq!(harness.syncs() - before, 1.0);
    assert_eq!(harness.endpoints("web").len(), 49);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_change_within_the_batch_period_publishes_the_pods_too() {
    let harness = Harness::start(&server([service("web")]), batched(30)).await;
    harness.requests();
    harness.load([pod("a", 1, true)]);
    harness.pass(seconds(1)).await;
    harness.patch("services", "web", json!({"metadata": {"annotations": {"x": "y"}}})).await;
    harness.moment().await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), ["update endpointslices 200"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_its_labels_leaves_one_service_and_joins_another() {
    let mut other = service("other");
    other["spec"]["selector"] = json!({"app": "other"});
    let harness = Harness::with([pod("a", 1, true), service("web"), other]).await;
    harness.requests();
    let mut moved = pod("a", 1, true);
    moved["metadata"]["labels"] = json!({"app": "other"});
    harness.load([moved]);
    harness.moment().await;
    assert_eq!(harness.endpoints("web"), [""; 0]);
    assert_eq!(harness.endpoints("other"), ["10.1.0.1"]);
    assert_eq!(harness.requests(), ["update endpointslices 200", "update endpointslices 200"]);
    harness.nothing_is_remembered().await;
}
