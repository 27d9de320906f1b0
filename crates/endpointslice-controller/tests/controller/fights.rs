//! Tests with another client that undoes every correction.

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_endpointslice_controller::ControllerOptions;
use serde_json::json;

use crate::controller::harness::{Harness, millis, server};
use crate::controller::objects::{name, pod, service};

/// Lets another client remove all endpoints within a tenth of a second of each correction, for this
/// number of seconds. Returns the number of corrections.
async fn fight(harness: &Harness, seconds: u64) -> usize {
    let mut corrections = 0;
    for _ in 0..seconds * 10 {
        let slice = harness.slice("web");
        if slice["endpoints"].as_array().is_some_and(|endpoints| !endpoints.is_empty()) {
            harness.patch("endpointslices", name(&slice), json!({"endpoints": []})).await;
            corrections += 1;
        }
        harness.pass(millis(100)).await;
    }
    corrections
}

async fn started() -> Harness {
    let objects = [pod("a", 1, true), pod("b", 2, true), service("web")];
    let harness = Harness::start(&server(objects), ControllerOptions::default()).await;
    assert_eq!(harness.requests(), ["create endpointslices 201"]);
    harness
}

#[tokio::test(start_paused = true)]
async fn another_client_that_undoes_every_correction_costs_few_writes() {
    let harness = started().await;
    let corrections = fight(&harness, 3600).await;
    assert!((12..=22).contains(&corrections), "{corrections} in an hour");
    harness.pass(millis(301_000)).await;
    assert_eq!(harness.endpoints("web").len(), 2, "it has stopped");
}

/// A change of the ports leaves the endpoints as they were.
#[tokio::test(start_paused = true)]
async fn a_change_of_ports_that_is_undone_is_repeated() {
    let ports = |number: u16| json!([{"name": "", "port": number, "protocol": "TCP"}]);
    let target =
        |number: u16| json!({"spec": {"ports": [{"port": 80, "targetPort": number, "protocol": "TCP"}]}});
    let harness = started().await;
    let undone = harness.server.add_fault(FaultRule::on(Fault::UndoUpdate, "update", "endpointslices"));
    harness.patch("services", "web", target(9090)).await;
    harness.pass(millis(200)).await;
    assert_eq!(harness.slice("web")["ports"], ports(8080), "the server has undone it");
    harness.server.remove_fault(undone);
    harness.pass(millis(10_000)).await;
    assert_eq!(harness.slice("web")["ports"], ports(9090));
    harness.patch("services", "web", target(7070)).await;
    harness.pass(millis(1000)).await;
    harness.patch("endpointslices", name(&harness.slice("web")), json!({"ports": ports(9090)})).await;
    harness.pass(millis(10_000)).await;
    assert_eq!(harness.slice("web")["ports"], ports(7070));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_turns_unready_during_a_fight_is_gone_within_a_second() {
    let harness = started().await;
    fight(&harness, 600).await;
    assert!(harness.endpoints("web").is_empty(), "the fight is on");
    harness.load([pod("b", 2, false)]);
    harness.pass(millis(900)).await;
    let slice = harness.slice("web");
    let ready = slice["endpoints"].as_array().unwrap().iter().filter(|it| it["conditions"]["ready"] == true);
    assert_eq!(ready.map(|it| &it["addresses"][0]).collect::<Vec<_>>(), ["10.1.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn an_update_that_a_webhook_undoes_is_repeated_ever_more_slowly_until_it_stays() {
    let harness = started().await;
    let undone = harness.server.add_fault(FaultRule::on(Fault::UndoUpdate, "update", "endpointslices"));
    harness.load([pod("c", 3, true)]);
    harness.pass(millis(3_600_000)).await;
    let updates = harness.requests().len();
    assert!((12..=22).contains(&updates), "{updates} updates in an hour");
    assert_eq!(harness.endpoints("web").len(), 2);
    harness.server.remove_fault(undone);
    harness.pass(millis(7_200_000)).await;
    assert_eq!(harness.endpoints("web").len(), 3);
    harness.nothing_is_remembered().await;
}
