//! kubectl against the server. The tests need a kubectl of version 1.20 or later: the one in `KUBECTL` or in `PATH`,
//! for example from Debian's package `kubernetes-client`.

#![allow(clippy::unwrap_used)]

mod common;
mod everyday;
mod forms;
mod mistakes;
