//! A real cluster's objects: from its nodes, pods and Services our controllers make what upstream's made, and what
//! upstream's made is left alone.
#![allow(clippy::unwrap_used)]
#![expect(clippy::unwrap_used, reason = "a helper of tests that fails is a test that fails")]

mod running;

use std::time::Duration;

use jiff::Timestamp;
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_integration_tests::conformance::{Compare, unified_diff};
use kube_endpoint_integration_tests::shop::{Hints, Shop, normal_form_of_list};
use kube_endpoint_manager_core::Gates;
use running::{settings, writes_within};

fn server(objects: Vec<serde_json::Value>) -> EmbeddedApiServer {
    // Later than everything in the fixture.
    let start: Timestamp = "2026-12-01T00:00:00Z".parse().unwrap();
    EmbeddedApiServer::builder().start_time(start).load(objects).build().unwrap()
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

fn profiles() -> [Gates; 2] {
    [Gates::default(), Gates::upstream()]
}

const LONG: Duration = Duration::from_secs(120);

#[tokio::test(start_paused = true)]
async fn our_controllers_make_what_upstream_made() {
    let shop = Shop::load().unwrap();
    let want = shop.expected(&Compare::WITHOUT_TRIGGER, Hints::Keep);
    for gates in profiles() {
        let server = server(shop.inputs().into_iter().cloned().collect());
        writes_within(&server, &settings(gates), Duration::from_secs(30)).await;
        let got = normal_form_of_list(&list_of(&server), &Compare::WITHOUT_TRIGGER, Hints::Keep);
        assert_eq!(want, got, "{}", unified_diff(&want, &got));
    }
}

#[tokio::test(start_paused = true)]
async fn what_upstream_wrote_is_taken_over_without_a_single_write() {
    let shop = Shop::load().unwrap();
    for gates in profiles() {
        let server = server(vec![shop.list().clone()]);
        for turn in ["at the first start", "at the second"] {
            assert_eq!(writes_within(&server, &settings(gates.clone()), LONG).await, [""; 0], "{turn}");
        }
    }
}
