//! A client of the Kubernetes API server for controllers, which run for months and decide by
//! themselves which requests to repeat.
//!
//! ```
//! use kube::{Config, client::Body};
//! use kube_endpoint_api_client::client_from_config;
//! use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let server = EmbeddedApiServer::builder().build()?;
//!     let listener = server.listen("127.0.0.1:0".parse()?).await?;
//!     // In a cluster, `Config::infer` finds the configuration.
//!     let config = Config::new(format!("http://{}", listener.address()).parse()?);
//!
//!     let client = client_from_config(config).await?;
//!     let request = http::Request::get("/api/v1/namespaces/default/services/web").body(Body::empty())?;
//!     assert_eq!(client.send(request).await?.status(), 404);
//!     Ok(())
//! }
//! ```
//!
//! It is a kube client with other lowest layers:
//!
//! - **Connections** use HTTP/2 where the server offers it. The client closes a connection whose
//!   peer has silently gone within 40 s on HTTP/2 and 45 s on HTTP/1, as client-go does, or sooner
//!   ([`client_with_silence_limit`]).
//! - **Credentials**: while the client runs, it reads CA bundle, client certificate and key, and
//!   bearer token again when their files change (it looks once a minute), and runs a credential
//!   plugin again when its credential is about to expire. It does both at once after 401, and reads
//!   the files after a failed connection. It interrupts no request in progress, and needs no
//!   restart.
//! - **Requests**: the client sends each once, since [`ApiClient`] has no retry layer. It counts
//!   and times them ([`CountRequests`]), and logs each warning of the server once.
//! - **Objects**: the client sends and requests them in protobuf, unless
//!   [`ApiClient::with_content_type`] says JSON or the server refuses it.
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
mod kubeconfig;
mod metrics;
mod plugin;
mod read_ahead;
mod sessions;
mod sources;
mod spread;
mod timeouts;
mod transport;

#[cfg(test)]
mod tests;

/// The reason why versions of an API server go back, for errors and lines of the log.
pub const STORAGE_WENT_BACK: &str =
    "its storage was set back, or another API server with another storage answers";

pub use answered::{Answered, is_status_not_found, redirected_to};
pub use certificates::{
    CertificateInUse, CertificateLifetime, CertificatePlace, CertificateUse, unusable_version,
};
pub use client::{
    AnswerBody, ApiClient, client_from_config, client_with_answer_limit, client_with_silence_limit,
    without_credentials,
};
pub use content_type::ContentType;
pub use error::{ClientError, says_not_there, why_request_failed};
pub use kubeconfig::{FoundKubeconfig, UnusableKubeconfig, read_kubeconfig, watch_files};
pub use metrics::{CountRequests, Counted, buckets};
pub use plugin::PluginError;
