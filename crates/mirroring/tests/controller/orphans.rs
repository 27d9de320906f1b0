//! Tests with orphaned slices: slices made from pods, of a Service that has lost its selector.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_mirroring::ControllerOptions;
use serde_json::{Value, json};

use crate::controller::harness::{Harness, changed, endpoints, fields_of, made_of_pods, server, service};

const MADE: &str = "endpointslice [192.0.2.1]";
const MIRRORED: &str = "endpointslicemirroring [192.0.2.1]";

/// Returns a Service with a selector, a slice, and these Endpoints.
async fn selecting(endpoints: Value) -> Harness {
    selecting_with(ControllerOptions::default(), endpoints).await
}

async fn selecting_with(options: ControllerOptions, endpoints: Value) -> Harness {
    let harness = Harness::start(&server([]), options).await;
    let mut service = service("web");
    service["spec"]["selector"] = json!({"app": "web"});
    let made = harness.create(&service).await;
    harness.create(&made_of_pods("web-pods", &made, "192.0.2.1")).await;
    harness.create(&endpoints).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.slices(), [MADE]);
    harness
}

async fn lose_selector(harness: &Harness) {
    harness.patch("services", "web", json!({"spec": {"selector": null}})).await;
}

#[tokio::test(start_paused = true)]
async fn orphaned_slices_are_deleted_once_mirrored_slices_exist() {
    let harness = selecting(endpoints("web", &["192.0.2.1"])).await;
    lose_selector(&harness).await;
    harness.pass(Duration::from_secs(5)).await;
    assert_eq!(harness.slices(), [MIRRORED]);
    assert_eq!(harness.writes(), ["create endpointslices 201", "delete endpointslices 200"]);
    assert_eq!(harness.controller.pending(), 0);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn orphaned_slices_are_kept_until_the_cache_shows_mirrored_slices() {
    let harness = selecting(endpoints("web", &["192.0.2.1"])).await;
    harness.stall_watch("endpointslices", Duration::from_secs(5)).await;
    lose_selector(&harness).await;
    harness.pass(Duration::from_secs(4)).await;
    assert_eq!(harness.slices(), [MADE, MIRRORED]);
    harness.pass(Duration::from_secs(2)).await;
    assert_eq!(harness.slices(), [MIRRORED]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn orphaned_slices_are_kept_while_mirroring_fails() {
    let harness = selecting(endpoints("web", &["192.0.2.1"])).await;
    harness.fault(Fault::Refuse { status: 500, retry_after: None }, "create", 3);
    lose_selector(&harness).await;
    harness.pass(Duration::from_secs(5)).await;
    assert_eq!(harness.slices(), [MADE]);
    harness.pass(Duration::from_secs(10)).await;
    assert_eq!(harness.slices(), [MIRRORED]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn orphaned_slices_are_kept_if_nothing_is_mirrored() {
    let mut skipped = endpoints("web", &["192.0.2.1"]);
    skipped["metadata"]["labels"] = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    for nothing in [skipped, endpoints("web", &[]), endpoints("other", &["192.0.2.1"])] {
        let harness = selecting(nothing).await;
        lose_selector(&harness).await;
        harness.pass(Duration::from_secs(3600)).await;
        assert_eq!(harness.slices(), [MADE]);
        // The controller deletes them once there are mirrored slices.
        let there = harness.get("endpoints", "web").is_some();
        if there {
            harness.put("endpoints", &endpoints("web", &["192.0.2.1"])).await;
        } else {
            harness.create(&endpoints("web", &["192.0.2.1"])).await;
        }
        harness.pass(Duration::from_secs(5)).await;
        assert_eq!(harness.slices(), [MIRRORED]);
    }
}

#[tokio::test(start_paused = true)]
async fn slices_of_other_managers_are_kept() {
    let harness = selecting(endpoints("web", &["192.0.2.1"])).await;
    let service = harness.get("services", "web").unwrap();
    let mut by_hand = made_of_pods("by-hand", &service, "192.0.2.2");
    by_hand["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = "somebody".into();
    let mut of_another = made_of_pods("of-another", &service, "192.0.2.3");
    of_another["metadata"]["ownerReferences"] = json!([]);
    harness.create(&by_hand).await;
    harness.create(&of_another).await;
    lose_selector(&harness).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.slices(), ["endpointslice [192.0.2.3]", MIRRORED, "somebody [192.0.2.2]"]);
    harness.nothing_is_remembered().await;
}

/// A user has copied a slice with its labels and its owner.
#[tokio::test(start_paused = true)]
async fn slices_that_only_look_like_a_controllers_are_kept() {
    let harness = selecting(endpoints("web", &["192.0.2.1"])).await;
    let service = harness.get("services", "web").unwrap();
    let mut copied = made_of_pods("copied", &service, "192.0.2.1");
    copied["metadata"]["managedFields"] = fields_of("kubectl-create", "f:endpoints");
    let mut unknown = made_of_pods("unknown", &service, "192.0.2.1");
    unknown["metadata"]["managedFields"] = json!([]);
    harness.load([copied, unknown]);
    lose_selector(&harness).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.slices(), [MADE, MADE, MIRRORED]);
    assert!(harness.get("endpointslices", "web-pods").is_none());
    insta::assert_snapshot!(harness.events().join("\n"), @r"
    Service default/web: OrphanedEndpointSlicesKept EndpointSlices that were made from pods are kept: kubectl-create wrote them, and not only a controller (copied)
    Service default/web: OrphanedEndpointSlicesKept EndpointSlices that were made from pods are kept: their managedFields do not say who wrote them (unknown)
    ");
    // The controller reads them once for each version.
    harness.requests();
    harness.put("endpoints", &endpoints("web", &["192.0.2.1", "192.0.2.2"])).await;
    harness.pass(Duration::from_secs(60)).await;
    let is_read = |request: &&String| request.contains("get ");
    let requests = harness.requests();
    assert_eq!(requests.iter().filter(is_read).count(), 0, "{requests:?}");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn slices_are_kept_until_the_server_tells_who_made_them() {
    let harness = selecting(endpoints("web", &["192.0.2.1"])).await;
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    harness.server.add_fault(FaultRule::on(refuse, "get", "endpointslices"));
    lose_selector(&harness).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.slices(), [MADE, MIRRORED]);
    let log = harness.server.request_log();
    assert!(log.iter().any(|it| it.request.verb == "get" && it.status == 403));
    harness.server.clear_faults();
    harness.pass(Duration::from_secs(600)).await;
    assert_eq!(harness.slices(), [MIRRORED]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn an_orphaned_slice_that_appears_later_is_deleted() {
    let harness = selecting(endpoints("web", &["192.0.2.1"])).await;
    lose_selector(&harness).await;
    harness.pass(Duration::from_secs(5)).await;
    let service = harness.get("services", "web").unwrap();
    harness.create(&made_of_pods("late", &service, "192.0.2.1")).await;
    harness.pass(Duration::from_secs(2)).await;
    assert_eq!(harness.slices(), [MIRRORED]);
    assert_eq!(harness.controller.pending(), 0);
    harness.nothing_is_remembered().await;
}

/// The event of the other slice comes while the delete has no answer.
#[tokio::test(start_paused = true)]
async fn an_orphaned_slice_that_is_made_anew_before_the_answer_to_its_delete_is_deleted_too() {
    let harness = selecting(endpoints("web", &["192.0.2.1"])).await;
    harness.fault(Fault::DelayAnswer(Duration::from_secs(5)), "delete", 1);
    lose_selector(&harness).await;
    harness.pass(Duration::from_secs(2)).await;
    assert_eq!(harness.slices(), [MIRRORED]);
    let service = harness.get("services", "web").unwrap();
    harness.create(&made_of_pods("web-pods", &service, "192.0.2.1")).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.slices(), [MADE, MIRRORED], "the delete has no answer yet");
    harness.pass(Duration::from_secs(30)).await;
    assert_eq!(harness.slices(), [MIRRORED]);
    let deletes = "delete endpointslices 200";
    assert_eq!(harness.writes(), ["create endpointslices 201", deletes, deletes]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_until_the_server_confirms_that_there_is_no_selector() {
    for fault in [Fault::Refuse { status: 403, retry_after: None }, Fault::LoseRequest] {
        let harness = selecting(endpoints("web", &["192.0.2.1"])).await;
        harness.server.add_fault(FaultRule::on(fault, "get", "services"));
        lose_selector(&harness).await;
        harness.pass(Duration::from_secs(600)).await;
        assert_eq!(harness.slices(), [MADE, MIRRORED]);
        harness.server.clear_faults();
        harness.pass(Duration::from_secs(600)).await;
        assert_eq!(harness.slices(), [MIRRORED]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_orphaned_slice_that_has_changed_is_kept() {
    let harness = selecting(endpoints("web", &["192.0.2.1"])).await;
    harness.fault(Fault::Delay(Duration::from_secs(3)), "delete", 1);
    lose_selector(&harness).await;
    harness.pass(Duration::from_secs(1)).await;
    harness.patch("services", "web", json!({"spec": {"selector": {"app": "web"}}})).await;
    harness.patch("endpointslices", "web-pods", json!({"metadata": {"labels": {"x": "y"}}})).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.slices(), [MADE]);
    assert!(harness.writes().contains(&"delete endpointslices 409".to_owned()));
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn slices_are_kept_if_the_selector_is_restored_before_the_cache_shows_it() {
    let harness = selecting(endpoints("web", &["192.0.2.1"])).await;
    harness.fault(Fault::Delay(Duration::from_secs(3)), "create", 1);
    lose_selector(&harness).await;
    harness.pass(Duration::from_secs(1)).await;
    harness.stall_watch("services", Duration::from_secs(30)).await;
    harness.patch("services", "web", json!({"spec": {"selector": {"app": "web"}}})).await;
    harness.patch("endpointslices", "web-pods", json!({"metadata": {"labels": {"x": "y"}}})).await;
    harness.pass(Duration::from_secs(20)).await;
    assert_eq!(harness.slices(), [MADE, MIRRORED], "the cache still shows no selector");
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.slices(), [MADE]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn slices_orphaned_while_stopped_are_deleted_at_the_start() {
    let without_cleanup = changed(|options| options.orphaned_slice_cleanup = false);
    let harness = selecting_with(without_cleanup, endpoints("web", &["192.0.2.1"])).await;
    lose_selector(&harness).await;
    harness.pass(Duration::from_secs(5)).await;
    assert_eq!(harness.slices(), [MADE, MIRRORED]);
    let server = harness.crash().await;
    let harness = Harness::start(&server, ControllerOptions::default()).await;
    assert_eq!(harness.slices(), [MIRRORED]);
    assert_eq!(harness.controller.pending(), 0);
}

/// Somebody deletes the mirrored slices as the garbage collector does if the cache shows Endpoints
/// that exist no longer. The controller keeps the slice of pods, because the Endpoints do not have
/// its address.
#[tokio::test(start_paused = true)]
async fn mirrored_slices_that_are_deleted_at_once_are_created_ever_more_slowly_beside_a_kept_orphan() {
    let harness = selecting(endpoints("web", &["192.0.2.9"])).await;
    lose_selector(&harness).await;
    let mut deleted = 0;
    for _ in 0..6000 {
        harness.pass(Duration::from_millis(100)).await;
        for slice in harness.server.list("endpointslices") {
            if slice["metadata"]["name"] != "web-pods" {
                harness.delete("endpointslices", slice["metadata"]["name"].as_str().unwrap()).await;
                deleted += 1;
            }
        }
    }
    let created = harness.writes().iter().filter(|write| *write == "create endpointslices 201").count();
    assert!((3..=20).contains(&created), "{created} in ten minutes");
    assert_eq!(created, deleted);
    harness.pass(Duration::from_secs(1200)).await;
    assert_eq!(harness.slices(), [MADE, "endpointslicemirroring [192.0.2.9]"]);
    // The other client has gone.
    harness.put("endpoints", &endpoints("web", &["192.0.2.1"])).await;
    harness.pass(Duration::from_secs(2)).await;
    assert_eq!(harness.slices(), [MIRRORED]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn an_update_that_a_webhook_undoes_is_repeated_ever_more_slowly_beside_a_kept_orphan() {
    let harness = selecting(endpoints("web", &["192.0.2.9"])).await;
    lose_selector(&harness).await;
    harness.pass(Duration::from_secs(5)).await;
    let undone = harness.server.add_fault(FaultRule::on(Fault::UndoUpdate, "update", "endpointslices"));
    harness.put("endpoints", &endpoints("web", &["192.0.2.8"])).await;
    harness.pass(Duration::from_secs(3600)).await;
    let updates = harness.writes().iter().filter(|write| write.starts_with("update")).count();
    assert!((12..=22).contains(&updates), "{updates} updates in an hour");
    assert_eq!(harness.slices(), [MADE, "endpointslicemirroring [192.0.2.9]"], "as before");
    harness.server.remove_fault(undone);
    harness.pass(Duration::from_secs(7200)).await;
    assert_eq!(harness.slices(), [MADE, "endpointslicemirroring [192.0.2.8]"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn labels_that_a_webhook_undoes_do_not_keep_orphans() {
    let harness = selecting(endpoints("web", &["192.0.2.1"])).await;
    lose_selector(&harness).await;
    harness.pass(Duration::from_secs(5)).await;
    assert_eq!(harness.slices(), [MIRRORED]);
    harness.server.add_fault(FaultRule::on(Fault::UndoUpdate, "update", "endpointslices"));
    harness.patch("endpoints", "web", json!({"metadata": {"labels": {"x": "y"}}})).await;
    harness.pass(Duration::from_secs(5)).await;
    let service = harness.get("services", "web").unwrap();
    harness.create(&made_of_pods("late", &service, "192.0.2.1")).await;
    harness.pass(Duration::from_secs(5)).await;
    assert_eq!(harness.slices(), [MIRRORED]);
    harness.pass(Duration::from_secs(3600)).await;
    let updates = harness.writes().iter().filter(|write| write.starts_with("update")).count();
    assert!((12..=22).contains(&updates), "{updates} updates in an hour");
    harness.nothing_is_remembered().await;
}
