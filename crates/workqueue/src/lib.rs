//! A deduplicating, delaying, rate-limited work queue with client-go's guarantees, and a worker
//! loop, for Kubernetes controllers and anything else that syncs keys.
//!
//! ```
//! use std::convert::Infallible;
//!
//! use kube_endpoint_workqueue::{RetryPolicy, WorkQueue, default_controller_rate_limiter, run_workers};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() {
//!     let queue = WorkQueue::new("services", default_controller_rate_limiter());
//!     queue.add("default/web");
//!     queue.add("default/web");
//!     queue.shut_down();
//!     // Five workers end when the queue is empty. Each key is synced once.
//!     run_workers(queue, RetryPolicy::default(), 5, |key| async move {
//!         assert_eq!(key, "default/web");
//!         Ok::<(), Infallible>(())
//!     })
//!     .await;
//! }
//! ```
//!
//! A controller maps every event to the key of an object and adds the key to a queue. Workers take
//! keys from the queue and sync the objects. The guarantees are those of client-go's
//! `util/workqueue`:
//!
//! - a key that is added several times before it is processed is processed once;
//! - a key is never processed by two workers at the same time;
//! - a key that is added while it is being processed is queued again, once, after
//!   [`WorkQueue::done`];
//! - keys are returned in the order in which they became ready, but urgent keys and others in turn;
//! - a key that is added with several delays becomes ready at the earliest of the times.
//!
//! Start with [`WorkQueue`], then [`run_workers`]. A [`RateLimiter`] decides how long a failed key
//! waits. All time is tokio's, so tests can pause it, and keys keep the order of the calls, so runs
//! are deterministic. A queue has no background task: a call of [`WorkQueue::get`] also waits for
//! the next delayed key.

mod causes;
mod limiter;
mod metrics;
mod queue;
mod reason;
mod span;
mod state;
mod token_bucket;
mod waiting;
mod worker;

pub use causes::Causes;
pub use limiter::{
    ItemExponentialFailureRateLimiter, MaxOfRateLimiter, RateLimiter, controller_rate_limiter,
    default_controller_rate_limiter, endpoint_slice_mirroring_rate_limiter, endpoint_slice_rate_limiter,
};
pub use metrics::{HISTOGRAM_BUCKETS, HISTOGRAM_NAMES, names};
pub use queue::{Key, WorkQueue};
pub use reason::Reason;
pub use token_bucket::{InvalidRate, TokenBucket, TokioClock, TokioInstant};
pub use worker::{
    AfterRetries, Attempt, Disposition, RetryPolicy, SyncOutcome, UPDATE_PERIOD, run_workers,
    run_workers_observed,
};
