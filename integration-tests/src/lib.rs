//! Helpers of the tests of the whole system: the conformance recordings, the recorded cluster,
//! managers in this process, processes of the real binary, and tests that need other programs.

pub mod conformance;
pub mod differential;
pub mod leader_examples;
pub mod markdown;
pub mod processes;
pub mod programs;
pub mod recorded_cluster;
pub mod running_manager;

/// Compiles and runs the examples of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../docs/snapshot-testing.md")]
struct SnapshotTestingGuide;
