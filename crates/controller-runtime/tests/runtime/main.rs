//! Tests of the runtime with a controller that follows a script, on stores that the test fills, in
//! paused time.

#![expect(clippy::unwrap_used, reason = "a helper of tests that fails is a test that fails")]

mod bed;
mod failure_log;
mod foreign_writes;
mod latency;
mod outages;
mod resync;

use std::sync::atomic::Ordering;
use std::time::Duration;

use kube_endpoint_controller_runtime::StateCounts;
use kube_endpoint_core_model::{EndpointSlice, ObjectKey, Pod, ResourceVersion, Service};
use kube_endpoint_embedded_apiserver::{Cause, Details, Fault, FaultRule, Status};
use kube_endpoint_informer::StreamEvent;
use tokio::time::Instant;

use crate::bed::{TestBed, at, key};

#[tokio::test(start_paused = true)]
async fn nothing_is_synced_before_the_stores_are_filled() {
    let bed = TestBed::new();
    bed.cluster.apply(StreamEvent::restarted(
        vec![Service { key: key(), ..Service::default() }],
        ResourceVersion(1),
    ));
    bed.pass(10).await;
    assert_eq!(bed.syncs(), []);
    bed.show_slices();
    bed.pass(0).await;
    assert_eq!(bed.syncs(), [at(10, "0 slices found")]);
}

#[tokio::test(start_paused = true)]
async fn changes_before_the_stores_are_filled_are_not_looked_at_and_lists_of_pods_only_by_who_reads_pods() {
    let bed = TestBed::new();
    let pod = |name: &str, version| Pod {
        key: ObjectKey::new("default", name),
        resource_version: ResourceVersion(version),
        ..Pod::default()
    };
    let told = || bed.script.pods.swap(0, Ordering::Relaxed);
    bed.cluster.apply(StreamEvent::restarted(vec![pod("a", 1)], ResourceVersion(1)));
    bed.cluster.apply(StreamEvent::Applied(pod("b", 2)));
    let service = Service { key: ObjectKey::new("default", "deleted-soon"), ..Service::default() };
    bed.cluster.apply(StreamEvent::Applied(bed::slice(&service)));
    bed.cluster.apply(StreamEvent::Deleted(bed::slice(&service)));
    assert_eq!((told(), bed.controller.pending()), (0, 0));
    assert_eq!(bed.controller.state_counts(), StateCounts::default());
    assert_eq!(bed.controller.recent_foreign_writes(), []);
    bed.fill();
    bed.pass(0).await;
    assert_eq!(bed.syncs(), [at(0, "0 slices found")]);
    bed.cluster.apply(StreamEvent::restarted(vec![pod("a", 1), pod("c", 3)], ResourceVersion(3)));
    assert_eq!(told(), 0, "pods are none of its kinds");
    bed.cluster.apply(StreamEvent::Applied(pod("d", 4)));
    assert_eq!(told(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deferred_sync_is_resumed_by_the_cache_once() {
    let bed = TestBed::new();
    bed.fill();
    bed.pass(0).await;
    bed.touch_service(2);
    bed.pass(2).await;
    let stale: Vec<_> = [0, 1, 2].map(|second| at(second, "Stale")).into();
    assert_eq!(bed.syncs(), [vec![at(0, "0 slices found")], stale].concat());
    assert_eq!(bed.controller.state_counts().deferred, 1);
    bed.show_slices();
    bed.pass(10).await;
    assert_eq!(
        bed.syncs(),
        [at(2, "1 slices found"), at(3, "1 slices found")],
        "the cache, and the delay that ran"
    );
    assert_eq!(bed.server.count("endpointslices"), 1);
    assert_eq!(bed.controller.state_counts().deferred, 0);
    assert_eq!(bed.controller.state_counts().outstanding_writes, 0);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_synced_again_when_the_cache_does_not_show_its_write_though_it_reads_on() {
    let bed = TestBed::new();
    bed.fill();
    bed.pass(300).await;
    assert_eq!(bed.syncs(), [at(0, "0 slices found")], "a cache that reads nothing has lost nothing");
    bed.cluster.apply(StreamEvent::<EndpointSlice>::Bookmark(ResourceVersion(1000)));
    bed.pass(61).await;
    let syncs = bed.syncs();
    assert_eq!(
        syncs.first(),
        Some(&at(360, "0 slices found")),
        "it has read past the write, and is not stale"
    );
}

#[tokio::test(start_paused = true)]
async fn a_pause_holds_every_sync_and_is_a_minute_and_a_tenth_at_most() {
    for (asked, kept) in [(7, 7..8), (86_400, 60..67)] {
        let bed = TestBed::new();
        bed.fault_on_create(Fault::Refuse { status: 429, retry_after: Some(asked) }, 1);
        bed.fill();
        bed.pass(1).await;
        bed.touch_service(2);
        bed.pass(70).await;
        bed.show_slices();
        bed.pass(330).await;
        let syncs = bed.syncs();
        assert_eq!(syncs[..2], [at(0, "failed"), at(1, "Paused")]);
        assert!(kept.contains(&syncs[2].0) && syncs[2].1 == "0 slices found", "{syncs:?}");
        assert_eq!(syncs.len(), 3);
        assert_eq!(bed.controller.state_counts().deferred, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_error_with_retry_after_is_a_pause_and_zero_leaves_the_backoff() {
    for (status, asked, second) in [(500, 30, 30..34), (503, 30, 30..34), (429, 0, 0..1), (503, 0, 0..1)] {
        let bed = TestBed::new();
        bed.fault_on_create(Fault::Refuse { status, retry_after: Some(asked) }, 3);
        bed.fill();
        bed.pass(300).await;
        let syncs = bed.syncs();
        assert_eq!(syncs[0], at(0, "failed"));
        assert!(second.contains(&syncs[1].0), "{status} {asked}: {syncs:?}");
        assert_eq!(syncs.iter().filter(|(_, how)| how == "failed").count(), 3, "{syncs:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_service_is_forgotten_even_while_it_is_paused() {
    let bed = TestBed::new();
    bed.fault_on_create(Fault::Refuse { status: 429, retry_after: Some(60) }, 1);
    bed.fill();
    bed.pass(1).await;
    let counts = bed.controller.state_counts();
    assert_eq!(
        counts,
        StateCounts { trigger_times: 1, deferred: 1, failing: 1, own: 1, ..StateCounts::default() }
    );
    bed.cluster.apply(StreamEvent::<Service>::restarted(Vec::new(), ResourceVersion(2)));
    bed.pass(0).await;
    assert_eq!(bed.syncs(), [at(0, "failed"), at(1, "forgot 1")]);
    assert_eq!(bed.controller.state_counts(), StateCounts::default());
}

#[tokio::test(start_paused = true)]
async fn a_create_in_a_terminating_namespace_is_dropped() {
    let bed = TestBed::new();
    let cause = Cause { reason: "NamespaceTerminating".into(), message: String::new(), field: String::new() };
    let details = Details { causes: vec![cause], ..Details::default() };
    let refusal = Status { details: Some(Box::new(details)), ..Status::new(403, "Forbidden", "terminating") };
    bed.fault_on_create(Fault::RefuseWith(refusal), 1);
    bed.fill();
    bed.pass(60).await;
    assert_eq!(bed.syncs(), [at(0, "NamespaceTerminating")]);
    assert_eq!(bed.controller.pending(), 0);
}

fn not_found() -> Fault {
    Fault::Refuse { status: 404, retry_after: None }
}

#[tokio::test(start_paused = true)]
async fn a_create_answered_with_404_is_tried_again_until_the_cache_shows_that_the_service_is_gone() {
    let bed = TestBed::new();
    bed.fault_on_create(not_found(), usize::MAX);
    bed.fill();
    bed.pass(300).await;
    let failed = [0, 1, 3, 7, 15, 31, 63, 123, 183, 243].map(|second| at(second, "failed"));
    assert_eq!(bed.syncs(), failed, "the server is asked ever more slowly");
    let counts = bed.controller.state_counts();
    assert_eq!((bed.controller.pending(), counts.deferred, counts.failing), (1, 0, 1), "it is reported");
    bed.cluster.apply(StreamEvent::<Service>::restarted(Vec::new(), ResourceVersion(2)));
    bed.pass(60).await;
    assert!(bed.syncs().iter().all(|(_, how)| how.starts_with("forgot")));
    assert_eq!(bed.controller.pending(), 0);
    assert_eq!(bed.controller.state_counts(), StateCounts::default());
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_was_lost_is_not_repeated_under_another_name() {
    let bed = TestBed::new();
    bed.fault_on_create(Fault::ApplyAndLoseAnswer, 1);
    bed.fill();
    bed.pass(2).await;
    bed.show_slices();
    bed.pass(5).await;
    let syncs = bed.syncs();
    assert_eq!(syncs[..2], [at(0, "failed"), at(0, "failed")], "lost, then refused because it exists");
    assert_eq!(syncs.last().unwrap().1, "1 slices found");
    assert_eq!(bed.server.count("endpointslices"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_finishes_the_write_in_flight_and_syncs_what_is_queued_but_not_what_is_delayed() {
    let mut bed = TestBed::new();
    let keys: Vec<_> = (0..5).map(|number| ObjectKey::new("default", format!("web-{number}"))).collect();
    bed.fault_on_create(Fault::Delay(Duration::from_secs(3)), 5);
    bed.server.add_fault(
        FaultRule::on(Fault::Refuse { status: 500, retry_after: None }, "create", "endpointslices")
            .after(5)
            .times(1),
    );
    bed.fill_with(keys.clone());
    bed.cluster.apply(StreamEvent::Applied(Service {
        key: ObjectKey::new("default", "zz-refused"),
        resource_version: ResourceVersion(2),
        ..Service::default()
    }));
    bed.pass(1).await;
    assert_eq!(bed.syncs(), [], "the first write is on its way, the others are queued");
    let start = Instant::now();
    bed.controller.shut_down();
    (&mut bed.running).await.unwrap();
    assert!((13_900..15_000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    assert_eq!(bed.server.count("endpointslices"), 5);
    let log = bed.server.request_log();
    assert_eq!(log.iter().filter(|it| it.status == 500).count(), 1, "its retry would be delayed");
    assert_eq!(bed.controller.pending(), 0);
    let mut waiting = TestBed::new();
    waiting.pass(1).await;
    waiting.controller.shut_down();
    (&mut waiting.running).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_sync_ends_the_controller() {
    let mut bed = TestBed::new();
    *bed.script.panic.lock().unwrap() = true;
    bed.fill();
    assert!((&mut bed.running).await.unwrap_err().is_panic());
}
