//! What an API server shows beside its objects: discovery documents, OpenAPI and tables. No I/O.
//!
//! Everything is read off the resource table of the rules crate, so a resource that is added there shows up here.

pub mod discovery;
pub mod openapi;
pub mod represent;
pub mod table;
mod version;

pub use version::version;
