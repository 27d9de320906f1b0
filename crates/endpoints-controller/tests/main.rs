//! The tests of this crate, in one program.

mod common;
#[cfg(feature = "controller")]
mod controller;
mod incremental;
mod laws;
mod plan;
mod vectors;
