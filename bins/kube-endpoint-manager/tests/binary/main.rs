//! The binary, started as a person starts it.

mod bad_input;
mod common;
mod process;
