//! The decisions of a kube-apiserver about an object: defaults, validation, immutability, patches,
//! selectors and Status errors. [`manifest`] reads objects from text. Every function depends on its
//! arguments only: no I/O, no clock.

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
