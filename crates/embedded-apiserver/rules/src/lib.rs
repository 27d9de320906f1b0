//! The decisions of a kube-apiserver about an object, for tools and test servers: defaults,
//! validation, immutability, patches, selectors and Status errors. Every function depends on its
//! arguments only: no I/O, no clock.
//!
//! ```
//! use kube_endpoint_apiserver_rules::{manifest, resource};
//!
//! let file = b"apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: [{port: 80}]}";
//! let mut service = manifest::read(file)?.remove(0).value;
//! let stored = manifest::create(&resource::SERVICES, service.clone()).expect("the Service is valid");
//! assert_eq!(stored["metadata"]["namespace"], "default");
//! assert_eq!(stored["spec"]["ports"][0]["protocol"], "TCP");
//!
//! service["spec"]["ports"][0]["port"] = 70_000.into();
//! let status = manifest::create(&resource::SERVICES, service).unwrap_err();
//! assert_eq!(status.code, 422);
//! assert!(status.message.contains("must be between 1 and 65535"));
//! # Ok::<(), manifest::ManifestError>(())
//! ```
//!
//! [`manifest`] reads objects from text, and creates them as a server does. [`resource`] lists the
//! kinds with their paths and verbs, [`strategy`] has the steps of a create and an update,
//! [`patch`] the three kinds of patches, and [`selector`] label and field selectors. Errors are the
//! [`status`] that a client of a kube-apiserver gets.

pub mod kubelet;
pub mod manifest;
pub mod patch;
pub mod resource;
mod schema;
pub mod selector;
pub mod status;
pub mod strategy;
mod times;
mod validation;
mod value;

pub use validation::{BadValue, Errors, Path};
pub use value::json_type;
