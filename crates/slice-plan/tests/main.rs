//! The tests of this crate, in one program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod attached;
mod cases;
mod common;
mod hints_laws;
mod incremental;
mod laws;
mod plans;
mod readiness;
mod vectors;
