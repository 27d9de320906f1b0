//! Tests with Services that users delete, recreate, or change in type.

use kube_endpoint_controller_runtime::StateCounts;
use serde_json::{Value, json};

use crate::controller::harness::{Harness, changed, millis, seconds, server};
use crate::controller::objects::{name, pod, service};

const LEAVING: &str = "/api/v1/namespaces/leaving";

fn owner(slice: &Value) -> &Value {
    &slice["metadata"]["ownerReferences"][0]["uid"]
}

#[tokio::test(start_paused = true)]
async fn slices_are_deleted_with_their_service() {
    let harness = Harness::with([pod("a", 1, true)]).await;
    harness.create(&service("web")).await;
    harness.pass(seconds(1)).await;
    harness.delete("services", "web").await;
    harness.pass(seconds(60)).await;
    // The garbage collector deletes them, not the controller.
    assert_eq!(harness.requests(), ["create endpointslices 201"]);
    assert_eq!(harness.server.count("endpointslices"), 0);
    assert_eq!(harness.controller.state_counts(), StateCounts::default());
    harness.nothing_is_remembered().await;
}

/// kubernetes#141592
#[tokio::test(start_paused = true)]
async fn a_service_recreated_within_a_batch_period_gets_new_slices() {
    for batch in [0, 5] {
        let options = changed(|options| options.batch_period = seconds(batch));
        let harness = Harness::start(&server([pod("a", 1, true)]), options).await;
        for round in 0..5 {
            let made = harness.create(&service("web")).await;
            harness.pass(seconds(1) * (round % 2)).await;
            // The batch period delays a sync while a user deletes the Service; the sync then finds
            // the new Service.
            harness.load([pod("b", 2, round % 2 == 0)]);
            if round < 4 {
                harness.delete("services", "web").await;
            } else {
                harness.pass(seconds(10)).await;
                assert_eq!(owner(&harness.slice("web")), &made["metadata"]["uid"]);
                assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
            }
        }
        assert_eq!(
            harness.controller.state_counts(),
            StateCounts { trigger_times: 1, reported: 1, own: 1, ..StateCounts::default() }
        );
        assert_eq!(harness.events(), [""; 0]);
        harness.delete("services", "web").await;
        harness.pass(seconds(10)).await;
        assert_eq!(harness.controller.state_counts(), StateCounts::default());
        assert_eq!(harness.server.count("endpointslices"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn slices_of_a_former_service_are_replaced_without_the_garbage_collector() {
    let harness = Harness::with([pod("a", 1, true)]).await;
    let first = harness.create(&service("web")).await;
    harness.moment().await;
    // If the garbage collector is late, the controller sees a Service with another uid.
    let mut second = harness.get("services", "web").unwrap();
    second["metadata"]["uid"] = "another".into();
    harness.load([second]);
    harness.pass(millis(50)).await;
    assert_eq!(
        harness.requests(),
        ["create endpointslices 201", "create endpointslices 201", "delete endpointslices 200"]
    );
    assert_ne!(first["metadata"]["uid"], "another");
    assert_eq!(owner(&harness.slice("web")), "another");
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_being_deleted_gets_no_new_slices() {
    let harness = Harness::with([pod("a", 1, true)]).await;
    let mut held = service("web");
    held["metadata"]["finalizers"] = json!(["example.invalid/hold"]);
    harness.create(&held).await;
    harness.pass(seconds(1)).await;
    harness.delete("services", "web").await;
    harness.pass(seconds(1)).await;
    assert!(harness.get("services", "web").unwrap()["metadata"]["deletionTimestamp"].is_string());
    harness.requests();
    harness.delete("endpointslices", name(&harness.slice("web"))).await;
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), [""; 0]);
    assert_eq!(harness.server.count("endpointslices"), 0);
    assert_eq!(harness.events(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_or_reported_in_a_terminating_namespace() {
    let harness = Harness::with([]).await;
    let mut held = service("web");
    held["metadata"] = json!({"name": "web", "namespace": "leaving", "finalizers": ["example.invalid/hold"]});
    harness.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "leaving"}})).await;
    harness.create(&held).await;
    harness.pass(seconds(1)).await;
    assert_eq!(harness.requests(), ["create endpointslices 201"]);
    harness.send("DELETE", LEAVING, "application/json", &Value::Null).await;
    harness.pass(seconds(600)).await;
    // A user deletes the slice before the Service, which a finalizer holds; the controller creates
    // no slice.
    let refused = harness.requests();
    assert!(refused.iter().all(|request| request == "create endpointslices 403"), "{refused:?}");
    assert!(refused.len() <= 1, "{refused:?}");
    assert_eq!(harness.events(), [""; 0]);
    assert_eq!(harness.controller.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_create_refused_by_a_terminating_namespace_is_not_retried() {
    let mut held = pod("a", 1, true);
    held["metadata"]["namespace"] = "leaving".into();
    held["metadata"]["finalizers"] = json!(["example.invalid/hold"]);
    let harness = Harness::with([held]).await;
    harness.send("DELETE", LEAVING, "application/json", &Value::Null).await;
    harness.pass(seconds(1)).await;
    // A user created the pod just before the namespace began to terminate.
    let mut late = service("web");
    late["metadata"]["namespace"] = "leaving".into();
    harness.load([late]);
    harness.pass(seconds(3600)).await;
    assert_eq!(harness.requests(), ["create endpointslices 403"]);
    assert_eq!(harness.events(), [""; 0]);
    assert_eq!(harness.controller.pending(), 0);
    assert_eq!(harness.metric("workqueue_dropped_total"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn slices_of_a_service_that_becomes_external_or_loses_its_selector_are_kept() {
    let external = json!({"spec": {"type": "ExternalName", "externalName": "example.invalid", "clusterIP": null, "clusterIPs": null, "ipFamilies": null, "ipFamilyPolicy": null}});
    for change in [external, json!({"spec": {"selector": null}})] {
        let harness = Harness::with([pod("a", 1, true)]).await;
        harness.create(&service("web")).await;
        harness.pass(seconds(1)).await;
        let before = harness.slice("web");
        harness.requests();
        harness.patch("services", "web", change).await;
        harness.pass(seconds(1)).await;
        harness.load([pod("b", 2, true), pod("a", 1, false)]);
        harness.pass(seconds(60)).await;
        assert_eq!(harness.requests(), [""; 0]);
        assert_eq!(harness.slice("web"), before);
        let back = json!({"spec": {"type": "ClusterIP", "externalName": null, "selector": {"app": "web"}}});
        harness.patch("services", "web", back).await;
        harness.pass(seconds(1)).await;
        assert_eq!(harness.requests(), ["update endpointslices 200"]);
        assert_eq!(harness.endpoints("web"), ["10.1.0.1!", "10.1.0.2"]);
    }
}

#[tokio::test(start_paused = true)]
async fn services_without_a_selector_are_ignored() {
    let harness = Harness::with([pod("a", 1, true)]).await;
    let mut manual = service("web");
    manual["spec"]["selector"] = Value::Null;
    harness.create(&manual).await;
    harness
        .create(&crate::controller::objects::slice("by-hand", "web", "somebody.example", "192.0.2.1"))
        .await;
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), [""; 0]);
    assert_eq!(harness.endpoints("web"), ["192.0.2.1"]);
    harness.nothing_is_remembered().await;
}
