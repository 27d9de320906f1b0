//! Tells who still reads v1 Endpoints, so that somebody can decide to leave them behind.
//!
//! The caller reads [`Facts`], each by itself and with the permissions that it has. Each kind of
//! evidence is a function of what was read, and [`Report::of`] puts the verdicts together. A
//! verdict never promises more than was seen: what could not be seen is [`Unseen`], and as long as
//! it could hide a reader, a namespace without one is [`Verdict::Unknown`].

mod audit;
pub mod convert;
mod evidence;
mod metrics;
mod pods;
mod programs;
mod prometheus;
mod rbac;
mod report;
mod server;
mod written;

pub use audit::{AuditLog, AuditSummary};
pub(crate) use evidence::seconds;
pub use evidence::{Evidence, EvidenceKind, Requests, Source, Unseen};
pub use metrics::Metrics;
pub use pods::Pods;
pub use prometheus::{Configuration, ConfigurationRead, PrometheusObjects};
pub use rbac::Rbac;
pub use report::{Facts, NamespaceVerdict, Report, Verdict};
pub use server::{Called, addresses_of_api_servers, api_servers, called_services};
pub use written::EndpointsObjects;
