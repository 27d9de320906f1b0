//! The controller against the embedded API server, with the real list and watch loops, under a
//! paused clock.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod copied_label;
mod faults;
mod follows;
mod harness;
mod headless_label;
mod kept_orphans;
mod orphans;
mod repair;
mod skipped_addresses;
mod telemetry;
