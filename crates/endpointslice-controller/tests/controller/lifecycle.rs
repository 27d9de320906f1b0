//! Services that go, come back, or become something else.

use kube_endpoint_controller_runtime::StateCounts;
use kube_endpoint_endpointslice_controller::ControllerOptions;
use serde_json::{Value, json};

use crate::objects::{name, pod, service};
use crate::world::{World, millis, path, seconds, server};

fn owner(slice: &Value) -> &Value {
    &slice["metadata"]["ownerReferences"][0]["uid"]
}

#[tokio::test(start_paused = true)]
async fn slices_go_with_their_service() {
    let world = World::with([pod("a", 1, true)]).await;
    world.create(&service("web")).await;
    world.pass(seconds(1)).await;
    world.delete("services", "web").await;
    world.pass(seconds(60)).await;
    // The garbage collector takes them; the controller need not.
    assert_eq!(world.requests(), ["create endpointslices 201"]);
    assert_eq!(world.server.count("endpointslices"), 0);
    assert_eq!(world.controller.state_counts(), StateCounts::default());
}

/// kubernetes#141592
#[tokio::test(start_paused = true)]
async fn a_service_made_anew_under_its_name_within_a_batch_gets_slices_of_its_own() {
    for batch in [0, 5] {
        let options = ControllerOptions { batch_period: seconds(batch), ..ControllerOptions::default() };
        let world = World::start(&server([pod("a", 1, true)]), options).await;
        for round in 0..5 {
            let made = world.create(&service("web")).await;
            world.pass(seconds(1) * (round % 2)).await;
            // A sync that waits for the end of the batch when the Service goes, and finds the next one.
            world.load([pod("b", 2, round % 2 == 0)]);
            if round < 4 {
                world.delete("services", "web").await;
            } else {
                world.pass(seconds(10)).await;
                assert_eq!(owner(&world.slice("web")), &made["metadata"]["uid"]);
                assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
            }
        }
        assert_eq!(
            world.controller.state_counts(),
            StateCounts { trigger_times: 1, reported: 1, own: 1, ..StateCounts::default() }
        );
        assert_eq!(world.events(), [""; 0]);
        world.delete("services", "web").await;
        world.pass(seconds(10)).await;
        assert_eq!(world.controller.state_counts(), StateCounts::default());
        assert_eq!(world.server.count("endpointslices"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn slices_of_a_former_service_are_replaced_though_nobody_collects_them() {
    let world = World::with([pod("a", 1, true)]).await;
    let first = world.create(&service("web")).await;
    world.moment().await;
    // What the collector is too late for looks like this to the controller: the Service has another uid.
    let mut second = world.get("services", "web").unwrap();
    second["metadata"]["uid"] = "another".into();
    world.load([second]);
    world.pass(millis(50)).await;
    assert_eq!(
        world.requests(),
        ["create endpointslices 201", "create endpointslices 201", "delete endpointslices 200"]
    );
    assert_ne!(first["metadata"]["uid"], "another");
    assert_eq!(owner(&world.slice("web")), "another");
    assert_eq!(world.endpoints("web"), ["10.1.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_being_deleted_gets_no_new_slices() {
    let world = World::with([pod("a", 1, true)]).await;
    let mut held = service("web");
    held["metadata"]["finalizers"] = json!(["example.invalid/hold"]);
    world.create(&held).await;
    world.pass(seconds(1)).await;
    world.delete("services", "web").await;
    world.pass(seconds(1)).await;
    assert!(world.get("services", "web").unwrap()["metadata"]["deletionTimestamp"].is_string());
    world.requests();
    world.delete("endpointslices", name(&world.slice("web"))).await;
    world.load([pod("b", 2, true)]);
    world.pass(seconds(60)).await;
    assert_eq!(world.requests(), [""; 0]);
    assert_eq!(world.server.count("endpointslices"), 0);
    assert_eq!(world.events(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_on_its_way_out_gets_nothing_and_nobody_is_told() {
    let world = World::with([]).await;
    let mut held = service("web");
    held["metadata"] = json!({"name": "web", "namespace": "leaving", "finalizers": ["example.invalid/hold"]});
    world.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "leaving"}})).await;
    world.create(&held).await;
    world.pass(seconds(1)).await;
    assert_eq!(world.requests(), ["create endpointslices 201"]);
    world.send("DELETE", &path("namespaces", "leaving"), "application/json", &Value::Null).await;
    world.pass(seconds(600)).await;
    // The slice went before the Service, which is held; nothing is made anew.
    let refused = world.requests();
    assert!(refused.iter().all(|request| request == "create endpointslices 403"), "{refused:?}");
    assert!(refused.len() <= 1, "{refused:?}");
    assert_eq!(world.events(), [""; 0]);
    assert_eq!(world.controller.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_create_that_a_leaving_namespace_refuses_is_not_tried_again() {
    let mut held = pod("a", 1, true);
    held["metadata"]["namespace"] = "leaving".into();
    held["metadata"]["finalizers"] = json!(["example.invalid/hold"]);
    let world = World::with([held]).await;
    world.send("DELETE", &path("namespaces", "leaving"), "application/json", &Value::Null).await;
    world.pass(seconds(1)).await;
    // It came a moment before the namespace began to go.
    let mut late = service("web");
    late["metadata"]["namespace"] = "leaving".into();
    world.load([late]);
    world.pass(seconds(3600)).await;
    assert_eq!(world.requests(), ["create endpointslices 403"]);
    assert_eq!(world.events(), [""; 0]);
    assert_eq!(world.controller.pending(), 0);
    assert_eq!(world.metric("workqueue_dropped_total"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn slices_of_a_service_that_turns_external_or_loses_its_selector_are_left_alone() {
    let external = json!({"spec": {"type": "ExternalName", "externalName": "example.invalid", "clusterIP": null, "clusterIPs": null, "ipFamilies": null, "ipFamilyPolicy": null}});
    for change in [external, json!({"spec": {"selector": null}})] {
        let world = World::with([pod("a", 1, true)]).await;
        world.create(&service("web")).await;
        world.pass(seconds(1)).await;
        let before = world.slice("web");
        world.requests();
        world.patch("services", "web", change).await;
        world.pass(seconds(1)).await;
        world.load([pod("b", 2, true), pod("a", 1, false)]);
        world.pass(seconds(60)).await;
        assert_eq!(world.requests(), [""; 0]);
        assert_eq!(world.slice("web"), before);
        let back = json!({"spec": {"type": "ClusterIP", "externalName": null, "selector": {"app": "web"}}});
        world.patch("services", "web", back).await;
        world.pass(seconds(1)).await;
        assert_eq!(world.requests(), ["update endpointslices 200"]);
        assert_eq!(world.endpoints("web"), ["10.1.0.1!", "10.1.0.2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn services_without_a_selector_are_somebody_elses() {
    let world = World::with([pod("a", 1, true)]).await;
    let mut manual = service("web");
    manual["spec"]["selector"] = Value::Null;
    world.create(&manual).await;
    world.create(&crate::objects::slice("by-hand", "web", "somebody.example", "192.0.2.1")).await;
    world.load([pod("b", 2, true)]);
    world.pass(seconds(60)).await;
    assert_eq!(world.requests(), [""; 0]);
    assert_eq!(world.endpoints("web"), ["192.0.2.1"]);
}
