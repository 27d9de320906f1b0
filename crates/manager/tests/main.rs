//! The tests of this crate, in one program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![cfg(all(feature = "endpoints", feature = "endpointslice", feature = "mirroring", feature = "selectors"))]

mod discovery;
mod dry_run;
mod failover;
mod foreign_server;
mod lifecycle;
mod other_controller;
mod retirement;
mod selectors;
mod serving;
#[cfg(feature = "ui")]
mod ui;
mod unreadable_namespaces;
