//! Topology hints: what a change of the nodes does to Services that have them.

use kube_endpoint_endpointslice_controller::ControllerOptions;
use serde_json::{Value, json};

use crate::harness::{Harness, millis, seconds, server};
use crate::objects::{node, pod_on, service};

/// A Service with hints: four pods in two zones that have as many CPUs.
async fn hinted() -> Harness {
    let mut hinted = service("web");
    hinted["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    let mut objects = vec![hinted, node("a", "zone-a", 4), node("b", "zone-b", 4)];
    let pods = (1..=4)
        .map(|number: u8| pod_on(if number <= 2 { "a" } else { "b" }, &format!("p{number}"), number, true));
    objects.extend(pods);
    let server = server(objects);
    // The node of other tests has no zone, and would keep all hints back.
    let mut ordinary = node("node", "zone-a", 1);
    ordinary["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = "".into();
    server.load([ordinary]).unwrap();
    let harness = Harness::start(&server, ControllerOptions::default()).await;
    assert_eq!(harness.endpoints("web"), with_hints());
    assert_eq!(harness.requests(), ["create endpointslices 201"]);
    harness
}

/// The recording `topology-node-without-zone`: six pods in two zones lose their hints to a node that runs none of them and
/// has no zone, until it gets one.
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
    let options = ControllerOptions { node_zone_resync, ..ControllerOptions::default() };
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
async fn node_zone_resync_brings_hints_back_that_a_node_without_a_zone_withdrew() {
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
    assert_eq!(harness.syncs() - before, 1.0, "nor is a Service synced that can have no hints");
}

#[tokio::test(start_paused = true)]
async fn nodes_that_change_while_a_sync_is_under_way_are_not_missed() {
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
    // So small a node overloads nobody.
    harness.load([node("x", "zone-a", 1)]);
    harness.pass(seconds(10)).await;
    assert!(harness.endpoints("web").iter().all(|endpoint| endpoint.contains("->")));
}

#[tokio::test(start_paused = true)]
async fn without_node_zone_resync_withdrawn_hints_wait_for_another_change_of_the_service() {
    let harness = after_a_node_got_its_zone(false).await;
    harness.pass(seconds(3600)).await;
    assert_eq!(harness.requests(), [""; 0]);
    assert!(harness.endpoints("web").iter().all(|endpoint| !endpoint.contains("->")));
    harness.load([pod_on("b", "p7", 7, true)]);
    harness.moment().await;
    assert!(harness.endpoints("web").iter().all(|endpoint| endpoint.contains("->")));
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
async fn hints_are_told_when_they_come_and_when_they_go() {
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
}

#[tokio::test(start_paused = true)]
async fn services_that_a_change_of_the_nodes_overloads_are_synced() {
    let harness = hinted().await;
    // A share of three quarters is more than two of four endpoints should carry.
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
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_nodes_that_overloads_nobody_starts_no_sync() {
    let harness = hinted().await;
    let before = harness.syncs();
    harness.load([node("a", "zone-a", 5)]);
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), [""; 0]);
    assert_eq!(harness.syncs(), before);
}

#[tokio::test(start_paused = true)]
async fn hints_go_with_the_last_node_of_a_zone_and_come_back_with_the_node() {
    let harness = hinted().await;
    harness.delete("nodes", "b").await;
    harness.pass(millis(500)).await;
    // The pods of the node are left out, as it is not known any more.
    assert_eq!(harness.endpoints("web"), ["10.1.0.1 [zone-a]", "10.1.0.2 [zone-a]"]);
    harness.requests();
    harness.load([node("b", "zone-b", 4)]);
    harness.pass(seconds(5)).await;
    assert_eq!(harness.endpoints("web"), with_hints());
    assert_eq!(harness.requests(), ["update endpointslices 200"], "with its pods, at once");
    assert_eq!(harness.controller.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn that_there_can_be_no_hints_is_told_once_and_not_at_every_sync() {
    let mut alone = service("web");
    alone["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    let harness = Harness::with([alone, pod_on("node", "a", 1, true)]).await;
    for value in ["1", "2", "3"] {
        harness.patch("services", "web", json!({"metadata": {"annotations": {"x": value}}})).await;
        harness.pass(seconds(1)).await;
    }
    insta::assert_snapshot!(harness.events().join("\n"), @"Service default/web: TopologyAwareHintsDisabled Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, addressType: IPv4");
}

#[tokio::test(start_paused = true)]
async fn a_restart_says_nothing_again_of_hints_that_are_as_they_shall_be() {
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
    // The zone's last node moves to another: what its pods are hinted for follows in the same write.
    harness.load([node("c", "zone-b", 4)]);
    harness.pass(seconds(5)).await;
    assert_eq!(harness.requests(), [""; 0], "nobody is overloaded, and no pod has moved");
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
}
