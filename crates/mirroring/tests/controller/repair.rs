//! Mirrored slices that somebody else changes or deletes.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_mirroring::ControllerOptions;
use serde_json::json;

use crate::world::{World, endpoints, server, service};

async fn started(batch_period: u64) -> World {
    let options =
        ControllerOptions { batch_period: Duration::from_secs(batch_period), ..ControllerOptions::default() };
    let world = World::start(&server([service("web"), endpoints("web", &["192.0.2.1"])]), options).await;
    assert_eq!(world.writes(), ["create endpointslices 201"]);
    world
}

fn is_mirrored(world: &World) -> bool {
    world.slices() == ["endpointslicemirroring [192.0.2.1]"]
}

#[tokio::test(start_paused = true)]
async fn edits_and_deletions_are_repaired_at_once_where_no_batch_period_is_set() {
    let world = started(0).await;
    let name = world.slice();
    world.patch("endpointslices", &name, json!({"endpoints": []})).await;
    world.moment().await;
    assert!(is_mirrored(&world));
    world.patch("endpointslices", &name, json!({"metadata": {"labels": {"x": "y"}}})).await;
    world.moment().await;
    assert_eq!(world.get("endpointslices", &name).unwrap()["metadata"]["labels"].get("x"), None);
    world.delete("endpointslices", &name).await;
    world.moment().await;
    assert!(is_mirrored(&world));
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(
        world.writes(),
        ["update endpointslices 200", "update endpointslices 200", "create endpointslices 201"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_batch_period_holds_up_syncs_that_slices_cause() {
    let world = started(5).await;
    world.patch("endpointslices", &world.slice(), json!({"endpoints": []})).await;
    world.pass(Duration::from_secs(3)).await;
    world.delete("endpointslices", &world.slice()).await;
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(world.timed_writes(), [(7000, "create endpointslices 201".to_owned())]);
    assert!(is_mirrored(&world));
}

/// kubernetes#112143, kubernetes#125354.
#[tokio::test(start_paused = true)]
async fn a_slice_deleted_or_edited_after_a_restart_is_repaired_though_it_was_never_written_since() {
    for delete in [true, false] {
        let server = started(0).await.crash().await;
        let world = World::start(&server, ControllerOptions::default()).await;
        assert!(world.writes().is_empty());
        if delete {
            world.delete("endpointslices", &world.slice()).await;
        } else {
            world.patch("endpointslices", &world.slice(), json!({"endpoints": []})).await;
        }
        world.moment().await;
        assert!(is_mirrored(&world));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slice_deleted_while_nobody_watched_is_made_anew_at_the_start() {
    let world = started(0).await;
    world.controller.shut_down();
    world.delete("endpointslices", &world.slice()).await;
    let world = World::start(&world.crash().await, ControllerOptions::default()).await;
    assert!(is_mirrored(&world));
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_is_handed_to_or_taken_from_the_controller_starts_a_sync() {
    let manager = "endpointslice.kubernetes.io/managed-by";
    let world = started(0).await;
    let taken = world.slice();
    world.patch("endpointslices", &taken, json!({"metadata": {"labels": {manager: "somebody"}}})).await;
    world.moment().await;
    assert_eq!(world.slices(), ["endpointslicemirroring [192.0.2.1]", "somebody [192.0.2.1]"]);
    let ours = "endpointslicemirroring-controller.k8s.io";
    world.patch("endpointslices", &taken, json!({"metadata": {"labels": {manager: ours}}})).await;
    world.moment().await;
    assert!(is_mirrored(&world), "one of the two goes");
    let other = json!({"metadata": {"labels": {"kubernetes.io/service-name": "other"}}});
    world.patch("endpointslices", &world.slice(), other).await;
    world.moment().await;
    assert!(is_mirrored(&world), "what carries another's name goes, and a new one is made");
}

/// No event tells of a slice that went before the cache had seen it and was then filled anew.
#[tokio::test(start_paused = true)]
async fn a_slice_that_was_made_and_deleted_between_two_lists_is_made_anew() {
    for answer_comes_after in [false, true] {
        let world = started(0).await;
        world.hold_up("endpointslices", Duration::from_secs(5)).await;
        if answer_comes_after {
            world.fault(Fault::DelayAnswer(Duration::from_secs(10)), "create", 1);
        }
        world.create(&service("late")).await;
        world.create(&endpoints("late", &["192.0.2.7"])).await;
        world.pass(Duration::from_secs(1)).await;
        for slice in world.server.list("endpointslices") {
            if slice["metadata"]["labels"]["kubernetes.io/service-name"] == "late" {
                world.delete("endpointslices", slice["metadata"]["name"].as_str().unwrap()).await;
            }
        }
        world.server.compact();
        world.pass(Duration::from_secs(60)).await;
        let late = "endpointslicemirroring [192.0.2.7]".to_owned();
        assert!(world.slices().contains(&late), "{answer_comes_after}");
        assert_eq!(world.controller.pending(), 0);
    }
}
