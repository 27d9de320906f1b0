//! The tests of this crate, in one program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[cfg(feature = "k8s-openapi")]
mod arbitrary_objects;
#[cfg(feature = "k8s-openapi")]
mod k8s_objects;
mod odd_input;
