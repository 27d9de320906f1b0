//! Reflectors against a scripted server, under a paused clock.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod lists;
mod outages;
mod script;
mod undecodable;
mod watches;
