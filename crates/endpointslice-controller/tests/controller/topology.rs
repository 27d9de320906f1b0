//! Tests how changes of nodes affect Services with topology hints.

use kube_endpoint_endpointslice_controller::ControllerOptions;
use serde_json::{Value, json};

use crate::controller::harness::{Harness, changed, millis, seconds, server};
use crate::controller::objects::{node, pod_on, service};

/// Returns a Service with hints: four pods in two zones with equally many CPUs.
async fn hinted() -> Harness {
    let mut hinted = service("web");
    hinted["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    let mut objects = vec![hinted, node("a", "zone-a", 4), node("b", "zone-b", 4)];
    let pods = (1..=4)
        .map(|number: u8| pod_on(if number <= 2 { "a" } else { "b" }, &format!("p{number}"), number, true));
    objects.extend(pods);
    let server = server(objects);
    // The node of other tests has no zone, which would prevent all hints.
    let mut ordinary = node("node", "zone-a", 1);
    ordinary["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "".into();
    server.load([ordinary]).unwrap();
    let harness = Harness::start(&server, ControllerOptions::default()).await;
    assert_eq!(harness.endpoints("web"), with_hints());
    assert_eq!(harness.requests(), ["create endpointslices 201"]);
    harness
}

/// Plays the recording `topology-node-without-zone`: six pods in two zones lose their hints to a
/// node that runs none of them and has no zone, until it gets one.
async fn after_a_node_got_its_zone(node_zone_resync: bool) -> Harness {
    let mut hinted = service("web");
    hinted["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    let mut objects = vec![hinted, node("a", "zone-a", 4), node("b", "zone-b", 4)];
    objects.extend(
        (1..=6).map(|number| pod_on(["b", "a"][number % 2], &format!("p{number}"), number as u8, true)),
    );
    let server = server(objects);
    let mut ordinary = node("node", "zone-a", 1);
    ordinary["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "".into();
    server.load([ordinary]).unwrap();
    let options = changed(|options| options.node_zone_resync = node_zone_resync);
    let harness = Harness::start(&server, options).await;
    let hints = |harness: &Harness| harness.endpoints("web").iter().filter(|one| one.contains("->")).count();
    assert_eq!(hints(&harness), 6);
    harness.load([node("x", "", 4)]);
    harness.pass(seconds(4)).await;
    assert_eq!(hints(&harness), 0);
    harness.requests();
    harness
        .patch("nodes", "x", json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "zone-a"}}}))
        .await;
    harness.pass(seconds(4)).await;
    harness
}

#[tokio::test(start_paused = true)]
async fn node_zone_resync_restores_hints_that_a_node_without_a_zone_removed() {
    let harness = after_a_node_got_its_zone(true).await;
    // Two thirds of the CPU are in zone-a now.
    assert_eq!(
        harness.endpoints("web"),
        [
            "10.1.0.1 [zone-a] -> zone-a",
            "10.1.0.2 [zone-b] -> zone-a",
            "10.1.0.3 [zone-a] -> zone-a",
            "10.1.0.4 [zone-b] -> zone-b",
            "10.1.0.5 [zone-a] -> zone-a",
            "10.1.0.6 [zone-b] -> zone-b",
        ]
    );
    assert_eq!(harness.requests(), ["update endpointslices 200"]);
    let before = harness.syncs();
    harness
        .patch("nodes", "x", json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "zone-b"}}}))
        .await;
    harness.load([node("y", "", 4)]);
    harness.pass(seconds(4)).await;
    assert_eq!(
        harness.requests(),
        ["update endpointslices 200"],
        "and go again with the next node without a zone"
    );
    harness.load([node("y", "", 8)]);
    harness.pass(seconds(60)).await;
    assert_eq!(harness.syncs() - before, 1.0, "a Service that can have no hints is not synced");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn node_changes_during_a_sync_are_not_missed() {
    let harness = after_a_node_got_its_zone(true).await;
    harness.delete("nodes", "x").await;
    harness.pass(seconds(4)).await;
    assert!(harness.endpoints("web").iter().all(|endpoint| endpoint.contains("->")));
    harness.answer_late(seconds(4));
    harness.load([node("x", "", 1)]);
    harness.pass(seconds(2)).await;
    assert!(
        harness.endpoints("web").iter().all(|endpoint| !endpoint.contains("->")),
        "written, but not answered"
    );
    // A node this small overloads no zone.
    harness.load([node("x", "zone-a", 1)]);
    harness.pass(seconds(10)).await;
    assert!(harness.endpoints("web").iter().all(|endpoint| endpoint.contains("->")));
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn without_node_zone_resync_removed_hints_wait_for_another_change_of_the_service() {
    let harness = after_a_node_got_its_zone(false).await;
    harness.pass(seconds(3600)).await;
    assert_eq!(harness.requests(), [""; 0]);
    assert!(harness.endpoints("web").iter().all(|endpoint| !endpoint.contains("->")));
    harness.load([pod_on("b", "p7", 7, true)]);
    harness.moment().await;
    assert!(harness.endpoints("web").iter().all(|endpoint| endpoint.contains("->")));
    harness.nothing_is_remembered().await;
}

fn with_hints() -> [&'static str; 4] {
    [
        "10.1.0.1 [zone-a] -> zone-a",
        "10.1.0.2 [zone-a] -> zone-a",
        "10.1.0.3 [zone-b] -> zone-b",
        "10.1.0.4 [zone-b] -> zone-b",
    ]
}

fn without_hints() -> [&'static str; 4] {
    ["10.1.0.1 [zone-a]", "10.1.0.2 [zone-a]", "10.1.0.3 [zone-b]", "10.1.0.4 [zone-b]"]
}

#[tokio::test(start_paused = true)]
async fn added_and_removed_hints_are_reported() {
    let harness = hinted().await;
    harness.patch("services", "web", json!({"metadata": {"annotations": null}})).await;
    harness.pass(millis(500)).await;
    assert_eq!(harness.endpoints("web"), without_hints());
    harness.patch("services", "web", json!({"metadata": {"annotations": {"x": "y"}}})).await;
    harness.pass(millis(500)).await;
    assert_eq!(harness.requests(), ["update endpointslices 200"]);
    insta::assert_snapshot!(harness.events().join("\n"), @r"
    Service default/web: TopologyAwareHintsDisabled Topology Aware Hints has been disabled, addressType: IPv4
    Service default/web: TopologyAwareHintsEnabled Topology Aware Hints has been enabled, addressType: IPv4
    ");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_change_that_overloads_a_zone_starts_a_sync() {
    let harness = hinted().await;
    // Two of four endpoints are too few for a share of three quarters.
    harness.load([node("a", "zone-a", 12)]);
    harness.moment().await;
    assert_eq!(harness.requests(), ["update endpointslices 200"]);
    assert_eq!(
        harness.endpoints("web"),
        [
            "10.1.0.1 [zone-a] -> zone-a",
            "10.1.0.2 [zone-a] -> zone-a",
            "10.1.0.3 [zone-b] -> zone-a",
            "10.1.0.4 [zone-b] -> zone-b"
        ]
    );
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_change_that_overloads_no_zone_starts_no_sync() {
    let harness = hinted().await;
    let before = harness.syncs();
    harness.load([node("a", "zone-a", 5)]);
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), [""; 0]);
    assert_eq!(harness.syncs(), before);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn hints_are_removed_with_the_last_node_of_a_zone_and_restored_with_it() {
    let harness = hinted().await;
    harness.delete("nodes", "b").await;
    harness.pass(millis(500)).await;
    // The controller leaves the pods of the node out, because the node is unknown.
    assert_eq!(harness.endpoints("web"), ["10.1.0.1 [zone-a]", "10.1.0.2 [zone-a]"]);
    harness.requests();
    harness.load([node("b", "zone-b", 4)]);
    harness.pass(seconds(5)).await;
    assert_eq!(harness.endpoints("web"), with_hints());
    assert_eq!(harness.requests(), ["update endpointslices 200"], "with its pods, at once");
    assert_eq!(harness.controller.pending(), 0);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn impossible_hints_are_reported_once() {
    let mut alone = service("web");
    alone["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    let harness = Harness::with([alone, pod_on("node", "a", 1, true)]).await;
    for value in ["1", "2", "3"] {
        harness.patch("services", "web", json!({"metadata": {"annotations": {"x": value}}})).await;
        harness.pass(seconds(1)).await;
    }
    insta::assert_snapshot!(harness.events().join("\n"), @"Service default/web: TopologyAwareHintsDisabled Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, addressType: IPv4");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_restart_does_not_report_correct_hints_again() {
    let harness = hinted().await;
    harness.pass(millis(500)).await;
    let events = harness.events();
    let server = harness.crash().await;
    let before: Vec<Value> = server.list("events");
    let harness = Harness::start(&server, ControllerOptions::default()).await;
    harness.pass(seconds(5)).await;
    assert_eq!(harness.requests(), [""; 0]);
    assert_eq!(harness.events(), events);
    assert_eq!(harness.server.list("events"), before);
}

#[tokio::test(start_paused = true)]
async fn hints_follow_a_node_into_another_zone_at_once() {
    let harness = hinted().await;
    harness.load([node("c", "zone-c", 4)]);
    harness.pass(seconds(5)).await;
    assert_eq!(harness.endpoints("web"), without_hints(), "three zones are too many for four endpoints");
    harness.requests();
    // The zone's last node moves to another zone, and the hints of its pods change in the same
    // write.
    harness.load([node("c", "zone-b", 4)]);
    harness.pass(seconds(5)).await;
    assert_eq!(harness.requests(), [""; 0], "no zone is overloaded, and no pod has moved");
    harness.load([node("a", "zone-d", 8)]);
    harness.pass(seconds(5)).await;
    assert_eq!(
        harness.endpoints("web"),
        [
            "10.1.0.1 [zone-d] -> zone-d",
            "10.1.0.2 [zone-d] -> zone-d",
            "10.1.0.3 [zone-b] -> zone-b",
            "10.1.0.4 [zone-b] -> zone-b"
        ]
    );
    assert_eq!(harness.requests(), ["update endpointslices 200"]);
    harness.nothing_is_remembered().await;
}
