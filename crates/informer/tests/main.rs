//! The tests of this crate, in one program.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../../core-model/tests/arbitrary_objects.rs"]
mod arbitrary_objects;
mod cluster;
mod embedded;
mod encodings;
mod list_watch;
mod long_work;
mod namespaces;
mod turns;
mod unread_fields;
