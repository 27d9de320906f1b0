//! The controller against the embedded API server, with the real list and watch loops, in paused time.

#![expect(clippy::unwrap_used, reason = "a helper of tests that fails is a test that fails")]

mod deletion;
mod faults;
mod harness;
mod pauses;
mod repair;
mod syncs;
