//! The protocol in protobuf, with a reader and a writer of the wire format that share nothing with the server's.

#![allow(clippy::unwrap_used)]

mod common;
mod negotiation;
mod read;
mod write;
