//! Tests with a cache that does not show the controller's own writes yet.

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_endpointslice_controller::PlanOptions;
use serde_json::{Value, json};

use crate::controller::harness::{Harness, changed, millis, seconds, server};
use crate::controller::objects::{SERVICE_NAME, name, pod, pod_of_nobody, service};

#[tokio::test(start_paused = true)]
async fn nothing_is_written_until_the_cache_shows_a_new_slice() {
    let harness = Harness::with([pod("a", 1, true)]).await;
    harness.stall_watch("endpointslices", seconds(20)).await;
    harness.create(&service("web")).await;
    for number in 2..10 {
        harness.pass(seconds(1)).await;
        harness.load([pod(&format!("p{number}"), number, true)]);
    }
    harness.pass(seconds(10)).await;
    assert_eq!(harness.requests(), ["create endpointslices 201"]);
    // Once the watch is back, the controller publishes the delayed change at once.
    harness.pass(seconds(2) + millis(10)).await;
    assert_eq!(harness.requests(), ["update endpointslices 200"]);
    assert_eq!(harness.endpoints("web").len(), 9);
    harness.slice("web");
    assert_eq!(harness.events(), [""; 0]);
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), [""; 0]);
    assert_eq!(harness.controller.state_counts().outstanding_writes, 0);
    assert_eq!(harness.controller.state_counts().deferred, 0);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_long_watch_outage_builds_up_no_backoff() {
    let harness = Harness::with([pod("a", 1, true), service("web")]).await;
    harness.requests();
    harness.stall_watch("endpointslices", seconds(120)).await;
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(1)).await;
    harness.load([pod("c", 3, true)]);
    harness.pass(seconds(118)).await;
    assert_eq!(harness.requests(), ["update endpointslices 200"]);
    harness.pass(seconds(1)).await;
    assert_eq!(harness.requests(), ["update endpointslices 200"], "no backoff has built up");
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2", "10.1.0.3"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_sync_waits_until_the_cache_shows_our_deletion() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(1);
    let options = changed(|options| options.plan = plan);
    let harness =
        Harness::start(&server([pod("a", 1, true), pod("b", 2, true), service("web")]), options).await;
    harness.requests();
    harness.stall_watch("endpointslices", millis(9500)).await;
    harness.delete("pods", "b").await;
    harness.pass(seconds(1)).await;
    harness.load([pod("c", 3, true)]);
    harness.pass(seconds(8)).await;
    assert_eq!(harness.requests(), ["delete endpointslices 200"]);
    // Half a second later the watch comes back.
    harness.pass(millis(470)).await;
    assert_eq!(harness.requests(), ["create endpointslices 201"]);
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.3"]);
}

/// The event of the other slice comes while the delete has no answer.
#[tokio::test(start_paused = true)]
async fn a_slice_that_is_made_anew_before_the_answer_to_its_delete_is_deleted_too() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(1);
    let options = changed(|options| options.plan = plan);
    let harness =
        Harness::start(&server([pod("a", 1, true), pod("b", 2, true), service("web")]), options).await;
    let of_b = |slice: &Value| slice["endpoints"][0]["addresses"] == json!(["10.1.0.2"]);
    let mut again = harness.slices("web").into_iter().find(of_b).unwrap();
    let metadata = &again["metadata"];
    again["metadata"] = json!({"name": metadata["name"], "labels": metadata["labels"],
        "ownerReferences": metadata["ownerReferences"]});
    harness.requests();
    harness.fault(Fault::DelayAnswer(seconds(3)), "delete", 1);
    harness.delete("pods", "b").await;
    harness.pass(seconds(1)).await;
    harness.slice("web");
    harness.create(&again).await;
    harness.pass(seconds(1)).await;
    assert_eq!(harness.slices("web").len(), 2, "the delete has no answer yet");
    harness.pass(seconds(5)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    assert_eq!(harness.requests(), ["delete endpointslices 200"; 2]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_loses_its_selector_does_not_stay_deferred() {
    let harness = Harness::with([pod("a", 1, true), service("web")]).await;
    harness.requests();
    harness.stall_watch("endpointslices", seconds(10)).await;
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(1)).await;
    harness.load([pod("c", 3, true)]);
    harness.pass(seconds(1)).await;
    assert_eq!(harness.controller.state_counts().deferred, 1);
    harness.patch("services", "web", json!({"spec": {"selector": null}})).await;
    harness.pass(seconds(30)).await;
    let counts = harness.controller.state_counts();
    assert_eq!((counts.outstanding_writes, counts.deferred), (0, 0));
    assert_eq!(harness.requests(), ["update endpointslices 200"], "that of the time with a selector");
    let syncs = harness.syncs();
    harness.pass(seconds(600)).await;
    assert_eq!(harness.syncs(), syncs);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_stale_service_delays_no_other() {
    let harness = Harness::with([pod("a", 1, true)]).await;
    harness.stall_watch("endpointslices", seconds(10)).await;
    harness.create(&service("web")).await;
    harness.create(&service("two")).await;
    harness.moment().await;
    assert_eq!(harness.requests(), ["create endpointslices 201", "create endpointslices 201"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn writes_that_a_relist_skipped_are_not_waited_for() {
    let harness = Harness::with([pod("a", 1, true)]).await;
    harness.stall_watch("endpointslices", seconds(5)).await;
    harness.create(&service("web")).await;
    harness.moment().await;
    let made = harness.slice("web");
    harness.load([pod("b", 2, true)]);
    harness.moment().await;
    harness.delete("endpointslices", name(&made)).await;
    // The next list shows neither the slice nor its deletion.
    harness.server.compact();
    harness.server.add_fault(FaultRule::on(Fault::ExpireWatch, "watch", "endpointslices").times(1));
    harness.server.close_watches();
    harness.pass(seconds(2)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    // After a minute the controller asks the server about the slice that the list did not show.
    harness.pass(seconds(60)).await;
    let counts = harness.controller.state_counts();
    assert_eq!((counts.outstanding_writes, counts.deferred), (0, 0));
    let syncs = harness.metrics().value("endpoint_slice_controller_syncs", &[("result", "success")]);
    assert_eq!(syncs, Some(2.0), "and no more");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_after_every_event_causes_no_extra_writes() {
    let harness = Harness::with([service("web")]).await;
    harness.requests();
    let breaks = FaultRule::on(Fault::BreakWatch { after: 1 }, "watch", "endpointslices");
    harness.server.add_fault(breaks);
    harness.server.close_watches();
    for number in 1..20 {
        harness.load([pod(&format!("p{number}"), number, true)]);
        harness.pass(millis(300)).await;
    }
    harness.pass(seconds(60)).await;
    assert_eq!(harness.endpoints("web").len(), 19);
    harness.slice("web");
    assert!(harness.requests().iter().all(|request| request == "update endpointslices 200"));
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn an_echo_before_the_response_starts_no_sync() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(1);
    let options = changed(|options| options.plan = plan);
    let harness = Harness::start(&server([pod("a", 1, true), service("web")]), options).await;
    harness.requests();
    harness.answer_late(millis(500));
    for (change, request) in [
        (pod("a", 1, false), "update endpointslices 200"),
        (pod("b", 2, true), "create endpointslices 201"),
        (pod_of_nobody("b", 2), "delete endpointslices 200"),
    ] {
        let before = harness.syncs();
        harness.load([change]);
        harness.pass(seconds(60)).await;
        assert_eq!(harness.requests(), [request]);
        assert_eq!(harness.syncs() - before, 1.0, "{request}");
        assert_eq!(harness.controller.state_counts().outstanding_writes, 0, "{request}");
    }
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_edited_or_deleted_before_the_response_is_repaired() {
    for edit in [true, false] {
        let harness = Harness::with([pod("a", 1, true), service("web")]).await;
        harness.requests();
        let made = harness.slice("web");
        harness.answer_late(millis(500));
        harness.load([pod("b", 2, true)]);
        harness.pass(millis(100)).await;
        if edit {
            harness.patch("endpointslices", name(&made), json!({"endpoints": []})).await;
        } else {
            harness.delete("endpointslices", name(&made)).await;
        }
        harness.pass(seconds(60)).await;
        let repair = if edit { "update endpointslices 200" } else { "create endpointslices 201" };
        assert_eq!(harness.requests(), ["update endpointslices 200", repair]);
        assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
        assert_eq!(harness.controller.state_counts().outstanding_writes, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn moving_a_slice_to_another_service_during_a_write_syncs_both_services() {
    let mut other = service("other");
    other["spec"]["selector"] = json!({"app": "other"});
    let harness = Harness::with([pod("a", 1, true), service("web"), other]).await;
    harness.requests();
    let moved = harness.slice("web");
    harness.fault(Fault::Delay(millis(500)), "update", 1);
    harness.load([pod("b", 2, true)]);
    harness.pass(millis(100)).await;
    let label = json!({"metadata": {"labels": {SERVICE_NAME: "other"}}});
    harness.patch("endpointslices", name(&moved), label).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(harness.endpoints("other"), [""; 0]);
    assert_eq!(harness.controller.state_counts().outstanding_writes, 0);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn an_edit_during_a_write_is_repaired() {
    let harness = Harness::with([pod("a", 1, true), service("web")]).await;
    harness.requests();
    let made = harness.slice("web");
    harness.fault(Fault::Delay(millis(500)), "update", 1);
    harness.load([pod("b", 2, true)]);
    harness.pass(millis(100)).await;
    harness.patch("endpointslices", name(&made), json!({"endpoints": []})).await;
    harness.pass(seconds(10)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(harness.requests(), ["update endpointslices 409", "update endpointslices 200"]);
    harness.nothing_is_remembered().await;
}
