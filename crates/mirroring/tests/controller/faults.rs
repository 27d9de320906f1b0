//! Writes that fail, are refused, or of which nobody knows what became; and caches that lag behind.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_mirroring::ControllerOptions;
use serde_json::{Value, json};

use crate::world::{World, endpoints, server, service};

async fn started() -> World {
    World::start(&server([service("web")]), ControllerOptions::default()).await
}

fn refuse(status: u16) -> Fault {
    Fault::Refuse { status, retry_after: None }
}

#[tokio::test(start_paused = true)]
async fn after_fifteen_retries_endpoints_are_dropped_until_something_changes() {
    let world = started().await;
    world.fault(refuse(500), "create", usize::MAX);
    world.create(&endpoints("web", &["192.0.2.1"])).await;
    world.pass(Duration::from_secs(3600)).await;
    let attempts = world.timed_writes();
    let waits: Vec<u128> = attempts.windows(2).map(|pair| (pair[1].0 - pair[0].0) / 1000).collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 100, 100, 100, 100, 100, 100, 100, 100]);
    assert_eq!(world.events(), [""; 0], "as upstream");
    world.server.clear_faults();
    world.patch("endpoints", "web", json!({"metadata": {"labels": {"a": "b"}}})).await;
    world.moment().await;
    assert_eq!(world.writes(), ["create endpointslices 201"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_makes_no_slice_twice() {
    for fault in [Fault::ApplyAndLoseAnswer, Fault::LoseRequest] {
        // With the watch running, and with one that shows nothing of it for a while.
        for held_up in [false, true] {
            let world = started().await;
            if held_up {
                world.hold_up("endpointslices", Duration::from_secs(20)).await;
            }
            for (verb, addresses) in
                [("create", ["192.0.2.1"]), ("update", ["192.0.2.2"]), ("delete", ["192.0.2.2"])]
            {
                world.fault(fault.clone(), verb, 1);
                match verb {
                    "create" => world.create(&endpoints("web", &addresses)).await,
                    "update" => world.put("endpoints", &endpoints("web", &addresses)).await,
                    _ => world.put("endpoints", &endpoints("web", &[])).await,
                };
                for _ in 0..60 {
                    world.pass(Duration::from_secs(1)).await;
                    assert!(world.server.count("endpointslices") <= 1, "{fault:?} {verb}");
                }
                let expected = format!("endpointslicemirroring [{}]", addresses[0]);
                let expected = if verb == "delete" { vec![] } else { vec![expected] };
                assert_eq!(world.slices(), expected, "{fault:?} {verb}");
            }
            assert_eq!(world.controller.pending(), 0);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_sync_waits_until_the_cache_shows_our_own_last_write() {
    let world = started().await;
    world.hold_up("endpointslices", Duration::from_secs(5)).await;
    world.create(&endpoints("web", &["192.0.2.1"])).await;
    world.pass(Duration::from_secs(1)).await;
    world.put("endpoints", &endpoints("web", &["192.0.2.1", "2001:db8::1"])).await;
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(world.writes(), ["create endpointslices 201"]);
    world.pass(Duration::from_secs(8)).await;
    assert_eq!(world.writes(), ["create endpointslices 201"]);
    assert_eq!(
        world.slices(),
        ["endpointslicemirroring [192.0.2.1]", "endpointslicemirroring [2001:db8::1]"]
    );
}

#[tokio::test(start_paused = true)]
async fn what_was_created_a_moment_ago_is_found_when_it_has_to_go() {
    let world = started().await;
    world.hold_up("endpointslices", Duration::from_secs(5)).await;
    world.create(&endpoints("web", &["192.0.2.1"])).await;
    world.pass(Duration::from_secs(1)).await;
    world.patch("services", "web", json!({"spec": {"selector": {"app": "web"}}})).await;
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(world.slices(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_settled_when_the_cache_has_caught_up() {
    let world = started().await;
    world.create(&endpoints("web", &["192.0.2.1"])).await;
    world.pass(Duration::from_secs(1)).await;
    world.hold_up("endpointslices", Duration::from_secs(5)).await;
    world.patch("endpointslices", &world.slice(), json!({"metadata": {"labels": {"x": "y"}}})).await;
    world.put("endpoints", &endpoints("web", &["192.0.2.2"])).await;
    world.pass(Duration::from_secs(20)).await;
    assert_eq!(world.slices(), ["endpointslicemirroring [192.0.2.2]"]);
    assert_eq!(world.get("endpointslices", &world.slice()).unwrap()["metadata"]["labels"].get("x"), None);
    let writes = world.writes();
    assert!(writes.iter().any(|write| write == "update endpointslices 409"), "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_on_its_way_out_gets_nothing() {
    let world = started().await;
    world.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "leaving"}})).await;
    for mut held in [service("web"), endpoints("web", &["192.0.2.1"])] {
        held["metadata"] =
            json!({"name": "web", "namespace": "leaving", "finalizers": ["example.invalid/hold"]});
        world.create(&held).await;
    }
    world.pass(Duration::from_secs(1)).await;
    // The namespace goes between the moment at which a slice is found to be missing and the create.
    world.fault(Fault::Delay(Duration::from_millis(50)), "create", 1);
    let slice = world.server.list("endpointslices")[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let path = format!("/apis/discovery.k8s.io/v1/namespaces/leaving/endpointslices/{slice}");
    world.send("DELETE", &path, "application/json", &Value::Null).await;
    world.send("DELETE", "/api/v1/namespaces/leaving", "application/json", &Value::Null).await;
    world.pass(Duration::from_secs(600)).await;
    assert_eq!(world.writes(), ["create endpointslices 201", "create endpointslices 403"]);
    assert_eq!(world.events(), [""; 0]);
    assert_eq!(world.controller.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_shut_down_takes_no_more_work() {
    let world = started().await;
    world.controller.shut_down();
    world.create(&endpoints("web", &["192.0.2.1"])).await;
    world.pass(Duration::from_secs(5)).await;
    assert_eq!(world.writes(), [""; 0]);
    assert_eq!(world.controller.pending(), 0);
}
