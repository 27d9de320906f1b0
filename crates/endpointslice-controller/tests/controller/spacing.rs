//! Changes of the pods of a large Service, which are collected before they are written.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use kube_endpoint_endpointslice_controller::ControllerOptions;
use serde_json::{Value, json};

use crate::harness::{Harness, changed, server};
use crate::objects::{pod, service};

/// Pods with these numbers, each with its own address.
fn numbered(numbers: Range<usize>, ready: bool) -> impl Iterator<Item = Value> {
    numbers.map(move |number| {
        let mut pod = pod(&format!("p{number}"), 0, ready);
        let ip = format!("10.2.{}.{}", number / 250, number % 250 + 1);
        pod["status"]["podIPs"] = json!([{"ip": ip}]);
        pod["status"]["podIP"] = json!(ip);
        pod
    })
}

/// A pod of a Service becomes unready every ten milliseconds, 20 times. Returns when something was written, in milliseconds from the first
/// write, which is at once. If `edited`, the Service changes after 45 ms.
async fn written_at(options: ControllerOptions, pods: usize, edited: bool) -> Vec<u128> {
    let server = server(numbered(0..pods, true).chain([service("web")]));
    let harness = Harness::start(&server, options).await;
    harness.pass(Duration::from_secs(5)).await;
    server.clear_request_log();
    for changed in 0..20 {
        harness.load(numbered(changed..changed + 1, false));
        harness.pass(Duration::from_millis(5)).await;
        assert!(!server.request_log().is_empty(), "the first change is written at once");
        if edited && changed == 4 {
            let patch = json!({"metadata": {"labels": {"team": "blue"}}});
            harness.patch("services", "web", patch).await;
        }
        harness.pass(Duration::from_millis(5)).await;
    }
    harness.pass(Duration::from_secs(5)).await;
    let unready = harness
        .slices("web")
        .iter()
        .flat_map(|slice| slice["endpoints"].as_array().unwrap().clone())
        .filter(|endpoint| endpoint["conditions"]["ready"] == false)
        .count();
    assert_eq!(unready, 20, "all changes are published");
    let writes = harness.timed_writes();
    let first = writes[0].0;
    let times: BTreeSet<u128> = writes.iter().map(|(at, _)| at - first).collect();
    times.into_iter().collect()
}

#[tokio::test(start_paused = true)]
async fn changes_of_a_large_service_are_written_together() {
    let written = written_at(ControllerOptions::default(), 1000, false).await;
    assert_eq!(written, [0, 50, 100, 150, 200]);
}

#[tokio::test(start_paused = true)]
async fn another_change_of_a_large_service_is_written_at_once() {
    let written = written_at(ControllerOptions::default(), 1000, true).await;
    assert_eq!(written, [0, 45, 50, 95, 145, 195], "a sync that was due stays due");
}

#[tokio::test(start_paused = true)]
async fn each_change_of_a_small_service_is_written_at_once() {
    let written = written_at(ControllerOptions::default(), 999, false).await;
    assert_eq!(written.len(), 20, "{written:?}");
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_each_change_is_written_at_once() {
    let options = changed(|options| options.runtime.write_spacing = false);
    let written = written_at(options, 1000, false).await;
    assert_eq!(written.len(), 20, "{written:?}");
}
