//! What the tests of the whole system share: the conformance recordings, the recorded cluster,
//! managers that run in this process, processes of the real binary, and tests that need other
//! programs.

pub mod conformance;
pub mod differential;
pub mod processes;
pub mod programs;
pub mod recorded_cluster;
pub mod running_manager;

/// The examples of the guide, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../docs/snapshot-testing.md")]
struct SnapshotTestingGuide;
