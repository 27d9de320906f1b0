//! Tests of the fence without a server.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::{Permit, WriteFence};
use crate::error::WriteError;

async fn begin(fence: &WriteFence) -> Result<Permit, WriteError> {
    fence.begin(async {}).await.map(|(permit, ())| permit)
}

#[tokio::test(start_paused = true)]
async fn writes_are_begun_only_while_it_is_open_and_before_its_limit() {
    let fence = WriteFence::closed();
    assert_eq!(begin(&fence).await.err(), Some(WriteError::Fenced));
    fence.open(Some(Instant::now() + Duration::from_secs(10)));
    begin(&fence).await.unwrap();
    sleep(Duration::from_millis(9_999)).await;
    begin(&fence).await.unwrap();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(begin(&fence).await.err(), Some(WriteError::Fenced));
    assert!(!fence.is_open());
    fence.open(Some(Instant::now() + Duration::from_secs(1)));
    assert!(begin(&fence).await.is_ok(), "the lease was renewed");
    fence.close();
    assert_eq!(begin(&fence).await.err(), Some(WriteError::Fenced));
    assert!(begin(&WriteFence::default()).await.is_ok(), "no leader election");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_the_rate_limit_is_fenced_at_once() {
    let fence = WriteFence::default();
    let start = Instant::now();
    let waiting = {
        let fence = fence.clone();
        tokio::spawn(async move { fence.begin(sleep(Duration::from_secs(500))).await.err() })
    };
    sleep(Duration::from_secs(1)).await;
    fence.close();
    assert_eq!(waiting.await.unwrap(), Some(WriteError::Fenced));
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    fence.open(Some(Instant::now() + Duration::from_secs(2)));
    let late = fence.begin(sleep(Duration::from_secs(500))).await;
    assert_eq!((late.err(), start.elapsed()), (Some(WriteError::Fenced), Duration::from_secs(3)));
}

#[tokio::test(start_paused = true)]
async fn a_request_ends_at_the_limit_which_may_be_moved_meanwhile() {
    let fence = WriteFence::closed();
    let start = Instant::now();
    let at = move |seconds| Some(start + Duration::from_secs(seconds));
    fence.open(at(10));
    assert_eq!(fence.within_limit(sleep(Duration::from_secs(60))).await, None);
    assert_eq!(start.elapsed(), Duration::from_secs(10));
    fence.open(at(20));
    let renewed = fence.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(5)).await;
        renewed.open(at(30));
        renewed.close();
    });
    assert_eq!(fence.within_limit(sleep(Duration::from_secs(60))).await, None);
    assert_eq!(start.elapsed(), Duration::from_secs(30), "closing does not cut requests off");
    fence.open(None);
    assert_eq!(fence.within_limit(async { 7 }).await, Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_request_makes_no_progress_after_the_limit() {
    let fence = WriteFence::closed();
    fence.open(Some(Instant::now() + Duration::from_secs(10)));
    let mut request = Box::pin(fence.within_limit(sleep(Duration::from_secs(1))));
    assert!(futures::poll!(&mut request).is_pending());
    // As a process that was stopped finds its request: both timers have ended.
    tokio::time::advance(Duration::from_secs(60)).await;
    assert_eq!(request.await, None);
}

#[tokio::test(start_paused = true)]
async fn it_is_drained_when_no_write_is_in_flight() {
    let fence = WriteFence::default();
    let permit = begin(&fence).await.unwrap();
    fence.close();
    assert!(begin(&fence).await.is_err());
    assert!(tokio::time::timeout(Duration::from_secs(1), fence.drained()).await.is_err());
    drop(permit);
    tokio::time::timeout(Duration::from_secs(1), fence.drained()).await.unwrap();
}
