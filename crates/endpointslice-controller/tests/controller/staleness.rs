//! A cache that does not show our own writes yet.

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_endpointslice_controller::{ControllerOptions, PlanOptions};
use serde_json::json;

use crate::objects::{SERVICE_NAME, name, pod, pod_of_nobody, service};
use crate::world::{World, millis, seconds, server};

#[tokio::test(start_paused = true)]
async fn nothing_is_written_on_a_cache_that_does_not_show_the_slice_just_made() {
    let world = World::with([pod("a", 1, true)]).await;
    world.hold_up("endpointslices", seconds(20)).await;
    world.create(&service("web")).await;
    for number in 2..10 {
        world.pass(seconds(1)).await;
        world.load([pod(&format!("p{number}"), number, true)]);
    }
    world.pass(seconds(10)).await;
    assert_eq!(world.requests(), ["create endpointslices 201"]);
    // The watch comes back, and what waited is published at once.
    world.pass(seconds(2) + millis(10)).await;
    assert_eq!(world.requests(), ["update endpointslices 200"]);
    assert_eq!(world.endpoints("web").len(), 9);
    world.slice("web");
    assert_eq!(world.events(), [""; 0]);
    world.pass(seconds(60)).await;
    assert_eq!(world.requests(), [""; 0]);
    assert_eq!(world.controller.state_counts().outstanding_writes, 0);
    assert_eq!(world.controller.state_counts().deferred, 0);
}

#[tokio::test(start_paused = true)]
async fn a_long_outage_of_the_watch_costs_no_more_than_itself() {
    let world = World::with([pod("a", 1, true), service("web")]).await;
    world.requests();
    world.hold_up("endpointslices", seconds(120)).await;
    world.load([pod("b", 2, true)]);
    world.pass(seconds(1)).await;
    world.load([pod("c", 3, true)]);
    world.pass(seconds(118)).await;
    assert_eq!(world.requests(), ["update endpointslices 200"]);
    world.pass(seconds(1)).await;
    assert_eq!(world.requests(), ["update endpointslices 200"], "no backoff has built up meanwhile");
    assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2", "10.1.0.3"]);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_the_cache_does_not_show_yet_is_waited_for() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(1);
    let options = ControllerOptions { plan, ..ControllerOptions::default() };
    let world = World::start(&server([pod("a", 1, true), pod("b", 2, true), service("web")]), options).await;
    world.requests();
    world.hold_up("endpointslices", millis(9500)).await;
    world.delete("pods", "b").await;
    world.pass(seconds(1)).await;
    world.load([pod("c", 3, true)]);
    world.pass(seconds(8)).await;
    assert_eq!(world.requests(), ["delete endpointslices 200"]);
    // Half a second later the watch comes back.
    world.pass(millis(470)).await;
    assert_eq!(world.requests(), ["create endpointslices 201"]);
    assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.3"]);
}

#[tokio::test(start_paused = true)]
async fn other_services_are_not_held_up_by_a_write_that_the_cache_does_not_show() {
    let world = World::with([pod("a", 1, true)]).await;
    world.hold_up("endpointslices", seconds(10)).await;
    world.create(&service("web")).await;
    world.create(&service("two")).await;
    world.moment().await;
    assert_eq!(world.requests(), ["create endpointslices 201", "create endpointslices 201"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_cache_missed_is_not_waited_for() {
    let world = World::with([pod("a", 1, true)]).await;
    world.hold_up("endpointslices", seconds(5)).await;
    world.create(&service("web")).await;
    world.moment().await;
    let made = world.slice("web");
    world.load([pod("b", 2, true)]);
    world.moment().await;
    world.delete("endpointslices", name(&made)).await;
    // The next list shows neither the slice nor its deletion.
    world.server.compact();
    world.server.add_fault(FaultRule::on(Fault::ExpireWatch, "watch", "endpointslices").times(1));
    world.server.close_watches();
    world.pass(seconds(2)).await;
    assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    world.pass(seconds(10)).await;
    let counts = world.controller.state_counts();
    assert_eq!((counts.outstanding_writes, counts.deferred), (0, 0));
    let page = world.metrics();
    let syncs: Vec<&str> = page.lines().filter(|line| line.contains("syncs{result=\"success\"}")).collect();
    assert_eq!(syncs, ["endpoint_slice_controller_syncs{result=\"success\"} 2"], "and no more");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_breaks_after_every_event_changes_nothing() {
    let world = World::with([service("web")]).await;
    world.requests();
    let breaks = FaultRule::on(Fault::BreakWatch { after: 1 }, "watch", "endpointslices");
    world.server.add_fault(breaks);
    world.server.close_watches();
    for number in 1..20 {
        world.load([pod(&format!("p{number}"), number, true)]);
        world.pass(millis(300)).await;
    }
    world.pass(seconds(60)).await;
    assert_eq!(world.endpoints("web").len(), 19);
    world.slice("web");
    assert!(world.requests().iter().all(|request| request == "update endpointslices 200"));
}

#[tokio::test(start_paused = true)]
async fn an_echo_that_comes_before_the_answer_starts_no_sync() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(1);
    let options = ControllerOptions { plan, ..ControllerOptions::default() };
    let world = World::start(&server([pod("a", 1, true), service("web")]), options).await;
    world.requests();
    world.answer_late(millis(500));
    for (change, request) in [
        (pod("a", 1, false), "update endpointslices 200"),
        (pod("b", 2, true), "create endpointslices 201"),
        (pod_of_nobody("b", 2), "delete endpointslices 200"),
    ] {
        let before = world.syncs();
        world.load([change]);
        world.pass(seconds(60)).await;
        assert_eq!(world.requests(), [request]);
        assert_eq!(world.syncs() - before, 1.0, "{request}");
        assert_eq!(world.controller.state_counts().outstanding_writes, 0, "{request}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slice_edited_or_deleted_before_its_write_is_answered_is_repaired() {
    for edit in [true, false] {
        let world = World::with([pod("a", 1, true), service("web")]).await;
        world.requests();
        let made = world.slice("web");
        world.answer_late(millis(500));
        world.load([pod("b", 2, true)]);
        world.pass(millis(100)).await;
        if edit {
            world.patch("endpointslices", name(&made), json!({"endpoints": []})).await;
        } else {
            world.delete("endpointslices", name(&made)).await;
        }
        world.pass(seconds(60)).await;
        let repair = if edit { "update endpointslices 200" } else { "create endpointslices 201" };
        assert_eq!(world.requests(), ["update endpointslices 200", repair]);
        assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
        assert_eq!(world.controller.state_counts().outstanding_writes, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slice_handed_to_another_service_while_it_is_written_makes_both_be_put_in_order() {
    let mut other = service("other");
    other["spec"]["selector"] = json!({"app": "other"});
    let world = World::with([pod("a", 1, true), service("web"), other]).await;
    world.requests();
    let moved = world.slice("web");
    world.fault(Fault::Delay(millis(500)), "update", 1);
    world.load([pod("b", 2, true)]);
    world.pass(millis(100)).await;
    let label = json!({"metadata": {"labels": {SERVICE_NAME: "other"}}});
    world.patch("endpointslices", name(&moved), label).await;
    world.pass(seconds(60)).await;
    assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(world.endpoints("other"), [""; 0]);
    assert_eq!(world.controller.state_counts().outstanding_writes, 0);
}

#[tokio::test(start_paused = true)]
async fn an_edit_while_a_write_is_on_its_way_is_repaired() {
    let world = World::with([pod("a", 1, true), service("web")]).await;
    world.requests();
    let made = world.slice("web");
    world.fault(Fault::Delay(millis(500)), "update", 1);
    world.load([pod("b", 2, true)]);
    world.pass(millis(100)).await;
    world.patch("endpointslices", name(&made), json!({"endpoints": []})).await;
    world.pass(seconds(10)).await;
    assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(world.requests(), ["update endpointslices 409", "update endpointslices 200"]);
}
