//! Tests the log of a key that is given up.

use std::time::Duration;

use kube_endpoint_testing::Log;
use kube_endpoint_workqueue::{ItemExponentialFailureRateLimiter, RetryPolicy, WorkQueue, run_workers};
use tracing::Level;

#[tokio::test(start_paused = true)]
async fn a_dropped_key_leaves_an_error_in_the_log() {
    let log = Log::capture(Level::INFO);
    let limiter = ItemExponentialFailureRateLimiter::new(Duration::from_secs(1), Duration::from_secs(60));
    let queue = WorkQueue::new("endpoint_slice", limiter);
    queue.add("default/web");
    let policy = RetryPolicy { max_retries: 2, ..RetryPolicy::default() };
    let workers = tokio::spawn(run_workers(queue.clone(), policy, 1, |_| async {
        Err::<(), _>("the server is currently unable to handle the request")
    }));
    tokio::time::sleep(Duration::from_secs(60)).await;
    queue.shut_down();
    workers.await.unwrap();
    insta::assert_snapshot!(log.text());
}
