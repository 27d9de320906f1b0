//! A real cluster's objects: from its nodes, pods and Services our controllers make what upstream's made, and what
//! upstream's made is left alone.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_integration_tests::conformance::missing::BUILT;
use kube_endpoint_integration_tests::conformance::{Compare, Parts, start_controllers, unified_diff};
use kube_endpoint_integration_tests::shop::{Hints, Shop, normal_form_of_list};

/// Which of our controllers are not yet held to upstream's hints.
const HINTS: Hints = Hints::Keep;

fn server(objects: Vec<serde_json::Value>) -> EmbeddedApiServer {
    // Later than everything in the fixture.
    let start: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
    EmbeddedApiServer::builder().start_time(start).load(objects).build().unwrap()
}

async fn run_for(server: &EmbeddedApiServer, parts: Parts, time: Duration) {
    let client = Client::new(server.service(), "default");
    let controllers = start_controllers(client, parts, server.now()).await.unwrap();
    tokio::time::sleep(time).await;
    assert!(controllers.are_alive());
}

/// The state of a server, as the fixture's list has it.
fn list_of(server: &EmbeddedApiServer) -> serde_json::Value {
    let kinds = [
        ("nodes", "v1", "Node"),
        ("services", "v1", "Service"),
        ("pods", "v1", "Pod"),
        ("endpoints", "v1", "Endpoints"),
        ("endpointslices", "discovery.k8s.io/v1", "EndpointSlice"),
    ];
    let items = kinds.iter().flat_map(|(plural, api_version, kind)| {
        server.list(plural).into_iter().map(move |mut item| {
            item["apiVersion"] = (*api_version).into();
            item["kind"] = (*kind).into();
            item
        })
    });
    serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>()})
}

#[tokio::test(start_paused = true)]
async fn our_controllers_make_what_upstream_made() {
    let shop = Shop::load().unwrap();
    let server = server(shop.inputs().into_iter().cloned().collect());
    run_for(&server, BUILT, Duration::from_secs(30)).await;
    let mut want = shop.expected(&Compare::WITHOUT_TRIGGER, HINTS);
    let mut got = normal_form_of_list(&list_of(&server), &Compare::WITHOUT_TRIGGER, HINTS);
    BUILT.mask(&mut want);
    BUILT.mask(&mut got);
    assert_eq!(want, got, "{}", unified_diff(&want, &got));
}

#[tokio::test(start_paused = true)]
async fn what_upstream_wrote_is_taken_over_without_a_single_write() {
    let shop = Shop::load().unwrap();
    let server = server(vec![shop.list().clone()]);
    run_for(&server, BUILT, Duration::from_secs(120)).await;
    let writes: Vec<String> = server
        .request_log()
        .into_iter()
        .filter(|request| !matches!(request.request.method.as_str(), "GET" | "HEAD"))
        .map(|request| format!("{} {}", request.request.method, request.request.path))
        .collect();
    assert_eq!(writes, [""; 0]);
}
