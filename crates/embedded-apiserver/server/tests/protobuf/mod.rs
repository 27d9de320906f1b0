//! Tests the protocol in protobuf. They read and write the wire format with code of their own.

mod common;
mod negotiation;
mod read;
mod write;
