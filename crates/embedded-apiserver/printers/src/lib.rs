//! The documents of an API server that are not objects: discovery, OpenAPI and tables. No I/O.
//!
//! Everything is derived from the resource table of the rules crate, so a resource that is added
//! there is included.

pub mod discovery;
pub mod openapi;
pub mod represent;
pub mod table;
mod version;

pub use version::version;
