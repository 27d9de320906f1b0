//! Plays the recorded scenarios of `integration-tests/conformance` and compares what the controllers wrote.
//!
//! A [`Scenario`] is a list of steps: requests to make, and the outputs that Kubernetes' own controllers arrived at
//! afterwards, in a [normal form](normal) that leaves out whatever may differ between two correct runs. A [`World`]
//! is a server with controllers at which a scenario is [played](play()); [`missing`] holds what is not built yet.
//! The format is described in the README beside the recordings.

mod controllers;
mod diff;
mod error;
pub mod missing;
pub mod normal;
mod ops;
mod parts;
mod play;
mod scenario;
mod settle;
mod snapshot;
mod world;

pub use controllers::{Controllers, start_controllers, start_controllers_with, upstream_settings};
pub use diff::unified_diff;
pub use error::ConformanceError;
pub use ops::{Api, Kind, Op};
pub use parts::{Part, Parts, drop_hints};
pub use play::{Failure, play};
pub use scenario::{Compare, Repeated, Scenario, Step, recordings, recordings_folder};
pub use settle::{Pace, settle};
pub use snapshot::Snapshot;
pub use world::World;
