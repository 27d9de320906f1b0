//! What becomes of Endpoints that somebody else changes.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_endpoints_controller::ControllerOptions;
use serde_json::json;

use crate::world::{World, addresses, pod, server, service};

async fn started(repair: bool) -> World {
    let options = ControllerOptions { repair, ..ControllerOptions::default() };
    let world = World::start(&server([pod("a", 1, true)]), options).await;
    world.create(&service("web")).await;
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.writes(), ["create endpoints 201"]);
    world
}

fn ours(world: &World) -> Vec<String> {
    addresses(&world.get("endpoints", "web").unwrap())
}

#[tokio::test(start_paused = true)]
async fn edits_are_repaired_at_once() {
    let world = started(true).await;
    world.patch("endpoints", "web", json!({"subsets": null})).await;
    world.moment().await;
    assert_eq!(ours(&world), ["10.1.0.1"]);
    world.patch("endpoints", "web", json!({"metadata": {"labels": {"x": "y"}}})).await;
    world.moment().await;
    assert_eq!(world.get("endpoints", "web").unwrap()["metadata"]["labels"].get("x"), None);
    // An annotation is nobody's business, and our own echo starts nothing.
    world.patch("endpoints", "web", json!({"metadata": {"annotations": {"x": "y"}}})).await;
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(world.writes(), ["update endpoints 200", "update endpoints 200"]);
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_edits_stay_until_something_else_changes() {
    let world = started(false).await;
    world.patch("endpoints", "web", json!({"subsets": null})).await;
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.writes(), [""; 0]);
    world.load([pod("b", 2, true)]);
    world.moment().await;
    assert_eq!(ours(&world), ["10.1.0.1", "10.1.0.2"]);
}

#[tokio::test(start_paused = true)]
async fn deleted_endpoints_are_made_anew_at_once_with_the_gate_and_without() {
    for repair in [true, false] {
        let world = started(repair).await;
        world.delete("endpoints", "web").await;
        world.moment().await;
        assert_eq!(ours(&world), ["10.1.0.1"]);
        world.pass(Duration::from_secs(60)).await;
        assert_eq!(world.writes(), ["create endpoints 201"], "{repair}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_while_a_write_is_on_its_way_is_repaired() {
    let world = started(true).await;
    world.fault(Fault::Delay(Duration::from_millis(500)), "update", 1);
    world.load([pod("b", 2, true)]);
    world.pass(Duration::from_millis(100)).await;
    world.patch("endpoints", "web", json!({"subsets": null})).await;
    world.pass(Duration::from_secs(5)).await;
    assert_eq!(ours(&world), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(world.writes(), ["update endpoints 409", "update endpoints 200"]);
}

#[tokio::test(start_paused = true)]
async fn edits_made_while_nobody_watched_are_repaired_at_the_start() {
    for repair in [true, false] {
        let world = started(repair).await;
        let server = world.crash().await;
        let mut edited = server.get("endpoints", "default", "web").unwrap();
        edited["subsets"] = json!([]);
        server.load([edited]).unwrap();
        let world = World::start(&server, ControllerOptions { repair, ..ControllerOptions::default() }).await;
        assert_eq!(ours(&world), ["10.1.0.1"], "{repair}");
    }
}

/// No event tells of Endpoints that went before the cache had seen them and was then filled anew.
#[tokio::test(start_paused = true)]
async fn endpoints_that_were_made_and_deleted_between_two_lists_are_made_anew() {
    for answer_comes_after in [false, true] {
        let world = World::start(&server([pod("a", 1, true)]), ControllerOptions::default()).await;
        world.hold_up("endpoints", Duration::from_secs(5)).await;
        if answer_comes_after {
            world.fault(Fault::DelayAnswer(Duration::from_secs(10)), "create", 1);
        }
        world.create(&service("web")).await;
        world.pass(Duration::from_secs(1)).await;
        world.delete("endpoints", "web").await;
        world.server.compact();
        world.pass(Duration::from_secs(60)).await;
        assert_eq!(ours(&world), ["10.1.0.1"], "{answer_comes_after}");
        assert_eq!(world.controller.pending(), 0);
    }
}
