//! Hand-overs where kube-controller-manager runs inside another program, so that its field manager
//! has another name.

use std::time::Duration;

use serde_json::Value;

use crate::harness::{Harness, pod, selector, service};

/// A name that is in no list.
const UNKNOWN: &str = "hyperkube";

fn objects() -> impl Iterator<Item = Value> {
    [pod("a", 1, "stable", true), pod("c", 9, "canary", true)]
        .into_iter()
        .chain([service(), selector("canary")])
}

/// Returns the messages of the events with a reason, each with its count.
fn events(harness: &Harness, reason: &str) -> Vec<(String, u64)> {
    let events = harness.list("events").into_iter().filter(|event| event["reason"] == reason);
    let count = |event: &Value| event["count"].as_u64().unwrap_or(1);
    events.map(|event| (event["message"].as_str().unwrap().to_owned(), count(&event))).collect()
}

/// Returns the condition that says what else the clients of the Service get, if they do.
fn not_published(harness: &Harness) -> Option<Value> {
    let selector = harness.get("endpointselectors", "stable").unwrap();
    let conditions = selector["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|it| it["type"] == "Published" && it["status"] == "False")
}

#[tokio::test(start_paused = true)]
async fn a_known_distribution_is_taken_over_whole() {
    for program in ["k3s", "kubelite", "microshift"] {
        let harness = Harness::start_inside(program, objects()).await;
        assert_eq!(harness.slices(), ["endpointslice: 1 9"], "{program}");
        harness.attach().await;
        harness.pass_with(10, &["10.1.0.1"]).await;
        assert_eq!(harness.slices(), ["own: 1"], "{program}");
        assert_eq!(harness.get("endpoints", "web"), None, "{program}");
        assert_eq!(harness.reasons(), ["EndpointsTakenOver"], "{program}");
        assert_eq!(not_published(&harness), None, "{program}");
        harness.nothing_is_remembered().await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_unknown_program_wrote_stays_and_is_reported_while_it_stays() {
    let harness = Harness::start_inside(UNKNOWN, objects()).await;
    harness.attach().await;
    harness.pass_with(10, &["10.1.0.1"]).await;
    assert_eq!(harness.slices(), ["endpointslice: 1 9", "endpointslicemirroring: 1 9", "own: 1"]);
    assert_eq!(harness.gauge("services_with_leftovers"), 1.0);
    let kept = events(&harness, "EndpointSliceKept");
    let [(message, _)] = &kept[..] else { panic!("{kept:?}") };
    assert!(message.contains("--controller-field-managers=hyperkube"), "{message}");
    assert!(message.contains("(and 1 more: MirroredEndpointsAdded)"), "{message}");
    let condition = not_published(&harness).unwrap();
    assert_eq!(condition["reason"], "EndpointSliceKept");
    let said = condition["message"].as_str().unwrap();
    assert_eq!(said, format!("Service web: {message}"));
    // The event comes again, and a change of a pod asks nothing.
    harness.pass(Duration::from_secs(2000)).await;
    assert!(events(&harness, "EndpointSliceKept")[0].1 > 1, "{:?}", events(&harness, "EndpointSliceKept"));
    harness.sent("get", "endpointslices");
    harness.load([pod("b", 2, "stable", true)]);
    harness.pass(Duration::from_secs(2)).await;
    assert_eq!(harness.slices()[2], "own: 1 2");
    assert_eq!(harness.sent("get", "endpointslices"), 0);

    // The administrator names the program.
    let harness = harness.restart_inside(UNKNOWN, &[UNKNOWN]).await;
    harness.pass_with(10, &["10.1.0.1", "10.1.0.2"]).await;
    assert_eq!(harness.slices(), ["own: 1 2"]);
    assert_eq!(harness.get("endpoints", "web"), None);
    assert_eq!((harness.gauge("services_with_leftovers"), not_published(&harness)), (0.0, None));
}

#[tokio::test(start_paused = true)]
async fn each_kept_slice_is_named() {
    let pods = (1..=201).map(|number| pod(&format!("p{number}"), number, "stable", true));
    let objects = pods.chain([service(), selector("canary")]);
    let harness = Harness::start_inside(UNKNOWN, objects).await;
    harness.attach().await;
    harness.pass(Duration::from_secs(20)).await;
    let mut slices = harness.list("endpointslices");
    slices.retain(|slice| {
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]
            == "endpointslice-controller.k8s.io"
    });
    assert_eq!(slices.len(), 3);
    let messages = events(&harness, "EndpointSliceKept");
    for slice in &slices {
        let name = slice["metadata"]["name"].as_str().unwrap();
        assert!(messages.iter().any(|(message, _)| message.contains(name)), "{name}: {messages:?}");
        assert!(not_published(&harness).unwrap()["message"].as_str().unwrap().contains(name), "{name}");
    }
    // Somebody deletes one of them. The others are still told of.
    let gone = slices[0]["metadata"]["name"].as_str().unwrap();
    harness.delete("endpointslices", gone).await;
    harness.pass(Duration::from_secs(10)).await;
    let message = not_published(&harness).unwrap()["message"].as_str().unwrap().to_owned();
    assert!(!message.contains(gone), "{message}");
    for slice in &slices[1..] {
        assert!(message.contains(slice["metadata"]["name"].as_str().unwrap()), "{message}");
    }
}
