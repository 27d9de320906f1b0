//! The codec against answers of a real server, and against damaged input.

mod damaged;
mod recorded;
