//! What a kube-apiserver decides about an object: defaults, validation, immutability, patches, selectors,
//! Status errors, tables and discovery. Everything here is a function of its arguments: no I/O, no clock.

pub mod patch;
mod quantity;
pub mod resource;
mod schema;
pub mod selector;
pub mod status;
pub mod strategy;
mod times;
mod validation;
mod value;
