//! Tells who still reads v1 Endpoints, by what API servers themselves say about it: audit logs and
//! metrics. It guesses nothing from images, permissions or configurations.
//!
//! The caller reads [`Facts`], each by itself and with the permissions that it has. Each kind of
//! evidence is a function of what was read, and [`Report::of`] puts the verdicts together. A
//! verdict never promises more than was seen: what could not be seen is [`Unseen`], and as long as
//! it could hide a reader, a namespace without one is [`Verdict::Unknown`].

mod audit;
mod clients;
mod evidence;
mod metrics;
mod report;
mod server;

pub use audit::{AuditLog, AuditSummary};
pub(crate) use evidence::seconds;
pub use evidence::{Evidence, EvidenceKind, Requests, Source, Unseen};
pub use metrics::Metrics;
pub use report::{Facts, NamespaceVerdict, Report, Verdict};
pub use server::api_servers;
