//! What starts a sync, when, and what it publishes.

use kube_endpoint_endpointslice_controller::{ControllerOptions, PlanOptions};
use serde_json::json;

use crate::objects::{MANAGED_BY, MANAGER, SERVICE_NAME, node, pod, service, trigger_time};
use crate::world::{World, millis, seconds, server};

fn batched(period: u64) -> ControllerOptions {
    ControllerOptions { batch_period: seconds(period), ..ControllerOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_service_become_a_slice() {
    let world = World::with([pod("a", 1, true), pod("b", 2, false)]).await;
    assert_eq!(world.requests(), [""; 0]);
    world.create(&service("web")).await;
    world.moment().await;
    let made = world.slice("web");
    assert_eq!(made["metadata"]["labels"], json!({SERVICE_NAME: "web", MANAGED_BY: MANAGER}));
    assert_eq!(trigger_time(&made), "2026-01-01T00:00:02Z");
    assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2!"]);
    world.pass(seconds(3600)).await;
    assert_eq!(world.requests(), ["create endpointslices 201"]);
    assert_eq!(world.controller.pending(), 0);
    assert_eq!(world.events(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn one_pod_that_turns_ready_is_one_write_and_one_sync() {
    let world = World::with([pod("a", 1, true), pod("b", 2, false), service("web")]).await;
    world.requests();
    let before = world.syncs();
    world.load([pod("b", 2, true)]);
    world.pass(seconds(3600)).await;
    assert_eq!(world.requests(), ["update endpointslices 200"], "and our own echo starts nothing");
    assert_eq!(world.syncs() - before, 1.0);
    assert_eq!(trigger_time(&world.slice("web")), "2026-01-01T00:01:02Z");
}

#[tokio::test(start_paused = true)]
async fn a_new_service_is_one_write_and_one_sync() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(1);
    let options = ControllerOptions { plan, ..ControllerOptions::default() };
    let world = World::start(&server([pod("a", 1, true), pod("b", 2, true)]), options).await;
    world.create(&service("web")).await;
    world.pass(seconds(60)).await;
    assert_eq!(world.requests(), ["create endpointslices 201", "create endpointslices 201"]);
    assert_eq!(world.syncs(), 1.0);
    let before = world.syncs();
    world.delete("pods", "a").await;
    world.pass(seconds(60)).await;
    assert_eq!(world.requests(), ["delete endpointslices 200"]);
    assert_eq!(world.syncs() - before, 1.0, "nor does the echo of a deletion start anything");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_touch_endpoints_starts_no_sync() {
    let world = World::with([pod("a", 1, true), service("web")]).await;
    world.requests();
    let before = world.syncs();
    let mut annotated = pod("a", 1, true);
    annotated["metadata"]["annotations"] = json!({"x": "y"});
    world.load([annotated]);
    let mut other = pod("other", 9, true);
    other["metadata"]["labels"] = json!({"app": "other"});
    world.load([other, node("third", "zone-c", 4)]);
    world.pass(seconds(60)).await;
    assert_eq!(world.syncs(), before);
    // A Service starts one whatever changes about it, and then nothing is found to do.
    world.patch("services", "web", json!({"metadata": {"annotations": {"x": "y"}}})).await;
    world.pass(seconds(60)).await;
    assert_eq!(world.syncs() - before, 1.0);
    assert_eq!(world.requests(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing() {
    let world = World::with([pod("a", 1, true), pod("b", 2, false), service("web")]).await;
    let server = world.crash().await;
    server.clear_request_log();
    let world = World::start(&server, ControllerOptions::default()).await;
    world.pass(seconds(60)).await;
    assert_eq!(world.requests(), [""; 0]);
    assert_eq!(world.syncs(), 1.0);
}

#[tokio::test(start_paused = true)]
async fn the_batch_period_holds_up_syncs_that_pods_cause_and_no_others() {
    let world = World::start(&server([pod("a", 1, true)]), batched(5)).await;
    world.create(&service("web")).await;
    world.pass(seconds(1)).await;
    world.load([pod("b", 2, true)]);
    world.pass(seconds(2)).await;
    world.load([pod("c", 3, true)]);
    world.pass(seconds(10)).await;
    world.patch("services", "web", json!({"spec": {"ports": [{"port": 80, "targetPort": 9090}]}})).await;
    world.pass(seconds(1)).await;
    let writes = world.timed_requests();
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
    assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2", "10.1.0.3"]);
}

#[tokio::test(start_paused = true)]
async fn many_changes_of_pods_within_the_batch_period_are_one_write() {
    let world = World::start(&server([service("web")]), batched(2)).await;
    world.requests();
    let before = world.syncs();
    for round in 0..10 {
        world.load((1..50).map(|number| pod(&format!("p{number}"), number, (number + round) % 2 == 0)));
        world.pass(millis(100)).await;
    }
    world.pass(seconds(60)).await;
    assert_eq!(world.requests(), ["update endpointslices 200"]);
    assert_eq!(world.syncs() - before, 1.0);
    assert_eq!(world.endpoints("web").len(), 49);
}

#[tokio::test(start_paused = true)]
async fn a_service_change_within_the_batch_period_publishes_the_pods_too() {
    let world = World::start(&server([service("web")]), batched(30)).await;
    world.requests();
    world.load([pod("a", 1, true)]);
    world.pass(seconds(1)).await;
    world.patch("services", "web", json!({"metadata": {"annotations": {"x": "y"}}})).await;
    world.moment().await;
    assert_eq!(world.endpoints("web"), ["10.1.0.1"]);
    world.pass(seconds(60)).await;
    assert_eq!(world.requests(), ["update endpointslices 200"]);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_its_labels_leaves_one_service_and_joins_another() {
    let mut other = service("other");
    other["spec"]["selector"] = json!({"app": "other"});
    let world = World::with([pod("a", 1, true), service("web"), other]).await;
    world.requests();
    let mut moved = pod("a", 1, true);
    moved["metadata"]["labels"] = json!({"app": "other"});
    world.load([moved]);
    world.moment().await;
    assert_eq!(world.endpoints("web"), [""; 0]);
    assert_eq!(world.endpoints("other"), ["10.1.0.1"]);
    assert_eq!(world.requests(), ["update endpointslices 200", "update endpointslices 200"]);
}
