//! Deterministic simulation of whole clusters.
//!
//! A seed makes a [`History`]: changes of objects, faults of the network and the server, and
//! actions on processes and clocks. [`simulate`] plays it: the embedded server, two managers with
//! all controllers and a Lease, in one thread under a paused clock. The same history gives the same
//! run, line by line.
//!
//! - `history`: histories as plain data with a text, and how seeds make them.
//! - `cluster`: the server, the managers, and their connections with all faults.
//! - `watcher`: checks the rules for all times, from every change of the store and every request.
//! - `finish`: checks the rules for the end, when nothing changes any more.
//! - [`sweep`]: a fault at each request of a history, one after another.
//! - [`shrink`] makes a failing history shorter; [`run_seeds`] plays many on all cores.
//!
//! The rule for the end is *eventually stable reconciliation*: once inputs stop changing, the
//! outputs become equal to those of new controllers with the same inputs, and stay so, whatever
//! happened on the way.

mod checks;
mod cluster;
mod finish;
pub mod history;
mod objects;
mod parallel;
mod play;
mod random;
mod report;
mod runner;
mod shrink;
mod statistics;
pub mod sweep;
pub mod text;
mod watcher;

pub use history::{History, Profile};
pub use parallel::on_all_cores;
pub use play::{Outcome, simulate, simulate_with_transcript};
pub use report::report;
pub use runner::{Failure, Run, run_seeds};
pub use shrink::shrink;
pub use statistics::Statistics;
pub use watcher::{Led, Line, LineKind, Tested, Violation};
