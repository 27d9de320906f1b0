//! The documents of a Kubernetes API server that are not objects, for servers that kubectl talks
//! to: discovery, OpenAPI and tables. No I/O.
//!
//! ```
//! use kube_endpoint_apiserver_printers::{represent::MetaVersion, table};
//! use kube_endpoint_apiserver_rules::resource;
//! use serde_json::json;
//!
//! let pod = json!({
//!     "metadata": {"name": "web-1", "creationTimestamp": "2026-01-01T00:00:00Z"},
//!     "spec": {"containers": [{"name": "web"}]}, "status": {"phase": "Running"},
//! });
//! let options = table::Options {
//!     version: MetaVersion::V1,
//!     include: table::IncludeObject::None,
//!     headers: true,
//!     now: "2026-01-04T00:00:00Z".parse()?,
//! };
//! let table = table::of(&resource::PODS, [&pod], &options, json!({"resourceVersion": "7"}));
//! assert_eq!(table["columnDefinitions"][4]["name"], "Age");
//! assert_eq!(table["rows"][0]["cells"][4], "3d");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate derives everything from the resource table of the rules crate, so it includes a
//! resource that is added there.

pub mod discovery;
pub mod openapi;
pub mod represent;
pub mod table;
mod version;

pub use version::{MINOR_VERSION, git_version, version};
