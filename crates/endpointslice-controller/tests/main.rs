//! The tests of this crate, in one program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod controller;
#[path = "../../controller-runtime/tests/simulated/mod.rs"]
mod simulated;
