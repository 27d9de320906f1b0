//! The tests of this crate that need nothing but Rust, in one program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod bugs;
mod named;
mod seeds;
mod sweep;
mod taken_back;
mod transcripts;
