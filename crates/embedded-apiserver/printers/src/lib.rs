//! The documents of an API server that are not objects: discovery, OpenAPI and tables. No I/O.
//!
//! This crate derives everything from the resource table of the rules crate, so it includes a
//! resource that is added there.

pub mod discovery;
pub mod openapi;
pub mod represent;
pub mod table;
mod version;

pub use version::{GIT_VERSION, version};
