//! The tests of this crate, in one program.

mod cases;
mod common;
#[cfg(feature = "controller")]
mod controller;
mod hints_laws;
mod incremental;
mod laws;
mod plans;
mod vectors;
