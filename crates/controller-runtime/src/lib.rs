//! The parts that all controllers share: the queue and its workers, waiting for the caches, state
//! for each key, staleness, Retry-After, retries, resync, changes by other clients, error reporting
//! and shutdown.
//!
//! A controller implements [`Reconciler`]: which changes start a sync, and what one sync does.
//! [`Controller`] runs it. During a sync the reconciler uses the [`Runtime`]: it reads the objects
//! that it writes with [`Runtime::read_outputs`], computes a plan, and passes the plan's writes to
//! [`Runtime::carry_out`].
//!
//! One map holds the state of all keys, so forgetting a key is one removal. The
//! [`WriteTracker`](kube_endpoint_tracker::WriteTracker) holds own writes that the cache does not
//! show yet: a watch event finds them by the written object, which may no longer name its key. The
//! tracker drops a write when the cache shows it. [`Runtime::forget`] drops a key's state and its
//! writes.
//!
//! # Example
//!
//! ```no_run
#![doc = include_str!("../docs/address_controller.rs")]
//! ```

mod activity;
mod all_keys;
mod cause;
mod conflicts;
mod controller;
mod failing;
mod failure_log;
mod foreign;
mod handler;
mod holds;
mod kept_plan;
mod key_state;
mod latency;
mod log_lines;
mod metrics;
mod observe;
mod options;
mod other_controller;
mod outages;
mod output;
mod overdue;
mod recent_writes;
mod reconciler;
mod resync;
mod runtime;
mod selection;
mod spacing;
mod sync;

pub use activity::{ActivityCounts, Latencies};
pub use cause::Cause;
pub use controller::{Controller, ControllerContext};
pub use failing::{FailingCounts, SlowRetry};
pub use holds::{HeldKey, Hold};
pub use kept_plan::{KeptPlan, Planned};
pub use key_state::StateCounts;
pub use latency::buckets;
pub use log_lines::Line;
pub use options::RuntimeOptions;
pub use other_controller::OtherController;
pub use outages::Outages;
pub use output::Output;
pub use recent_writes::RecentForeignWrite;
pub use reconciler::{Config, ForeignWrite, Outcome, Reconciler, SyncError, first_ten};
pub use runtime::Runtime;
pub use spacing::Spacing;
pub use sync::{Completion, Progress};
