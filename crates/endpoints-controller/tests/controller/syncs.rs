//! What starts a sync, when, and for which Services.

use std::time::Duration;

use kube_endpoint_endpoints_controller::{ControllerOptions, PlanOptions};
use serde_json::json;

use crate::world::{World, addresses, endpoints, pod, server, service};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_service_become_its_endpoints() {
    let world =
        World::start(&server([pod("a", 1, true), pod("b", 2, false)]), ControllerOptions::default()).await;
    assert_eq!(world.writes(), [""; 0]);
    world.create(&service("web")).await;
    world.moment().await;
    let made = world.get("endpoints", "web").unwrap();
    assert_eq!(addresses(&made), ["10.1.0.1"]);
    assert_eq!(made["subsets"][0]["notReadyAddresses"][0]["ip"], "10.1.0.2");
    assert_eq!(
        made["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"],
        "2026-01-01T00:00:02Z"
    );
    world.load([pod("b", 2, true)]);
    world.moment().await;
    let changed = world.get("endpoints", "web").unwrap();
    assert_eq!(addresses(&changed), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(
        changed["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"],
        "2026-01-01T00:01:02Z"
    );
    world.pass(seconds(3600)).await;
    assert_eq!(world.writes(), ["create endpoints 201", "update endpoints 200"]);
    assert_eq!(world.controller.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_batch_period_holds_up_syncs_that_pods_cause_and_no_others() {
    let options = ControllerOptions { batch_period: seconds(5), ..ControllerOptions::default() };
    let world = World::start(&server([pod("a", 1, true)]), options).await;
    world.create(&service("web")).await;
    world.pass(seconds(1)).await;
    world.load([pod("b", 2, true)]);
    world.pass(seconds(2)).await;
    world.load([pod("c", 3, true)]);
    world.pass(seconds(10)).await;
    world.patch("services", "web", json!({"metadata": {"labels": {"a": "b"}}})).await;
    world.pass(seconds(1)).await;
    world.delete("endpoints", "web").await;
    world.pass(seconds(1)).await;
    let writes = world.timed_writes();
    let writes: Vec<(u128, &str)> = writes.iter().map(|(at, write)| (*at, write.as_str())).collect();
    assert_eq!(
        writes,
        [
            (2000, "create endpoints 201"),
            // Five seconds after the first of two pods.
            (8000, "update endpoints 200"),
            (15_000, "update endpoints 200"),
            (16_000, "create endpoints 201"),
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn services_without_selector_and_aliases_are_left_alone() {
    let world = World::start(&server([pod("a", 1, true)]), ControllerOptions::default()).await;
    world.create(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "manual"}, "spec": {"ports": [{"port": 80}]},
    })).await;
    world
        .create(&json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "alias"},
            "spec": {"type": "ExternalName", "externalName": "example.invalid", "selector": {"app": "web"}},
        }))
        .await;
    for name in ["manual", "alias", "nobody"] {
        let mut made = world.create(&endpoints(name, "192.0.2.1")).await;
        world.moment().await;
        made["subsets"][0]["addresses"][0]["ip"] = "192.0.2.2".into();
        world.send("PUT", &crate::world::path("endpoints", name), "application/json", &made).await;
        world.moment().await;
        world.delete("endpoints", name).await;
    }
    world.load([pod("b", 2, true)]);
    world.pass(seconds(60)).await;
    assert_eq!(world.writes(), [""; 0]);
    assert_eq!(world.server.count("endpoints"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_gets_a_selector_takes_over_its_endpoints() {
    let world = World::start(&server([pod("a", 1, true)]), ControllerOptions::default()).await;
    world
        .create(&json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 80, "targetPort": 8080}]},
        }))
        .await;
    world.create(&endpoints("web", "192.0.2.1")).await;
    world.moment().await;
    world.patch("services", "web", json!({"spec": {"selector": {"app": "web"}}})).await;
    world.moment().await;
    assert_eq!(addresses(&world.get("endpoints", "web").unwrap()), ["10.1.0.1"]);
    world.patch("services", "web", json!({"spec": {"selector": null}})).await;
    world.moment().await;
    world.load([pod("b", 2, true)]);
    world.pass(seconds(60)).await;
    assert_eq!(world.writes(), ["update endpoints 200"]);
}

#[tokio::test(start_paused = true)]
async fn a_sync_waits_until_the_cache_shows_our_own_last_write() {
    let world = World::start(&server([pod("a", 1, true)]), ControllerOptions::default()).await;
    world.hold_up("endpoints", seconds(4)).await;
    world.create(&service("web")).await;
    world.pass(seconds(1)).await;
    world.load([pod("b", 2, true)]);
    world.pass(seconds(2)).await;
    assert_eq!(world.writes(), ["create endpoints 201"]);
    world.pass(seconds(1)).await;
    assert_eq!(world.writes(), ["update endpoints 200"]);
    assert_eq!(addresses(&world.get("endpoints", "web").unwrap()), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(world.events(), [""; 0]);
}

/// kubernetes#127370, kubernetes#126578.
#[tokio::test(start_paused = true)]
async fn an_update_that_changed_nothing_leaves_the_service_free_for_the_next() {
    let plan = PlanOptions::upstream().with_capacity(2);
    let options = ControllerOptions { plan, repair: false, ..ControllerOptions::default() };
    let pods = [pod("a", 1, true), pod("b", 2, true), pod("c", 3, true)];
    let world = World::start(&server(pods), options).await;
    world.create(&service("web")).await;
    world.moment().await;
    // The addresses that did not fit make it write each time; the first time the trigger time goes.
    let mut versions = Vec::new();
    for value in ["1", "2", "3"] {
        world.patch("services", "web", json!({"metadata": {"annotations": {"x": value}}})).await;
        world.moment().await;
        versions.push(world.get("endpoints", "web").unwrap()["metadata"]["resourceVersion"].clone());
    }
    assert_eq!(world.writes().len(), 4);
    assert_eq!(versions[1], versions[2], "nothing changed");
    world.load([pod("a", 9, true)]);
    world.moment().await;
    assert_eq!(addresses(&world.get("endpoints", "web").unwrap()), ["10.1.0.2", "10.1.0.3"]);
    assert_eq!(world.writes(), ["update endpoints 200"]);
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_shut_down_returns_and_takes_no_more_work() {
    let world = World::start(&server([pod("a", 1, true)]), ControllerOptions::default()).await;
    world.controller.shut_down();
    world.create(&service("web")).await;
    world.pass(seconds(5)).await;
    assert_eq!(world.writes(), [""; 0]);
    assert_eq!(world.controller.pending(), 0);
}
