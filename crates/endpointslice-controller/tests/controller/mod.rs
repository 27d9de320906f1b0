//! The controller against the embedded API server, with the real list and watch loops, under a
//! paused clock.

mod changed_pods;
mod faults;
mod fights;
mod forgetting;
mod gates;
mod harness;
mod headless_label;
mod lifecycle;
mod objects;
mod pauses;
mod refused_creates;
mod repair;
mod shutdown;
mod spacing;
mod staleness;
mod syncs;
mod telemetry;
mod topology;
