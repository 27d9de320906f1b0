//! Flows through the embedded API server: the conformance recordings, the shop fixture, real processes.

pub mod conformance;
pub mod shop;
