//! Electors on the embedded API server, under a paused clock.

#![allow(clippy::unwrap_used, reason = "the helpers of these tests are no test functions")]

mod bed;
mod edits;
mod faults;
mod observability;
mod succession;
