//! Syncs that wait for an event have it read at once.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use tokio::time::Instant;

use crate::bed::TestBed;

/// A bed whose slice has been written, and not shown.
async fn written() -> TestBed {
    let bed = TestBed::new();
    bed.fill();
    bed.pass(1).await;
    assert_eq!(bed.syncs().len(), 1);
    assert_eq!(bed.client.last_hurry(), None, "nothing waits for its echo");
    bed
}

/// The same, but the slice has been shown, and each sync updates it.
async fn updating() -> TestBed {
    let bed = written().await;
    bed.show_slices();
    *bed.script.updates.lock().unwrap() = true;
    bed
}

/// A sync that begins now ends like this, and something waits for an event then.
async fn check(bed: &TestBed, how: &str) {
    let start = Instant::now();
    bed.touch_service(2);
    bed.pass_exactly(Duration::from_millis(1)).await;
    let syncs = bed.syncs();
    assert_eq!(syncs.iter().map(|(_, how)| how.as_str()).collect::<Vec<_>>(), [how]);
    assert!(bed.client.last_hurry().is_some_and(|at| at >= start), "{how}");
}

#[tokio::test(start_paused = true)]
async fn a_sync_whose_cache_does_not_show_its_write_hurries() {
    check(&written().await, "Stale").await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_hurries() {
    let bed = updating().await;
    bed.change_slices().await;
    check(&bed, "failed").await;
}

#[tokio::test(start_paused = true)]
async fn an_update_of_a_deleted_object_hurries() {
    let bed = updating().await;
    bed.delete_slices().await;
    check(&bed, "failed").await;
}

#[tokio::test(start_paused = true)]
async fn a_create_for_a_service_that_the_server_does_not_have_hurries() {
    let bed = TestBed::new();
    bed.fault_on_create(Fault::Refuse { status: 404, retry_after: None }, 1);
    let start = Instant::now();
    bed.fill();
    bed.pass_exactly(Duration::from_millis(1)).await;
    assert_eq!(bed.syncs().len(), 1);
    assert!(bed.client.last_hurry().is_some_and(|at| at >= start));
}
