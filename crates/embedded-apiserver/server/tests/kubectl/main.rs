//! kubectl against the server, as a newcomer uses it. Needs a kubectl: the one that `KUBECTL` names, or the one in
//! `PATH`, such as Debian's package `kubernetes-client` has it. The tests hold for every version from 1.20 on.

#![allow(clippy::unwrap_used)]

mod common;
mod everyday;
mod forms;
mod mistakes;
