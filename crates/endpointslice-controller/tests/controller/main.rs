//! The controller against the embedded API server, with the real list and watch loops, in paused time.

#![expect(clippy::unwrap_used, reason = "a helper of tests that fails is a test that fails")]

mod faults;
mod gates;
mod harness;
mod hygiene;
mod lifecycle;
mod objects;
mod pauses;
mod refused_creates;
mod repair;
mod shutdown;
mod staleness;
mod syncs;
mod telemetry;
mod topology;
