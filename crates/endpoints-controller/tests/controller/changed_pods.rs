//! A Service with enough pods for a log of changes, so that its syncs plan from changed pods.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_endpoints_controller::ControllerOptions;
use kube_endpoint_informer::PodLogOptions;
use serde_json::{Value, json};

use crate::controller::harness::{Harness, addresses, pod, server, service};

const PODS: u8 = 120;

fn one_of_many(number: u8, ready: bool) -> Value {
    let mut pod = pod(&format!("p{number:03}"), number, ready);
    // The times of `pod` have their number as seconds.
    pod["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-01-01T00:00:00Z");
    pod
}

/// The numbers of the pods that are published as not ready.
fn not_ready(harness: &Harness) -> Vec<u8> {
    let ready = addresses(&harness.get("endpoints", "web").unwrap());
    (1..=PODS).filter(|number| !ready.contains(&format!("10.1.0.{number}"))).collect()
}

#[tokio::test(start_paused = true)]
async fn changes_are_published_after_a_refused_write_and_a_foreign_edit() {
    assert!(usize::from(PODS) >= PodLogOptions::default().least_pods);
    let pods = (1..=PODS).map(|number| one_of_many(number, true));
    let harness = Harness::start(&server(pods), ControllerOptions::default()).await;
    harness.create(&service("web")).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.writes(), ["create endpoints 201"]);
    let kept = || harness.controller.state_counts().own;
    let change = |number: u8| harness.load([one_of_many(number, false)]);
    change(1);
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.writes(), ["update endpoints 200"]);
    assert_eq!((not_ready(&harness), kept()), (vec![1], 1));
    harness.fault(Fault::Refuse { status: 500, retry_after: None }, "update", 1);
    change(2);
    harness.pass(Duration::from_secs(10)).await;
    assert_eq!(harness.writes(), ["update endpoints 500", "update endpoints 200"]);
    assert_eq!(not_ready(&harness), [1, 2]);
    harness.patch("endpoints", "web", json!({"subsets": null})).await;
    change(3);
    harness.pass(Duration::from_secs(10)).await;
    assert_eq!(not_ready(&harness), [1, 2, 3]);
    harness.nothing_is_remembered().await;
}
