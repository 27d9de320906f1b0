//! The answers that people ask for, as data: an explanation, a lint, a diff, the report of doctor.

pub(crate) mod backends;
pub(crate) mod brief;
pub mod diff;
pub mod doctor;
pub(crate) mod explain;
pub mod explanation;
pub mod figures;
pub(crate) mod from_pod;
pub(crate) mod history;
pub(crate) mod links;
pub mod lint;
pub(crate) mod near_services;
pub mod render;
pub mod retire;
