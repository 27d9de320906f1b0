//! Tests each feature gate, on and off, from the manager's settings to the outputs; and the switch
//! between the default and the upstream profile.

#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod endpoints;
mod endpointslice;
mod fights;
mod mirroring;
pub(crate) mod objects;
mod profile_switch;
mod restored;
pub(crate) mod test_cluster;
