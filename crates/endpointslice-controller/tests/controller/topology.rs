//! Topology hints: what a change of the nodes does to Services that have them.

use kube_endpoint_endpointslice_controller::ControllerOptions;
use serde_json::{Value, json};

use crate::objects::{node, pod_on, service};
use crate::world::{World, millis, seconds, server};

/// A Service with hints: four pods in two zones that have as many CPUs.
async fn hinted() -> World {
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
    let world = World::start(&server, ControllerOptions::default()).await;
    assert_eq!(world.endpoints("web"), with_hints());
    assert_eq!(world.requests(), ["create endpointslices 201"]);
    world
}

/// The recording `topology-node-without-zone`: six pods in two zones lose their hints to a node that runs none of them and
/// has no zone, until it gets one.
async fn after_a_node_got_its_zone(node_zone_resync: bool) -> World {
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
    let world = World::start(&server, options).await;
    let hints = |world: &World| world.endpoints("web").iter().filter(|one| one.contains("->")).count();
    assert_eq!(hints(&world), 6);
    world.load([node("x", "", 4)]);
    world.pass(seconds(4)).await;
    assert_eq!(hints(&world), 0);
    world.requests();
    world
        .patch("nodes", "x", json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "zone-a"}}}))
        .await;
    world.pass(seconds(4)).await;
    world
}

#[tokio::test(start_paused = true)]
async fn node_zone_resync_brings_hints_back_that_a_node_without_a_zone_withdrew() {
    let world = after_a_node_got_its_zone(true).await;
    // Two thirds of the CPU are in zone-a now.
    assert_eq!(
        world.endpoints("web"),
        [
            "10.1.0.1 [zone-a] -> zone-a",
            "10.1.0.2 [zone-b] -> zone-a",
            "10.1.0.3 [zone-a] -> zone-a",
            "10.1.0.4 [zone-b] -> zone-b",
            "10.1.0.5 [zone-a] -> zone-a",
            "10.1.0.6 [zone-b] -> zone-b",
        ]
    );
    assert_eq!(world.requests(), ["update endpointslices 200"]);
    let before = world.syncs();
    world
        .patch("nodes", "x", json!({"metadata": {"labels": {"topology.kubernetes.io/zone": "zone-b"}}}))
        .await;
    world.load([node("y", "", 4)]);
    world.pass(seconds(4)).await;
    assert_eq!(
        world.requests(),
        ["update endpointslices 200"],
        "and go again with the next node without a zone"
    );
    world.load([node("y", "", 8)]);
    world.pass(seconds(60)).await;
    assert_eq!(world.syncs() - before, 1.0, "nor is a Service synced that can have no hints");
}

#[tokio::test(start_paused = true)]
async fn nodes_that_change_while_a_sync_is_under_way_are_not_missed() {
    let world = after_a_node_got_its_zone(true).await;
    world.delete("nodes", "x").await;
    world.pass(seconds(4)).await;
    assert!(world.endpoints("web").iter().all(|endpoint| endpoint.contains("->")));
    world.answer_late(seconds(4));
    world.load([node("x", "", 1)]);
    world.pass(seconds(2)).await;
    assert!(
        world.endpoints("web").iter().all(|endpoint| !endpoint.contains("->")),
        "written, but not answered"
    );
    // So small a node overloads nobody.
    world.load([node("x", "zone-a", 1)]);
    world.pass(seconds(10)).await;
    assert!(world.endpoints("web").iter().all(|endpoint| endpoint.contains("->")));
}

#[tokio::test(start_paused = true)]
async fn without_node_zone_resync_withdrawn_hints_wait_for_another_change_of_the_service() {
    let world = after_a_node_got_its_zone(false).await;
    world.pass(seconds(3600)).await;
    assert_eq!(world.requests(), [""; 0]);
    assert!(world.endpoints("web").iter().all(|endpoint| !endpoint.contains("->")));
    world.load([pod_on("b", "p7", 7, true)]);
    world.moment().await;
    assert!(world.endpoints("web").iter().all(|endpoint| endpoint.contains("->")));
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
    let world = hinted().await;
    world.patch("services", "web", json!({"metadata": {"annotations": null}})).await;
    world.pass(millis(500)).await;
    assert_eq!(world.endpoints("web"), without_hints());
    world.patch("services", "web", json!({"metadata": {"annotations": {"x": "y"}}})).await;
    world.pass(millis(500)).await;
    assert_eq!(world.requests(), ["update endpointslices 200"]);
    insta::assert_snapshot!(world.events().join("\n"), @r"
    Service default/web: TopologyAwareHintsDisabled Topology Aware Hints has been disabled, addressType: IPv4
    Service default/web: TopologyAwareHintsEnabled Topology Aware Hints has been enabled, addressType: IPv4
    ");
}

#[tokio::test(start_paused = true)]
async fn services_that_a_change_of_the_nodes_overloads_are_synced() {
    let world = hinted().await;
    // A share of three quarters is more than two of four endpoints should carry.
    world.load([node("a", "zone-a", 12)]);
    world.moment().await;
    assert_eq!(world.requests(), ["update endpointslices 200"]);
    assert_eq!(
        world.endpoints("web"),
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
    let world = hinted().await;
    let before = world.syncs();
    world.load([node("a", "zone-a", 5)]);
    world.pass(seconds(60)).await;
    assert_eq!(world.requests(), [""; 0]);
    assert_eq!(world.syncs(), before);
}

#[tokio::test(start_paused = true)]
async fn hints_go_with_the_last_node_of_a_zone_and_come_back_with_the_node() {
    let world = hinted().await;
    world.delete("nodes", "b").await;
    world.pass(millis(500)).await;
    // The pods of the node are left out, as it is not known any more.
    assert_eq!(world.endpoints("web"), ["10.1.0.1 [zone-a]", "10.1.0.2 [zone-a]"]);
    world.requests();
    world.load([node("b", "zone-b", 4)]);
    world.pass(seconds(5)).await;
    assert_eq!(world.endpoints("web"), with_hints());
    assert_eq!(world.requests(), ["update endpointslices 200"], "with its pods, at once");
    assert_eq!(world.controller.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn that_there_can_be_no_hints_is_told_once_and_not_at_every_sync() {
    let mut alone = service("web");
    alone["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
    let world = World::with([alone, pod_on("node", "a", 1, true)]).await;
    for value in ["1", "2", "3"] {
        world.patch("services", "web", json!({"metadata": {"annotations": {"x": value}}})).await;
        world.pass(seconds(1)).await;
    }
    insta::assert_snapshot!(world.events().join("\n"), @"Service default/web: TopologyAwareHintsDisabled Insufficient Node information: allocatable CPU or zone not specified on one or more nodes, addressType: IPv4");
}

#[tokio::test(start_paused = true)]
async fn a_restart_says_nothing_again_of_hints_that_are_as_they_shall_be() {
    let world = hinted().await;
    world.pass(millis(500)).await;
    let events = world.events();
    let server = world.crash().await;
    let before: Vec<Value> = server.list("events");
    let world = World::start(&server, ControllerOptions::default()).await;
    world.pass(seconds(5)).await;
    assert_eq!(world.requests(), [""; 0]);
    assert_eq!(world.events(), events);
    assert_eq!(world.server.list("events"), before);
}

#[tokio::test(start_paused = true)]
async fn hints_follow_a_node_into_another_zone_at_once() {
    let world = hinted().await;
    world.load([node("c", "zone-c", 4)]);
    world.pass(seconds(5)).await;
    assert_eq!(world.endpoints("web"), without_hints(), "three zones are too many for four endpoints");
    world.requests();
    // The zone's last node moves to another: what its pods are hinted for follows in the same write.
    world.load([node("c", "zone-b", 4)]);
    world.pass(seconds(5)).await;
    assert_eq!(world.requests(), [""; 0], "nobody is overloaded, and no pod has moved");
    world.load([node("a", "zone-d", 8)]);
    world.pass(seconds(5)).await;
    assert_eq!(
        world.endpoints("web"),
        [
            "10.1.0.1 [zone-d] -> zone-d",
            "10.1.0.2 [zone-d] -> zone-d",
            "10.1.0.3 [zone-b] -> zone-b",
            "10.1.0.4 [zone-b] -> zone-b"
        ]
    );
    assert_eq!(world.requests(), ["update endpointslices 200"]);
}
