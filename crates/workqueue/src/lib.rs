//! A deduplicating, delaying, rate-limited work queue with client-go's guarantees, and a worker loop.
//!
//! A controller turns every event into the key of an object and puts the key here; workers take keys out and
//! bring the object up to date. The queue guarantees what client-go's `util/workqueue` guarantees:
//!
//! - a key that is added several times before it is worked is worked once;
//! - a key is never worked by two workers at once;
//! - a key that is added while it is being worked comes again, once, after [`WorkQueue::done`];
//! - keys come in the order in which they became ready;
//! - a key waiting in delay keeps the earliest of the times that were asked for.
//!
//! Start with [`WorkQueue`], then [`run_workers`]; [`MaxOfRateLimiter`] and its neighbours say how long a failed key waits.
//! All time is tokio's, so that everything here runs under a paused clock; the order of everything is the order of
//! the calls, so that a run can be repeated. A queue needs no task of its own: whoever waits in
//! [`WorkQueue::get`] also waits for the next delayed key.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! use kube_endpoint_workqueue::{RetryPolicy, WorkQueue, endpoint_slice_rate_limiter, run_workers};
//!
//! let queue = WorkQueue::new("endpoint_slice", endpoint_slice_rate_limiter());
//! queue.add("default/web");
//! queue.shut_down();
//! run_workers(queue, RetryPolicy::default(), 5, |key| async move {
//!     assert_eq!(key, "default/web");
//!     Ok::<(), std::convert::Infallible>(())
//! })
//! .await;
//! # }
//! ```

mod limiter;
mod metrics;
mod queue;
mod span;
mod state;
mod token_bucket;
mod waiting;
mod worker;

pub use limiter::{
    ItemExponentialFailureRateLimiter, MaxOfRateLimiter, RateLimiter, controller_rate_limiter,
    default_controller_rate_limiter, endpoint_slice_mirroring_rate_limiter, endpoint_slice_rate_limiter,
};
pub use metrics::{HISTOGRAM_BUCKETS, HISTOGRAM_NAMES, names};
pub use queue::{Key, WorkQueue};
pub use token_bucket::{InvalidRate, TokenBucket, TokioClock, TokioInstant};
pub use worker::{Attempt, Disposition, RetryPolicy, UPDATE_PERIOD, run_workers, run_workers_observed};
