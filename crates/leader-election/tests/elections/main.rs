//! Electors on the embedded API server, under a paused clock.

mod bed;
mod edits;
mod faults;
mod observability;
mod succession;
