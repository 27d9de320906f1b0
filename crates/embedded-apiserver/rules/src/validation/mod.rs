//! Validation of values, after `apimachinery/pkg/util/validation` and `pkg/apis/*/validation`.

pub(crate) mod errors;
pub(crate) mod ip;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod pod;
pub(crate) mod service;
pub(crate) mod service_ips;

pub(crate) use errors::Raw;
pub use errors::{BadValue, Errors, Path};
