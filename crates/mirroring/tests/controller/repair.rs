//! Tests with mirrored slices that another client changes or deletes.

use std::time::Duration;

use kube_endpoint_controller_runtime::StateCounts;
use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_mirroring::ControllerOptions;
use kube_endpoint_testing::server_builder;
use serde_json::json;

use crate::controller::harness::{Harness, changed, endpoints, server, service};

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

/// kubernetes#112143.
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

/// kubernetes#125354. A user recreates Endpoints while no controller runs, so the first sync finds
/// a slice with the right content that the garbage collector is about to delete.
#[tokio::test(start_paused = true)]
async fn slices_of_endpoints_recreated_while_stopped_belong_to_the_new_ones() {
    const BEFORE: &[&str] = &["create endpointslices 201"];
    const AFTER: &[&str] = &["update endpointslices 200"];
    const BETWEEN: &[&str] = &["update endpointslices 404", "create endpointslices 201"];
    // The arguments are when the collector comes, the delay of the first update of a controller
    // that starts after a second, and the expected writes.
    let check = async |collected_after: u64, update_delay: u64, writes: Option<&[&str]>| {
        let delay = Duration::from_millis(collected_after);
        let objects = [service("web"), endpoints("web", &["192.0.2.1"])];
        let server = server_builder().gc_delay(delay).load(objects).build().unwrap();
        let harness = Harness::start(&server, ControllerOptions::default()).await;
        harness.controller.shut_down();
        harness.delete("endpoints", "web").await;
        let recreated = harness.create(&endpoints("web", &["192.0.2.1"])).await;
        harness.pass(Duration::from_secs(1)).await;
        let server = harness.crash().await;
        let late = Fault::Delay(Duration::from_millis(update_delay));
        server.add_fault(FaultRule::on(late, "update", "endpointslices").times(1));
        server.clear_request_log();
        let harness = Harness::start(&server, ControllerOptions::default()).await;
        harness.pass(Duration::from_secs(30)).await;
        assert!(is_mirrored(&harness), "collected after {collected_after} ms");
        let slice = harness.get("endpointslices", &harness.slice()).unwrap();
        assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], recreated["metadata"]["uid"]);
        let written = harness.writes();
        assert!(writes.is_none_or(|writes| written == writes), "{collected_after} ms: {written:?}");
        harness.nothing_is_remembered().await;
    };
    check(100, 0, Some(BEFORE)).await;
    check(10_000, 0, Some(AFTER)).await;
    check(1500, 1000, Some(BETWEEN)).await;
    // These times are around the first list and the first sync.
    for collected_after in 1000..1008 {
        check(collected_after, 0, None).await;
    }
}

/// As above, while the controller runs: it sees one object with another uid, and no deletion.
#[tokio::test(start_paused = true)]
async fn slices_of_endpoints_recreated_while_the_watch_is_down_belong_to_the_new_ones() {
    for collected_after in [Duration::from_millis(100), Duration::from_secs(20)] {
        let objects = [service("web"), endpoints("web", &["192.0.2.1"])];
        let server = server_builder().gc_delay(collected_after).load(objects).build().unwrap();
        let harness = Harness::start(&server, ControllerOptions::default()).await;
        harness.stall_watch("endpoints", Duration::from_secs(5)).await;
        harness.delete("endpoints", "web").await;
        let recreated = harness.create(&endpoints("web", &["192.0.2.1"])).await;
        harness.server.compact();
        harness.pass(Duration::from_secs(60)).await;
        assert!(is_mirrored(&harness), "{collected_after:?}");
        let slice = harness.get("endpointslices", &harness.slice()).unwrap();
        assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], recreated["metadata"]["uid"]);
        harness.nothing_is_remembered().await;
    }
}

/// Without its owner the garbage collector would keep the slice when the Endpoints are deleted.
#[tokio::test(start_paused = true)]
async fn a_slice_whose_owner_reference_is_removed_gets_it_back() {
    let harness = started(0).await;
    let name = harness.slice();
    let made = harness.get("endpointslices", &name).unwrap();
    harness.patch("endpointslices", &name, json!({"metadata": {"ownerReferences": null}})).await;
    harness.pass(Duration::from_millis(1050)).await;
    let repaired = harness.get("endpointslices", &name).unwrap();
    assert_eq!(repaired["metadata"]["ownerReferences"], made["metadata"]["ownerReferences"]);
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.writes(), ["update endpointslices 200"]);
    harness.nothing_is_remembered().await;
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

/// kubernetes#107457. The restored server has passed all positions, so only the conflicts about the
/// slice of `web` show the restore. The controller finds the Endpoints of `db`, which the restore
/// sets back, too, because that slice contradicts the cache.
#[tokio::test(start_paused = true)]
async fn endpoints_that_a_restore_sets_back_unseen_are_found_by_conflicts_of_others() {
    let harness = started(0).await;
    harness.create(&service("db")).await;
    harness.create(&endpoints("db", &["192.0.2.7"])).await;
    harness.pass(Duration::from_secs(5)).await;
    // The backup comes while the slice of `db` is behind.
    harness.fault(Fault::Delay(Duration::from_secs(1)), "update", 1);
    harness.put("endpoints", &endpoints("db", &["192.0.2.8"])).await;
    let backup = harness.server.checkpoint();
    harness.pass(Duration::from_secs(5)).await;
    harness.put("endpoints", &endpoints("db", &["192.0.2.7"])).await;
    harness.put("endpoints", &endpoints("web", &["192.0.2.2"])).await;
    harness.pass(Duration::from_secs(5)).await;
    let mirrored = |ip: &str| format!("endpointslicemirroring [{ip}]");
    assert_eq!(harness.slices(), [mirrored("192.0.2.2"), mirrored("192.0.2.7")]);
    let before = harness.server.resource_version();
    harness.server.restore(&backup);
    for number in 0..40 {
        harness.load([service(&format!("other{number}"))]);
    }
    harness.load([endpoints("web", &["192.0.2.3"])]);
    assert!(harness.server.resource_version() > before, "the versions are no lower");
    assert_eq!(harness.slices(), [mirrored("192.0.2.1"), mirrored("192.0.2.7")], "as in the backup");
    harness.writes();
    harness.pass(Duration::from_secs(180)).await;
    assert!(harness.writes().contains(&"update endpointslices 409".to_owned()));
    let evidence = harness.controller.cluster().storage_went_back();
    let evidence = tokio::time::timeout(Duration::from_secs(1), evidence).await;
    assert!(evidence.is_ok(), "the controllers would start again");
}

/// The restored server has passed all positions, and nobody writes. Only the answers about the
/// Endpoints show the restore.
#[tokio::test(start_paused = true)]
async fn endpoints_that_a_restore_brings_back_unseen_are_found_by_asking_about_them() {
    let harness = started(0).await;
    let backup = harness.server.checkpoint();
    let before = harness.server.resource_version();
    // The restore comes between the event and the controller's question about the Endpoints.
    harness.fault(Fault::Delay(Duration::from_secs(1)), "get", 1);
    harness.delete("endpoints", "web").await;
    harness.pass(Duration::from_millis(100)).await;
    harness.server.restore(&backup);
    for number in 0..40 {
        harness.load([service(&format!("other{number}"))]);
    }
    assert!(harness.server.resource_version() > before, "the versions are no lower");
    harness.pass(Duration::from_secs(300)).await;
    let questions = harness.timed_requests();
    assert!(questions.iter().any(|(_, request)| request == "get endpoints 200"), "{questions:?}");
    let evidence = harness.controller.cluster().storage_went_back();
    let evidence = tokio::time::timeout(Duration::from_secs(1), evidence).await;
    assert!(evidence.is_ok(), "the controllers would start again");
}

#[tokio::test(start_paused = true)]
async fn a_mirrored_slice_that_keeps_coming_back_is_deleted_ever_more_slowly() {
    let harness = started(0).await;
    let mut slice = harness.get("endpointslices", &harness.slice()).unwrap();
    slice["metadata"] = json!({"name": "again", "labels": slice["metadata"]["labels"]});
    harness.patch("services", "web", json!({"spec": {"selector": {"app": "web"}}})).await;
    let mut created = 0;
    for _ in 0..6000 {
        harness.pass(Duration::from_millis(100)).await;
        if harness.get("endpointslices", "again").is_none() {
            harness.create(&slice).await;
            created += 1;
        }
    }
    // The one more is the slice that the controller itself had made.
    let deleted = harness.writes().iter().filter(|write| *write == "delete endpointslices 200").count() - 1;
    assert!((3..=20).contains(&deleted), "{deleted} in ten minutes");
    assert_eq!(created, deleted + 1);
    harness.pass(Duration::from_secs(1200)).await;
    assert_eq!(harness.slices(), [""; 0]);
    assert_eq!(harness.controller.state_counts(), StateCounts::default(), "nobody has deleted the Service");
    harness.nothing_is_remembered().await;
}
