//! The binary, started as a person starts it.
#![allow(clippy::unwrap_used)]

mod bad_input;
mod common;
mod process;
