//! The binary, started as a person starts it.
#![cfg(all(feature = "endpoints", feature = "endpointslice", feature = "mirroring", feature = "embedded"))]
#![allow(clippy::unwrap_used)]

mod bad_input;
mod common;
mod process;
