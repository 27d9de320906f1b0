//! Tests with slices that another client changes.

use kube_endpoint_embedded_apiserver::{Fault, FaultRule, LoggedRequest};
use kube_endpoint_endpointslice_controller::ControllerOptions;
use kube_endpoint_testing::server_builder;
use serde_json::json;

use crate::controller::harness::{Harness, changed, millis, seconds, server};
use crate::controller::objects::{MANAGED_BY, MANAGER, SERVICE_NAME, name, node, pod, service, slice};

async fn started(options: ControllerOptions) -> Harness {
    let harness = Harness::start(&server([pod("a", 1, true), service("web")]), options).await;
    assert_eq!(harness.requests(), ["create endpointslices 201"]);
    harness
}

#[tokio::test(start_paused = true)]
async fn a_slice_deleted_by_hand_is_recreated_after_a_second() {
    let harness = started(ControllerOptions::default()).await;
    let first = harness.slice("web");
    harness.delete("endpointslices", name(&first)).await;
    harness.pass(millis(950)).await;
    assert_eq!(harness.requests(), [""; 0]);
    harness.pass(millis(100)).await;
    assert_eq!(harness.requests(), ["create endpointslices 201"]);
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    assert_ne!(harness.slice("web")["metadata"]["uid"], first["metadata"]["uid"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_deleted_by_hand_right_after_a_restart_is_recreated() {
    // Upstream's tracker does not know slices that it has not written, and misses the deletion.
    let server = started(ControllerOptions::default()).await.crash().await;
    let harness = Harness::start(&server, ControllerOptions::default()).await;
    harness.delete("endpointslices", name(&harness.slice("web"))).await;
    harness.pass(seconds(2)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn a_slice_deleted_while_the_controller_starts_is_recreated() {
    for moment in 0..8 {
        let server = started(ControllerOptions::default()).await.crash().await;
        // The controller lists pods last, so the cache shows the slices before the first sync.
        server.add_fault(FaultRule::new(Fault::Delay(millis(4)), |request| request.plural() == "pods"));
        let harness = Harness::begin(&server, ControllerOptions::default());
        harness.pass(millis(moment)).await;
        harness.delete("endpointslices", name(&harness.slice("web"))).await;
        harness.pass(seconds(10)).await;
        assert_eq!(harness.endpoints("web"), ["10.1.0.1"], "deleted after {moment} ms");
        harness.slice("web");
        harness.crash().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_slice_deleted_while_the_watch_is_down_is_recreated() {
    let harness = started(ControllerOptions::default()).await;
    harness.fault_watch(Fault::Refuse { status: 500, retry_after: None }, "endpointslices", 5);
    harness.server.close_watches();
    harness.pass(millis(10)).await;
    harness.delete("endpointslices", name(&harness.slice("web"))).await;
    // The history is compacted, so only the next list shows the deletion.
    harness.server.compact();
    harness.pass(seconds(60)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    assert_eq!(harness.requests(), ["create endpointslices 201"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_edited_by_hand_is_repaired_after_a_second_or_the_batch_period() {
    for (batch, wait) in [(0, 1000), (500, 1000), (3000, 3000)] {
        let options = changed(|options| options.batch_period = millis(batch));
        let harness = started(options).await;
        let made = harness.slice("web");
        harness.patch("endpointslices", name(&made), json!({"endpoints": []})).await;
        harness.pass(millis(wait - 50)).await;
        assert_eq!(harness.requests(), [""; 0], "batch period {batch} ms");
        harness.pass(millis(100)).await;
        assert_eq!(harness.requests(), ["update endpointslices 200"]);
        assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slice_edited_while_stopped_is_repaired_at_the_start() {
    let server = started(ControllerOptions::default()).await.crash().await;
    let mut edited = server.list("endpointslices").remove(0);
    edited["endpoints"] = json!([{"addresses": ["192.0.2.1"]}]);
    server.load([edited]).unwrap();
    let harness = Harness::start(&server, ControllerOptions::default()).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn a_foreign_annotation_is_kept_and_causes_no_write() {
    let harness = started(ControllerOptions::default()).await;
    let (before, made) = (harness.syncs(), harness.slice("web"));
    harness.patch("endpointslices", name(&made), json!({"metadata": {"annotations": {"x": "y"}}})).await;
    harness.pass(seconds(50)).await;
    assert_eq!(harness.syncs() - before, 1.0);
    assert_eq!(harness.requests(), [""; 0]);
    assert_eq!(harness.slice("web")["metadata"]["annotations"]["x"], "y");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_without_its_managed_by_label_is_replaced_and_kept() {
    for label in [json!(null), json!("somebody.example")] {
        let harness = started(ControllerOptions::default()).await;
        let lost = name(&harness.slice("web")).to_owned();
        harness.patch("endpointslices", &lost, json!({"metadata": {"labels": {MANAGED_BY: label}}})).await;
        harness.pass(seconds(50)).await;
        assert_eq!(harness.requests(), ["create endpointslices 201"]);
        assert_eq!(harness.slices("web").len(), 2);
        // The slice now belongs to another manager: its changes start no sync.
        let before = harness.syncs();
        harness.patch("endpointslices", &lost, json!({"endpoints": []})).await;
        harness.delete("endpointslices", &lost).await;
        harness.pass(seconds(60)).await;
        assert_eq!(harness.requests(), [""; 0]);
        assert_eq!(harness.syncs(), before);
        assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_slice_labelled_as_managed_by_the_controller_is_repaired() {
    let harness = started(ControllerOptions::default()).await;
    harness.create(&slice("foreign", "web", "somebody.example", "192.0.2.1")).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), [""; 0]);
    harness.patch("endpointslices", "foreign", json!({"metadata": {"labels": {MANAGED_BY: MANAGER}}})).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), ["delete endpointslices 200"]);
    harness.create(&slice("made-by-hand", "web", MANAGER, "192.0.2.1")).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), ["delete endpointslices 200"]);
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn moving_a_slice_to_another_service_syncs_both_services() {
    let mut other = service("other");
    other["spec"]["selector"] = json!({"app": "other"});
    let mut of_other = pod("b", 2, true);
    of_other["metadata"]["labels"] = json!({"app": "other"});
    let harness = Harness::with([pod("a", 1, true), service("web"), of_other, other]).await;
    harness.requests();
    let moved = harness.slice("web");
    harness
        .patch("endpointslices", name(&moved), json!({"metadata": {"labels": {SERVICE_NAME: "other"}}}))
        .await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    assert_eq!(harness.endpoints("other"), ["10.1.0.2"]);
    let mut requests = harness.requests();
    requests.sort();
    assert_eq!(requests, ["create endpointslices 201", "delete endpointslices 200"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_that_loses_its_service_is_replaced() {
    let harness = started(ControllerOptions::default()).await;
    let made = harness.slice("web");
    harness.patch("endpointslices", name(&made), json!({"metadata": {"labels": {SERVICE_NAME: null}}})).await;
    harness.pass(seconds(50)).await;
    assert_eq!(harness.requests(), ["create endpointslices 201"]);
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_slice_held_by_a_finalizer_is_replaced() {
    let harness = started(ControllerOptions::default()).await;
    let made = harness.slice("web");
    harness
        .patch("endpointslices", name(&made), json!({"metadata": {"finalizers": ["example.invalid/hold"]}}))
        .await;
    harness.delete("endpointslices", name(&made)).await;
    harness.pass(seconds(5)).await;
    assert_eq!(harness.requests(), ["create endpointslices 201"]);
    assert_eq!(harness.slices("web").len(), 2);
    harness.patch("endpointslices", name(&made), json!({"metadata": {"finalizers": null}})).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.requests(), [""; 0]);
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
}

/// The watch reports no event for a slice that was created and deleted between two lists.
#[tokio::test(start_paused = true)]
async fn a_slice_created_and_deleted_between_two_lists_is_recreated() {
    for answer_comes_after in [false, true] {
        let harness = Harness::start(&server([pod("a", 1, true)]), ControllerOptions::default()).await;
        harness.stall_watch("endpointslices", seconds(5)).await;
        if answer_comes_after {
            harness.fault(Fault::DelayAnswer(seconds(10)), "create", 1);
        }
        harness.create(&service("web")).await;
        harness.pass(seconds(1)).await;
        harness.delete("endpointslices", name(&harness.slice("web"))).await;
        harness.server.compact();
        harness.pass(seconds(60)).await;
        assert_eq!(harness.endpoints("web"), ["10.1.0.1"], "{answer_comes_after}");
        assert_eq!(harness.controller.pending(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn three_conflicts_in_a_row_have_the_cache_compared_with_the_server() {
    for conflicts in [2, 3] {
        let harness = started(ControllerOptions::default()).await;
        harness.server.clear_request_log();
        harness.fault(Fault::Refuse { status: 409, retry_after: None }, "update", conflicts);
        harness.load([pod("b", 2, true)]);
        harness.pass(seconds(30)).await;
        assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
        let log = harness.server.request_log();
        let count = |verb: &str, status: u16| {
            let of = |logged: &&LoggedRequest| {
                logged.request.plural() == "endpointslices"
                    && logged.request.verb == verb
                    && logged.status == status
            };
            log.iter().filter(of).count()
        };
        assert_eq!(count("update", 409), conflicts);
        assert_eq!(count("list", 200), conflicts / 3, "{log:?}");
    }
}

/// Without its owner the garbage collector would keep the slice when the Service is deleted.
#[tokio::test(start_paused = true)]
async fn a_slice_whose_owner_reference_is_removed_is_replaced() {
    let harness = started(ControllerOptions::default()).await;
    let made = harness.slice("web");
    harness.patch("endpointslices", name(&made), json!({"metadata": {"ownerReferences": null}})).await;
    for _ in 0..60 {
        harness.pass(millis(100)).await;
        assert_eq!(harness.endpoints("web"), ["10.1.0.1"], "it is published throughout");
    }
    let repaired = harness.slice("web");
    assert_eq!(repaired["metadata"]["ownerReferences"], made["metadata"]["ownerReferences"]);
    assert_eq!(harness.requests(), ["create endpointslices 201", "delete endpointslices 200"]);
    harness.nothing_is_remembered().await;
}

/// Related to kubernetes#125354, for slices made from pods.
#[tokio::test(start_paused = true)]
async fn slices_of_a_service_recreated_while_stopped_belong_to_the_new_one() {
    // The garbage collector comes before the start, and after the first sync.
    for gc_delay in [millis(100), seconds(5)] {
        let objects = [pod("a", 1, true), node("node", "", 4), service("web")];
        let server = server_builder().gc_delay(gc_delay).load(objects).build().unwrap();
        let harness = Harness::start(&server, ControllerOptions::default()).await;
        harness.controller.shut_down();
        harness.delete("services", "web").await;
        let recreated = harness.create(&service("web")).await;
        harness.pass(seconds(1)).await;
        assert_eq!(harness.slices("web").is_empty(), gc_delay < seconds(1));
        let harness = Harness::start(&harness.crash().await, ControllerOptions::default()).await;
        for _ in 0..30 {
            harness.pass(seconds(1)).await;
            let slice = harness.slice("web");
            assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], recreated["metadata"]["uid"]);
        }
        assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
        harness.nothing_is_remembered().await;
    }
}

/// kubernetes#107457. The restored server has passed all positions, so only the conflicts show the
/// restore. They are about a slice; the controller finds the pod that the restore brings back
/// because its list contradicts the cache.
#[tokio::test(start_paused = true)]
async fn a_pod_that_a_restore_brings_back_unseen_is_found_by_conflicts() {
    let harness = started(ControllerOptions::default()).await;
    let backup = harness.server.checkpoint();
    harness.delete("pods", "a").await;
    harness.pass(seconds(10)).await;
    assert_eq!(harness.endpoints("web"), [""; 0]);
    let before = harness.server.resource_version();
    harness.server.restore(&backup);
    for number in 0..40 {
        harness.load([service(&format!("other{number}"))]);
    }
    harness.load([pod("b", 2, true)]);
    assert!(harness.server.resource_version() > before, "the versions are no lower");
    harness.requests();
    harness.pass(seconds(180)).await;
    assert!(harness.requests().contains(&"update endpointslices 409".to_owned()));
    let evidence = harness.controller.cluster().storage_went_back();
    let evidence = tokio::time::timeout(std::time::Duration::from_secs(1), evidence).await;
    assert!(evidence.is_ok(), "the controllers would start again");
}

/// The Service exists only in the cache, so the garbage collector deletes each of its slices.
#[tokio::test(start_paused = true)]
async fn a_service_that_a_restore_takes_away_unseen_is_found_by_the_deletions_of_its_slices() {
    let harness = started(ControllerOptions::default()).await;
    let backup = harness.server.checkpoint();
    harness.fault(Fault::Refuse { status: 500, retry_after: None }, "create", 1);
    harness.create(&service("db")).await;
    harness.pass(millis(100)).await;
    let before = harness.server.resource_version();
    harness.server.restore(&backup);
    for number in 0..40 {
        harness.load([service(&format!("other{number}"))]);
    }
    assert!(harness.server.resource_version() > before, "the versions are no lower");
    harness.writes();
    harness.pass(seconds(5)).await;
    assert!(harness.writes().contains(&"create endpointslices 201".to_owned()));
    assert_eq!(harness.slices("db").len(), 0, "collected");
    harness.pass(seconds(600)).await;
    let evidence = harness.controller.cluster().storage_went_back();
    let evidence = tokio::time::timeout(std::time::Duration::from_secs(1), evidence).await;
    assert!(evidence.is_ok(), "the controllers would start again");
}
