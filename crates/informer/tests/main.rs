//! The tests of this crate, in one program.

mod cluster;
mod embedded;
mod encodings;
mod list_watch;
mod long_work;
mod namespaces;
mod turns;
