//! The tests of this crate, in one program.

mod consumers;
mod explanations;
mod faults;
mod laws;
mod render;
mod shop;
mod traffic;
