//! Mirrored slices that another client changes or deletes.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_mirroring::ControllerOptions;
use serde_json::json;

use crate::harness::{Harness, changed, endpoints, server, service};

async fn started(batch_period: u64) -> Harness {
    let options = changed(|options| options.batch_period = Duration::from_secs(batch_period));
    let harness = Harness::start(&server([service("web"), endpoints("web", &["192.0.2.1"])]), options).await;
    assert_eq!(harness.writes(), ["create endpointslices 201"]);
    harness
}

fn is_mirrored(harness: &Harness) -> bool {
    harness.slices() == ["endpointslicemirroring [192.0.2.1]"]
}

#[tokio::test(start_paused = true)]
async fn edits_are_repaired_after_a_second_and_deletions_at_once_where_no_batch_period_is_set() {
    let harness = started(0).await;
    let name = harness.slice();
    harness.patch("endpointslices", &name, json!({"endpoints": []})).await;
    harness.pass(Duration::from_millis(1050)).await;
    assert!(is_mirrored(&harness));
    harness.patch("endpointslices", &name, json!({"metadata": {"labels": {"x": "y"}}})).await;
    harness.pass(Duration::from_millis(1050)).await;
    assert_eq!(harness.get("endpointslices", &name).unwrap()["metadata"]["labels"].get("x"), None);
    harness.delete("endpointslices", &name).await;
    harness.pass(Duration::from_millis(1050)).await;
    assert!(is_mirrored(&harness));
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(
        harness.writes(),
        ["update endpointslices 200", "update endpointslices 200", "create endpointslices 201"]
    );
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn the_batch_period_delays_syncs_caused_by_slices() {
    let harness = started(5).await;
    harness.patch("endpointslices", &harness.slice(), json!({"endpoints": []})).await;
    harness.pass(Duration::from_secs(3)).await;
    harness.delete("endpointslices", &harness.slice()).await;
    harness.pass(Duration::from_secs(10)).await;
    assert_eq!(harness.timed_writes(), [(7000, "create endpointslices 201".to_owned())]);
    assert!(is_mirrored(&harness));
    harness.nothing_is_remembered().await;
}

/// kubernetes#112143, kubernetes#125354.
#[tokio::test(start_paused = true)]
async fn a_slice_deleted_or_edited_after_a_restart_is_repaired_before_any_own_write() {
    for delete in [true, false] {
        let server = started(0).await.crash().await;
        let harness = Harness::start(&server, ControllerOptions::default()).await;
        assert!(harness.writes().is_empty());
        if delete {
            harness.delete("endpointslices", &harness.slice()).await;
        } else {
            harness.patch("endpointslices", &harness.slice(), json!({"endpoints": []})).await;
        }
        harness.pass(Duration::from_millis(1050)).await;
        assert!(is_mirrored(&harness));
    }
}

#[tokio::test(start_paused = true)]
async fn a_slice_deleted_while_stopped_is_recreated_at_the_start() {
    let harness = started(0).await;
    harness.controller.shut_down();
    harness.delete("endpointslices", &harness.slice()).await;
    let harness = Harness::start(&harness.crash().await, ControllerOptions::default()).await;
    assert!(is_mirrored(&harness));
}

#[tokio::test(start_paused = true)]
async fn a_change_of_the_managed_by_label_starts_a_sync() {
    let manager = "endpointslice.kubernetes.io/managed-by";
    let harness = started(0).await;
    let taken = harness.slice();
    harness.patch("endpointslices", &taken, json!({"metadata": {"labels": {manager: "somebody"}}})).await;
    harness.pass(Duration::from_millis(1050)).await;
    assert_eq!(harness.slices(), ["endpointslicemirroring [192.0.2.1]", "somebody [192.0.2.1]"]);
    let ours = "endpointslicemirroring-controller.k8s.io";
    harness.patch("endpointslices", &taken, json!({"metadata": {"labels": {manager: ours}}})).await;
    harness.pass(Duration::from_millis(1050)).await;
    assert!(is_mirrored(&harness), "one of the two is deleted");
    let other = json!({"metadata": {"labels": {"kubernetes.io/service-name": "other"}}});
    harness.patch("endpointslices", &harness.slice(), other).await;
    harness.pass(Duration::from_millis(1050)).await;
    assert!(is_mirrored(&harness), "the slice with another owner is deleted, and a new one is created");
    harness.nothing_is_remembered().await;
}

/// The watch reports no event for a slice that was created and deleted between two lists.
#[tokio::test(start_paused = true)]
async fn a_slice_created_and_deleted_between_two_lists_is_recreated() {
    for answer_comes_after in [false, true] {
        let harness = started(0).await;
        harness.hold_up("endpointslices", Duration::from_secs(5)).await;
        if answer_comes_after {
            harness.fault(Fault::DelayAnswer(Duration::from_secs(10)), "create", 1);
        }
        harness.create(&service("late")).await;
        harness.create(&endpoints("late", &["192.0.2.7"])).await;
        harness.pass(Duration::from_secs(1)).await;
        for slice in harness.server.list("endpointslices") {
            if slice["metadata"]["labels"]["kubernetes.io/service-name"] == "late" {
                harness.delete("endpointslices", slice["metadata"]["name"].as_str().unwrap()).await;
            }
        }
        harness.server.compact();
        harness.pass(Duration::from_secs(60)).await;
        let late = "endpointslicemirroring [192.0.2.7]".to_owned();
        assert!(harness.slices().contains(&late), "{answer_comes_after}");
        assert_eq!(harness.controller.pending(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_restore_of_an_older_state_under_a_running_controller_is_made_up_for() {
    let harness = started(0).await;
    let backup = harness.server.checkpoint();
    harness.put("endpoints", &endpoints("web", &["192.0.2.2"])).await;
    harness.pass(Duration::from_secs(30)).await;
    assert_eq!(harness.slices(), ["endpointslicemirroring [192.0.2.2]"]);
    harness.server.restore(&backup);
    harness.pass(Duration::from_secs(30)).await;
    assert!(is_mirrored(&harness));
    harness.put("endpoints", &endpoints("web", &["192.0.2.3"])).await;
    harness.pass(Duration::from_secs(30)).await;
    assert_eq!(harness.slices(), ["endpointslicemirroring [192.0.2.3]"]);
    harness.nothing_is_remembered().await;
}
