//! The queue, a thousand keys at a time.

use std::time::Duration;

use kube_endpoint_benches::{keys, take_all};
use kube_endpoint_workqueue::{WorkQueue, endpoint_slice_rate_limiter};

use crate::callgrind::Counter;

/// Adds keys, adds them again, takes them, and delays them.
pub(crate) fn queue(counter: &Counter) {
    let keys = keys(1_000);
    let queue = WorkQueue::new("bench", endpoint_slice_rate_limiter());
    let add = || keys.iter().for_each(|key| queue.add(key.clone()));
    counter.count("queue: add 1,000 keys", add);
    counter.count("queue: add 1,000 queued keys", add);
    counter.count("queue: get 1,000 keys", || take_all(&queue));
    assert!(queue.is_empty());
    let delay = Duration::from_secs(3600);
    counter
        .count("queue: delay 1,000 keys", || keys.iter().for_each(|key| queue.add_after(key.clone(), delay)));
    assert_eq!(queue.waiting_len(), keys.len());
}
