//! A Service with enough pods for a log of changes, so that its syncs plan from changed pods.

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_endpointslice_controller::ControllerOptions;
use kube_endpoint_informer::PodLogOptions;
use serde_json::{Value, json};

use crate::controller::harness::{Harness, seconds, server};
use crate::controller::objects::{name, pod, service};

const PODS: u8 = 120;

fn one_of_many(number: u8, ready: bool) -> Value {
    let mut pod = pod(&format!("p{number:03}"), number, ready);
    // The times of `pod` have their number as seconds.
    pod["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
    pod
}

fn not_ready(harness: &Harness) -> Vec<String> {
    let endpoints = harness.endpoints("web");
    assert_eq!(endpoints.len(), usize::from(PODS));
    endpoints.into_iter().filter(|endpoint| endpoint.ends_with('!')).collect()
}

#[tokio::test(start_paused = true)]
async fn changes_are_published_after_a_refused_write_and_a_foreign_edit() {
    assert!(usize::from(PODS) >= PodLogOptions::default().least_pods);
    let pods = (1..=PODS).map(|number| one_of_many(number, true));
    let harness = Harness::start(&server(pods.chain([service("web")])), ControllerOptions::default()).await;
    assert_eq!(harness.requests(), ["create endpointslices 201"; 2]);
    let change = |number: u8| harness.load([one_of_many(number, false)]);
    change(1);
    harness.pass(seconds(1)).await;
    assert_eq!(harness.requests(), ["update endpointslices 200"]);
    assert_eq!(not_ready(&harness), ["10.1.0.1!"]);
    harness.fault(Fault::Refuse { status: 500, retry_after: None }, "update", 1);
    change(2);
    harness.pass(seconds(10)).await;
    assert_eq!(harness.requests(), ["update endpointslices 500", "update endpointslices 200"]);
    assert_eq!(not_ready(&harness), ["10.1.0.1!", "10.1.0.2!"]);
    let slices = harness.slices("web");
    harness.patch("endpointslices", name(&slices[0]), json!({"endpoints": []})).await;
    change(3);
    harness.pass(seconds(10)).await;
    assert_eq!(not_ready(&harness), ["10.1.0.1!", "10.1.0.2!", "10.1.0.3!"]);
    harness.nothing_is_remembered().await;
}
