//! The tests of this crate, in one program: the controller against the embedded API server, with
//! the real list and watch loops, under a paused clock.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod caretaker;
mod distributions;
mod flows;
mod harness;
mod leader;
mod many;
mod rehearsal;
#[path = "../../controller-runtime/tests/simulated/mod.rs"]
mod simulated;
