//! Tests how changes of nodes affect slices, with each gate on and off.

use kube_endpoint_endpointslice_controller::{ControllerOptions, RuntimeOptions};
use kube_endpoint_informer::{Cluster, Kind};
use serde_json::json;

use crate::controller::harness::{Harness, changed, millis, seconds, server};
use crate::controller::objects::{node, pod, pod_on, service};

/// Returns a controller, a ready pod on a node, and one on a node that does not exist.
async fn with_missing_node() -> Harness {
    Harness::with([pod("a", 1, true), pod_on("late", "b", 2, true)]).await
}

#[tokio::test(start_paused = true)]
async fn node_zone_resync_publishes_a_new_or_changed_zone_of_a_node() {
    let harness = Harness::with([pod("a", 1, true), service("web")]).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    assert_eq!(harness.requests(), ["create endpointslices 201"]);
    harness.load([node("node", "zone-a", 4)]);
    harness.moment().await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1 [zone-a]"]);
    harness.load([node("node", "zone-b", 4)]);
    harness.moment().await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1 [zone-b]"]);
    // Other changes of a node start no sync.
    harness.load([node("node", "zone-b", 8), node("other", "zone-b", 8)]);
    harness.patch("nodes", "node", json!({"metadata": {"labels": {"x": "y"}}})).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), ["update endpointslices 200", "update endpointslices 200"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn zone_changes_within_the_batch_period_are_one_write_for_each_service() {
    let options = changed(|options| options.batch_period = seconds(3));
    let objects = [node("other", "", 4), pod("a", 1, true), pod_on("other", "b", 2, true), service("web")];
    let harness = Harness::start(&server(objects), options).await;
    harness.requests();
    harness.load([node("node", "zone-a", 4), node("other", "zone-b", 4)]);
    harness.pass(seconds(2)).await;
    assert_eq!(harness.requests(), [""; 0]);
    harness.pass(seconds(2)).await;
    assert_eq!(harness.requests(), ["update endpointslices 200"]);
    assert_eq!(harness.endpoints("web"), ["10.1.0.1 [zone-a]", "10.1.0.2 [zone-b]"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_with_an_unknown_node_is_left_out_and_reported() {
    let harness = with_missing_node().await;
    harness.create(&service("web")).await;
    harness.pass(millis(500)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    insta::assert_snapshot!(harness.events().join("\n"), @"Service default/web: FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service default/web: skipping Pod b for Service default/web: Node late Not Found");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn missing_node_resync_publishes_pods_as_soon_as_their_node_appears() {
    let harness = with_missing_node().await;
    harness.create(&service("web")).await;
    harness.pass(seconds(10)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    harness.load([node("late", "zone-a", 4)]);
    harness.moment().await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2 [zone-a]"]);
    harness.pass(seconds(3600)).await;
    assert_eq!(harness.requests(), ["create endpointslices 201", "update endpointslices 200"]);
    assert_eq!(harness.controller.pending(), 0);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn after_the_last_retry_only_missing_node_resync_publishes_the_pod() {
    for gate in [true, false] {
        let runtime = RuntimeOptions { slow_retries: false, ..RuntimeOptions::default() };
        let options = changed(|options| {
            options.missing_node_resync = gate;
            options.runtime = runtime;
        });
        let objects = [pod("a", 1, true), pod_on("late", "b", 2, true)];
        let harness = Harness::start(&server(objects), options).await;
        harness.create(&service("web")).await;
        harness.pass(seconds(10_000)).await;
        assert_eq!(harness.metric("workqueue_dropped_total"), 1.0);
        harness.load([node("late", "", 4)]);
        harness.pass(seconds(3600)).await;
        let want: &[&str] = if gate { &["10.1.0.1", "10.1.0.2"] } else { &["10.1.0.1"] };
        assert_eq!(harness.endpoints("web"), want);
    }
}

/// Related to kubernetes#107927: the manager waits for kinds that this controller does not read.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_listed_and_that_the_controller_does_not_read_holds_up_no_node() {
    let objects = [pod("a", 1, true), pod_on("late", "b", 2, true), service("web")];
    let cluster = Cluster::new(Kind::ALL);
    let harness = Harness::begin_with(&server(objects), ControllerOptions::default(), cluster.clone());
    harness.pass(seconds(10)).await;
    assert!(!cluster.has_synced(), "nobody lists Endpoints");
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    harness.load([node("node", "zone-a", 4), node("late", "zone-b", 4)]);
    harness.moment().await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1 [zone-a]", "10.1.0.2 [zone-b]"]);
    harness.nothing_is_remembered().await;
}

async fn with_a_pod_on_another_node(missing_node_resync: bool) -> Harness {
    let options = changed(|options| options.missing_node_resync = missing_node_resync);
    let pods = [pod("a", 1, true), pod_on("other", "b", 2, true)];
    let objects = pods.into_iter().chain([node("other", "zone-a", 4), service("web")]);
    let harness = Harness::start(&server(objects), options).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2 [zone-a]"]);
    harness.requests();
    harness
}

/// Related to kubernetes#107927: the node is known at first.
#[tokio::test(start_paused = true)]
async fn missing_node_resync_removes_pods_a_minute_after_their_node_is_deleted() {
    let harness = with_a_pod_on_another_node(true).await;
    harness.delete("nodes", "other").await;
    harness.pass(seconds(59)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2 [zone-a]"]);
    harness.pass(seconds(2)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"], "as a plan from scratch has it");
    harness.load([node("other", "zone-b", 4)]);
    harness.moment().await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2 [zone-b]"]);
    assert_eq!(harness.requests(), ["update endpointslices 200", "update endpointslices 200"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn without_missing_node_resync_pods_of_a_deleted_node_stay_until_something_else_changes() {
    let harness = with_a_pod_on_another_node(false).await;
    harness.delete("nodes", "other").await;
    harness.pass(seconds(3600)).await;
    assert_eq!(harness.requests(), [""; 0]);
    harness.load([pod("c", 3, true)]);
    harness.moment().await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.3"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_registered_again_within_a_minute_costs_no_write() {
    let harness = with_a_pod_on_another_node(true).await;
    harness.delete("nodes", "other").await;
    harness.pass(seconds(30)).await;
    harness.load([node("other", "zone-a", 4)]);
    harness.pass(seconds(3600)).await;
    assert_eq!(harness.requests(), [""; 0]);
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2 [zone-a]"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn publish_not_ready_addresses_includes_pods_with_unknown_nodes() {
    let harness = Harness::with([pod_on("late", "b", 2, false)]).await;
    let mut all = service("web");
    all["spec"]["publishNotReadyAddresses"] = true.into();
    harness.create(&all).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.2"]);
    assert_eq!(harness.events(), [""; 0]);
    harness.nothing_is_remembered().await;
}
