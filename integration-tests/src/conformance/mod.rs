//! Plays the recorded scenarios of `integration-tests/conformance` and compares what the
//! controllers write.
//!
//! A [`Scenario`] is a list of steps: requests to make, and the outputs that Kubernetes' own
//! controllers wrote afterwards, in a [normal form](normal) without the values that may differ
//! between two correct runs. [`play()`] plays a scenario on a [`TestBed`]: a server in this process
//! and the controllers that run on it. [`on_cluster`] plays scenarios on a cluster. The README
//! beside the recordings describes the format.

mod controllers;
mod diff;
mod error;
pub mod normal;
pub mod on_cluster;
mod ops;
mod parts;
mod play;
pub mod report;
mod scenario;
mod settle;
mod snapshot;
mod test_bed;

pub use controllers::{Controllers, start_controllers, start_controllers_with, upstream_settings};
pub use diff::unified_diff;
pub use error::ConformanceError;
pub use ops::{Api, Kind, Op};
pub use parts::{Part, Parts, drop_hints};
pub use play::{Failure, play, play_and_check};
pub use scenario::{Compare, Repeated, Scenario, Step, recordings, recordings_folder};
pub use settle::{Pace, settle};
pub use snapshot::Snapshot;
pub use test_bed::{CONTROLLERS_USER, TestBed};
