//! Tests of the time from the arrival of a change's event to the write.

use std::time::Duration;

use kube_endpoint_controller_runtime::Latencies;
use kube_endpoint_core_model::{ResourceVersion, Service};
use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_informer::StreamEvent;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};

use crate::bed::{TestBed, key};

/// Creates a controller with a recorder. The stores are filled and the slice is written; each later
/// sync updates it.
async fn bed() -> (TestBed, Snapshotter) {
    let (bed, snapshotter) = empty_bed();
    bed.fill();
    bed.pass(1).await;
    bed.show_slices();
    bed.pass(1).await;
    assert_eq!(bed.server.count("endpointslices"), 1);
    *bed.script.updates.lock().unwrap() = true;
    (bed, snapshotter)
}

fn empty_bed() -> (TestBed, Snapshotter) {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    (metrics::with_local_recorder(&recorder, TestBed::new), snapshotter)
}

/// Returns the values of the histogram since the last call.
fn measured(snapshotter: &Snapshotter) -> Vec<f64> {
    let metrics = snapshotter.snapshot().into_vec().into_iter();
    let mut found = metrics.filter(|(key, ..)| key.key().name() == "event_to_write_seconds");
    match found.next().unwrap().3 {
        DebugValue::Histogram(values) => values.into_iter().map(|value| value.0).collect(),
        other => panic!("no histogram: {other:?}"),
    }
}

fn writes(bed: &TestBed) -> u64 {
    bed.controller.activity().writes
}

#[tokio::test(start_paused = true)]
async fn a_change_counts_from_its_arrival_also_if_its_sync_is_delayed() {
    let (bed, snapshotter) = bed().await;
    bed.touch_service(10);
    bed.pass(1).await;
    assert_eq!(measured(&snapshotter), [0.0]);
    *bed.script.delay.lock().unwrap() = Duration::from_secs(1);
    bed.show_slices();
    bed.touch_service(11);
    bed.pass_exactly(Duration::from_millis(400)).await;
    bed.touch_service(12);
    bed.pass(5).await;
    assert_eq!(measured(&snapshotter), [1.0], "the first of two changes that were written together");
    assert_eq!(bed.controller.activity().latencies, Latencies::of([0, 1000]));
}

#[tokio::test(start_paused = true)]
async fn a_change_counts_once_when_its_write_succeeds_after_failures() {
    let (bed, snapshotter) = bed().await;
    bed.fault_on_create(Fault::Refuse { status: 500, retry_after: None }, 3);
    bed.add_service("db");
    bed.pass(5).await;
    assert_eq!(measured(&snapshotter), [0.035], "retries after 5, 10 and 20 ms");
    bed.fault_on_create(Fault::Refuse { status: 429, retry_after: Some(2) }, 1);
    bed.add_service("queue");
    bed.pass(5).await;
    let [paused] = *measured(&snapshotter) else { panic!("one value") };
    assert!((2.0..=2.2).contains(&paused), "{paused}");
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_was_put_off_keeps_the_arrival() {
    let (bed, snapshotter) = bed().await;
    bed.script.defer_every_other_sync();
    bed.touch_service(10);
    bed.pass(5).await;
    assert_eq!(measured(&snapshotter), [1.0]);
}

#[tokio::test(start_paused = true)]
async fn what_a_list_shows_does_not_count() {
    let (bed, snapshotter) = empty_bed();
    bed.fill();
    bed.pass(1).await;
    bed.show_slices();
    *bed.script.updates.lock().unwrap() = true;
    let service = Service { key: key(), resource_version: ResourceVersion(20), ..Service::default() };
    bed.cluster.apply(StreamEvent::restarted(vec![service], ResourceVersion(20)));
    bed.pass(1).await;
    assert_eq!(writes(&bed), 2, "the first slice, and the change that the list showed");
    assert_eq!(measured(&snapshotter), [0.0; 0]);
}

#[tokio::test(start_paused = true)]
async fn changes_before_the_controller_began_do_not_count() {
    let (bed, snapshotter) = empty_bed();
    bed.touch_service(1);
    bed.pass(60).await;
    // The controller begins when its caches are complete.
    bed.fill();
    bed.pass(1).await;
    assert_eq!(writes(&bed), 1);
    assert_eq!(measured(&snapshotter), [0.0; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_sync_that_writes_nothing_does_not_count_and_leaves_nothing() {
    let (bed, snapshotter) = bed().await;
    *bed.script.updates.lock().unwrap() = false;
    bed.touch_service(10);
    bed.pass(60).await;
    assert_eq!(measured(&snapshotter), [0.0; 0]);
    *bed.script.updates.lock().unwrap() = true;
    bed.show_slices();
    bed.touch_service(11);
    bed.pass(1).await;
    assert_eq!(measured(&snapshotter), [0.0]);
}

#[tokio::test(start_paused = true)]
async fn the_correction_of_a_foreign_write_does_not_count() {
    let (bed, snapshotter) = bed().await;
    let before = writes(&bed);
    bed.change_slices().await;
    bed.show_slices();
    bed.pass(5).await;
    assert!(writes(&bed) > before);
    assert_eq!(measured(&snapshotter), [0.0; 0]);
}
