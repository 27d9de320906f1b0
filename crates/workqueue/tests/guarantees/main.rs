//! What the queue, its limiters and its worker loop guarantee: a test for each guarantee, named after it.

mod delay;
mod limiters;
mod metrics;
mod model;
mod order;
mod scale;
mod shutdown;
mod workers;

use std::time::Duration;

use futures::FutureExt;
use kube_endpoint_workqueue::{ItemExponentialFailureRateLimiter, Key, WorkQueue};
use tokio::time::{Instant, advance};

/// A queue whose failed keys wait 1 s, 2 s, 4 s and so on up to 60 s, without a bucket.
fn queue<K: Key>() -> WorkQueue<K> {
    WorkQueue::new(
        "test",
        ItemExponentialFailureRateLimiter::new(Duration::from_secs(1), Duration::from_secs(60)),
    )
}

/// What a getter is given without waiting: `None` as well when there is nothing as when the queue is shut down.
fn take<K: Key>(queue: &WorkQueue<K>) -> Option<K> {
    queue.get().now_or_never().flatten()
}

/// Takes and finishes keys for as long as there are any.
fn take_all<K: Key>(queue: &WorkQueue<K>) -> Vec<K> {
    std::iter::from_fn(|| take(queue).inspect(|key| queue.done(key))).collect()
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Lets the paused clock run to `at` after `start`.
async fn advance_to(start: Instant, at: Duration) {
    advance((start + at).saturating_duration_since(Instant::now())).await;
}

/// Lets all other tasks run until they wait, without any time passing.
async fn settle() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}
