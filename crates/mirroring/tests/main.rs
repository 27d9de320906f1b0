//! The tests of this crate, in one program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod common;
#[cfg(feature = "controller")]
mod controller;
mod laws;
mod orphans;
mod plan;
#[cfg(feature = "controller")]
#[path = "../../controller-runtime/tests/simulated/mod.rs"]
mod simulated;
mod vectors;
