//! The tests of this crate that need nothing but Rust, in one program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod beside;
mod bugs;
mod leading;
mod named;
mod retired;
mod seeds;
mod sweep;
mod taken_back;
mod transcripts;
mod worlds;
