//! The tests of this crate, in one program.

mod foreign_controller;
mod protobuf;
mod protocol;
