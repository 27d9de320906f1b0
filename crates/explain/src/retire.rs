//! Helps to leave v1 Endpoints behind.

pub mod convert;
