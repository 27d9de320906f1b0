//! The server over real sockets, with the embedded API server behind it.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod api_server_away;
mod authentication;
mod browser;
mod caches;
mod certificates;
mod common;
mod front_proxy;
mod hostile;
mod http2;
mod mounted;
mod pages;
mod paths;
mod secrets;
