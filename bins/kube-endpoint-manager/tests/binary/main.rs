//! Tests that start the binary as a process.
#![cfg(all(
    feature = "endpoints",
    feature = "endpointslice",
    feature = "mirroring",
    feature = "selectors",
    feature = "embedded"
))]
#![allow(clippy::unwrap_used)]

mod command_line;
mod common;
mod embedded_kubeconfig;
mod foreign_server;
#[cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]
mod heap;
mod identity;
mod invalid_input;
#[cfg(target_os = "linux")]
mod limits;
mod process;
mod reference;
mod serving;
mod unread_output;
