//! The tests of this crate, in one program.

mod drop_log;
mod guarantees;
