//! The tests of this crate, in one program.

mod common;
#[cfg(feature = "controller")]
mod controller;
mod laws;
mod orphans;
mod plan;
mod vectors;
