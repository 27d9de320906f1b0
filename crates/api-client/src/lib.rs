//! The client that talks to the API server.
//!
//! It is a kube client whose lowest layers are replaced:
//!
//! - **Connections** use HTTP/2 where the server offers it, and many writes HTTP/1, which costs
//!   both sides less. A connection whose peer has silently gone is closed within 40 s on HTTP/2 and
//!   45 s on HTTP/1, as with client-go, or sooner ([`client_with_silence_limit`]).
//! - **Credentials** are read again while the client runs: CA bundle, client certificate and key,
//!   and bearer token when their files change (looked at once a minute); a credential plugin runs
//!   again when its credential is about to expire. After 401 and after a failed connection both
//!   happen at once. No request in progress is interrupted, and no restart is needed.
//! - **Requests** are sent once: [`ApiClient`] has no retry layer. They are counted and timed
//!   ([`CountRequests`]), and each warning of the server is logged once.
//! - **Objects** are sent and asked for in protobuf, unless [`ApiClient::with_content_type`] says
//!   JSON or the server refuses it.
//!
//! Everything else (kubeconfigs, TLS, in-cluster configuration, proxies, impersonation) is kube's,
//! rustls's and hyper's.

mod answered;
mod at_server;
mod certificates;
mod client;
mod connector;
mod content_type;
mod error;
mod http1;
mod kubeconfig;
mod metrics;
mod plugin;
mod read_ahead;
mod sessions;
mod sources;
mod spread;
mod timeouts;
mod transport;
mod warnings;

#[cfg(test)]
mod tests;

/// Why versions of an API server go back, for errors and lines of the log.
pub const STORAGE_WENT_BACK: &str =
    "its storage was set back, or another API server with another storage answers";

pub use answered::{Answered, is_status_not_found, redirected_to};
pub use certificates::{
    CertificateInUse, CertificateLifetime, CertificatePlace, CertificateUse, unusable_version,
};
pub use client::{AnswerBody, ApiClient, client_from_config, client_with_silence_limit, without_credentials};
pub use content_type::ContentType;
pub use error::{ClientError, why_request_failed};
pub use kubeconfig::{check_kubeconfig_encoding, read_kubeconfig, watch_files};
pub use metrics::{CountRequests, Counted, CountedBody, buckets};
pub use plugin::PluginError;
