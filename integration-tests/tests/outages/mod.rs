//! Tests all controllers of a manager during and after an outage of the API server, under a paused
//! clock.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod all_refused;
mod bed;
mod flapping;
mod long;
mod many;
mod refused;
mod writes_fail;
