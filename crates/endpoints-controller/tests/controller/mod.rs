//! The controller against the embedded API server, with the real list and watch loops, under a
//! paused clock.

mod deletion;
mod faults;
mod harness;
mod pauses;
mod repair;
mod retire_all;
mod retired;
mod spacing;
mod syncs;
