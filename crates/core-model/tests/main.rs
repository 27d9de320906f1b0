//! The tests of this crate, in one program.

#[cfg(feature = "k8s-openapi")]
mod k8s_objects;
mod odd_input;
