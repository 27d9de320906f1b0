//! The parts that the controllers of this project share, for more controllers that write
//! EndpointSlices or Endpoints: queue and workers, waiting for caches, state for each key,
//! staleness, Retry-After, retries, resync, writes of other clients, error reporting, shutdown.
//!
//! ```
//! use std::time::Duration;
//! use kube_endpoint_controller_runtime::{Cause, Config, ForeignWrite, Outcome, Reconciler, Runtime, SyncError};
//! use kube_endpoint_core_model::{EndpointSlice, ObjectKey, Service, Writes};
//! use kube_endpoint_informer::{Change, Kind, Kinds};
//! use kube_endpoint_workqueue::default_controller_rate_limiter as limiter;
//!
//! /// Deletes the slices of a controller that no longer runs.
//! struct Cleanup;
//!
//! impl Reconciler for Cleanup {
//!     type Output = EndpointSlice;
//!     type State = ();
//!     type Options = ();
//!     fn new((): ()) -> Self { Self }
//!     fn kinds() -> Kinds { [Kind::Services, Kind::EndpointSlices].into() }
//!     fn config(&self) -> Config { Config::new("cleanup", limiter(), 2, Default::default()) }
//!     fn manages(&self, slice: &EndpointSlice) -> bool { slice.is_managed_by("old.example.com") }
//!     fn on_service(&self, runtime: &Runtime<Self>, change: &Change<Service>) {
//!         let Some(service) = change.latest() else { return };
//!         runtime.add(service.key.clone(), Cause::Service.since(change.arrived));
//!     }
//!     fn foreign_write_delay(&self, _: &Runtime<Self>, _: ForeignWrite) -> Option<Duration> { None }
//!     async fn sync(&self, runtime: &Runtime<Self>, key: &ObjectKey) -> Result<Outcome, SyncError> {
//!         // If the cache does not show the last writes yet, the runtime repeats the sync.
//!         let slices = match runtime.read_outputs(key) { Ok(slices) => slices, Err(outcome) => return Ok(outcome) };
//!         let delete = slices.into_iter().filter(|slice| self.manages(slice)).collect();
//!         runtime.carry_out(key, None, [Writes { delete, ..Writes::default() }], |_| ()).await?;
//!         Ok(Outcome::Done)
//!     }
//! }
//! ```
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
//! A complete controller, and how to run it:
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
mod key_gauge;
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
pub use key_gauge::KeyGauge;
pub use key_state::StateCounts;
pub use latency::buckets;
pub use log_lines::Line;
pub use observe::SyncDetails;
pub use options::RuntimeOptions;
pub use other_controller::OtherController;
pub use outages::Outages;
pub use output::Output;
pub use recent_writes::RecentForeignWrite;
pub use reconciler::{Config, ForeignWrite, Outcome, Reconciler, SyncError, first_ten};
pub use runtime::Runtime;
pub use spacing::Spacing;
pub use sync::{Completion, Progress};
