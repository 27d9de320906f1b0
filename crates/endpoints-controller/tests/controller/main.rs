//! The controller against the embedded API server, with the real list and watch loops, in paused time.

mod deletion;
mod faults;
mod repair;
mod syncs;
mod world;
