//! Tests of the fence without a server.

use std::time::Duration;

use kube_endpoint_core_model::ResourceVersion;
use tokio::time::{Instant, sleep};

use super::{LastWrites, WriteFence, WriteInFlight};
use crate::error::WriteError;

const SLICES: &str = "endpointslices";

async fn begin(fence: &WriteFence) -> Result<WriteInFlight, WriteError> {
    fence.begin(Some(SLICES), async {}).await.map(|(write, ())| write)
}

fn lost() -> WriteError {
    WriteError::Unknown("the connection broke".into())
}

fn refused() -> WriteError {
    WriteError::Conflict("changed".into())
}

fn known(version: u64) -> LastWrites {
    LastWrites::from([(SLICES, ResourceVersion(version))])
}

#[tokio::test(start_paused = true)]
async fn writes_are_begun_only_while_it_is_open_and_before_its_limit() {
    let fence = WriteFence::closed();
    assert_eq!(begin(&fence).await.err(), Some(WriteError::Fenced));
    fence.open(Some(Instant::now() + Duration::from_secs(10)));
    begin(&fence).await.unwrap().wrote(ResourceVersion(1));
    sleep(Duration::from_millis(9_999)).await;
    begin(&fence).await.unwrap().wrote(ResourceVersion(2));
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
        tokio::spawn(async move { fence.begin(Some(SLICES), sleep(Duration::from_secs(500))).await.err() })
    };
    sleep(Duration::from_secs(1)).await;
    fence.close();
    assert_eq!(waiting.await.unwrap(), Some(WriteError::Fenced));
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    fence.open(Some(Instant::now() + Duration::from_secs(2)));
    let late = fence.begin(Some(SLICES), sleep(Duration::from_secs(500))).await;
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
    let write = begin(&fence).await.unwrap();
    fence.close();
    assert!(tokio::time::timeout(Duration::from_secs(1), fence.drained()).await.is_err());
    drop(write);
    tokio::time::timeout(Duration::from_secs(1), fence.drained()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_newest_version_of_concurrent_writes_counts() {
    let fence = WriteFence::default();
    let (first, second) = (begin(&fence).await.unwrap(), begin(&fence).await.unwrap());
    second.wrote(ResourceVersion(12));
    assert_eq!(fence.last_writes(), LastWrites::new(), "one is in flight");
    first.wrote(ResourceVersion(11));
    assert_eq!(fence.last_writes(), known(12));
    begin(&fence).await.unwrap().failed(&refused());
    assert_eq!(fence.last_writes(), known(12), "a refused write changes nothing");
    begin(&fence).await.unwrap().wrote(ResourceVersion(5));
    assert_eq!(fence.last_writes(), known(5), "a later write has a lower version: the server was restored");
}

#[tokio::test(start_paused = true)]
async fn a_delete_hides_the_version_until_a_later_write_is_answered() {
    let fence = WriteFence::default();
    begin(&fence).await.unwrap().wrote(ResourceVersion(3));
    let before = begin(&fence).await.unwrap();
    begin(&fence).await.unwrap().wrote_without_version();
    before.wrote(ResourceVersion(9));
    assert_eq!(fence.last_writes(), LastWrites::new(), "that write may be older than the delete");
    begin(&fence).await.unwrap().wrote(ResourceVersion(10));
    assert_eq!(fence.last_writes(), known(10));
}

#[tokio::test(start_paused = true)]
async fn a_write_without_an_answer_hides_the_version_while_it_may_still_happen() {
    let fence = WriteFence::default();
    begin(&fence).await.unwrap().failed(&lost());
    begin(&fence).await.unwrap().wrote_without_version();
    for version in [3, 4] {
        sleep(Duration::from_secs(44)).await;
        begin(&fence).await.unwrap().wrote(ResourceVersion(version));
        assert_eq!(fence.last_writes(), LastWrites::new(), "{version}");
    }
    sleep(Duration::from_secs(2)).await;
    assert_eq!(fence.last_writes(), LastWrites::new(), "no write has begun since");
    begin(&fence).await.unwrap().wrote(ResourceVersion(5));
    assert_eq!(fence.last_writes(), known(5));
    drop(begin(&fence).await.unwrap());
    assert_eq!(fence.last_writes(), LastWrites::new(), "the task was aborted");
}

#[tokio::test(start_paused = true)]
async fn what_another_process_wrote_is_handed_on() {
    let fence = WriteFence::closed();
    fence.continue_from(SLICES, Some(ResourceVersion(8)));
    assert_eq!(fence.last_writes(), known(8));
    fence.continue_from(SLICES, None);
    assert_eq!(fence.last_writes(), LastWrites::new());
    fence.open(None);
    begin(&fence).await.unwrap().wrote(ResourceVersion(20));
    assert_eq!(fence.last_writes(), known(20), "newer than anything before");
}
