//! Tests with Endpoints that another client changes.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_endpoints_controller::ControllerOptions;
use serde_json::json;

use crate::controller::harness::{Harness, addresses, changed, pod, server, service};

async fn started(repair: bool) -> Harness {
    let options = changed(|options| options.repair = repair);
    let harness = Harness::start(&server([pod("a", 1, true)]), options).await;
    harness.create(&service("web")).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.writes(), ["create endpoints 201"]);
    harness
}

fn ours(harness: &Harness) -> Vec<String> {
    addresses(&harness.get("endpoints", "web").unwrap())
}

#[tokio::test(start_paused = true)]
async fn edits_are_repaired_after_a_second() {
    let harness = started(true).await;
    harness.patch("endpoints", "web", json!({"subsets": null})).await;
    harness.pass(Duration::from_millis(950)).await;
    assert!(ours(&harness).is_empty());
    harness.pass(Duration::from_millis(100)).await;
    assert_eq!(ours(&harness), ["10.1.0.1"]);
    harness.patch("endpoints", "web", json!({"metadata": {"labels": {"x": "y"}}})).await;
    harness.pass(Duration::from_millis(1050)).await;
    assert_eq!(harness.get("endpoints", "web").unwrap()["metadata"]["labels"].get("x"), None);
    // A foreign annotation is kept, and the echo of our own write starts no sync.
    harness.patch("endpoints", "web", json!({"metadata": {"annotations": {"x": "y"}}})).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.writes(), ["update endpoints 200", "update endpoints 200"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn without_the_gate_edits_stay_until_something_else_changes() {
    let harness = started(false).await;
    harness.patch("endpoints", "web", json!({"subsets": null})).await;
    harness.pass(Duration::from_secs(3600)).await;
    assert_eq!(harness.writes(), [""; 0]);
    harness.load([pod("b", 2, true)]);
    harness.moment().await;
    assert_eq!(ours(&harness), ["10.1.0.1", "10.1.0.2"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn deleted_endpoints_are_recreated_at_once_with_and_without_the_gate() {
    for repair in [true, false] {
        let harness = started(repair).await;
        harness.delete("endpoints", "web").await;
        harness.moment().await;
        assert_eq!(ours(&harness), ["10.1.0.1"]);
        harness.pass(Duration::from_secs(60)).await;
        assert_eq!(harness.writes(), ["create endpoints 201"], "{repair}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_during_a_write_is_repaired() {
    let harness = started(true).await;
    harness.fault(Fault::Delay(Duration::from_millis(500)), "update", 1);
    harness.load([pod("b", 2, true)]);
    harness.pass(Duration::from_millis(100)).await;
    harness.patch("endpoints", "web", json!({"subsets": null})).await;
    harness.pass(Duration::from_secs(5)).await;
    assert_eq!(ours(&harness), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(harness.writes(), ["update endpoints 409", "update endpoints 200"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn edits_made_while_stopped_are_repaired_at_the_start() {
    for repair in [true, false] {
        let harness = started(repair).await;
        let server = harness.crash().await;
        let mut edited = server.get("endpoints", "default", "web").unwrap();
        edited["subsets"] = json!([]);
        server.load([edited]).unwrap();
        let harness = Harness::start(&server, changed(|options| options.repair = repair)).await;
        assert_eq!(ours(&harness), ["10.1.0.1"], "{repair}");
    }
}

/// The watch reports no event for Endpoints that were created and deleted between two lists.
#[tokio::test(start_paused = true)]
async fn endpoints_created_and_deleted_between_two_lists_are_recreated() {
    for answer_comes_after in [false, true] {
        let harness = Harness::start(&server([pod("a", 1, true)]), ControllerOptions::default()).await;
        harness.stall_watch("endpoints", Duration::from_secs(5)).await;
        if answer_comes_after {
            harness.fault(Fault::DelayAnswer(Duration::from_secs(10)), "create", 1);
        }
        harness.create(&service("web")).await;
        harness.pass(Duration::from_secs(1)).await;
        harness.delete("endpoints", "web").await;
        harness.server.compact();
        harness.pass(Duration::from_secs(60)).await;
        assert_eq!(ours(&harness), ["10.1.0.1"], "{answer_comes_after}");
        assert_eq!(harness.controller.pending(), 0);
    }
}

/// The versions of the restored server are no lower when the watches connect again, so only the
/// conflicts show the restore.
#[tokio::test(start_paused = true)]
async fn endpoints_that_a_restore_brings_back_unseen_are_found_by_conflicts() {
    let harness = started(true).await;
    let backup = harness.server.checkpoint();
    harness.delete("services", "web").await;
    harness.pass(Duration::from_secs(30)).await;
    assert!(harness.server.get("endpoints", "default", "web").is_none());
    let before = harness.server.resource_version();
    harness.server.restore(&backup);
    for number in 0..20 {
        harness.load([service(&format!("other{number}"))]);
    }
    // The watch of Services shows this one, but nothing shows its Endpoints.
    harness.load([service("web"), pod("a", 1, true), pod("b", 2, true)]);
    assert!(harness.server.resource_version() > before, "the versions are no lower");
    harness.requests();
    harness.pass(Duration::from_secs(60)).await;
    let requests = harness.requests();
    assert!(requests.iter().any(|request| request == "create endpoints 409"), "{requests:?}");
    assert_eq!(ours(&harness), ["10.1.0.1", "10.1.0.2"]);
}

/// kubernetes#107457. As above; here a pod comes back unseen, too, and no conflict shows it. The
/// controller finds it because the list of Endpoints contradicts the cache.
#[tokio::test(start_paused = true)]
async fn a_pod_that_a_restore_brings_back_unseen_is_found_by_conflicts() {
    let harness = started(true).await;
    let backup = harness.server.checkpoint();
    harness.delete_now("pods", "a").await;
    harness.pass(Duration::from_secs(10)).await;
    assert!(ours(&harness).is_empty());
    let before = harness.server.resource_version();
    harness.server.restore(&backup);
    for number in 0..40 {
        harness.load([service(&format!("other{number}"))]);
    }
    harness.load([pod("b", 2, true)]);
    assert!(harness.server.resource_version() > before, "the versions are no lower");
    harness.requests();
    harness.pass(Duration::from_secs(120)).await;
    assert!(harness.requests().contains(&"update endpoints 409".to_owned()));
    let evidence = harness.controller.cluster().storage_went_back();
    let evidence = tokio::time::timeout(Duration::from_secs(1), evidence).await;
    assert!(evidence.is_ok(), "the controllers would start again");
}
