//! The tests of this crate, in one program.

mod cluster;
#[cfg(feature = "server")]
mod simulation;
