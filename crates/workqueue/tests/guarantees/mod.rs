//! The guarantees of the queue, its limiters and its worker loop. `model` compares each call with a
//! model. The other tests are about what a model does not see: waking, urgency, metrics, workers.

mod causes;
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

/// Returns a queue that delays failed keys by 1 s, 2 s, 4 s and so on up to 60 s, without a bucket.
fn queue<K: Key>() -> WorkQueue<K> {
    WorkQueue::new(
        "test",
        ItemExponentialFailureRateLimiter::new(Duration::from_secs(1), Duration::from_secs(60)),
    )
}

/// Returns the key that a getter receives without waiting; `None` if there is none or the queue is
/// shut down.
fn take<K: Key>(queue: &WorkQueue<K>) -> Option<K> {
    queue.get().now_or_never().flatten()
}

/// Takes and finishes keys until the queue is empty.
fn take_all<K: Key>(queue: &WorkQueue<K>) -> Vec<K> {
    std::iter::from_fn(|| take(queue).inspect(|key| queue.done(key))).collect()
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

/// Runs all other tasks until they wait. No time passes.
async fn settle() {
    for _ in 0..32 {
        tokio::task::yield_now().await;
    }
}
