//! Serves a component's health, metrics and status pages over TLS, as Kubernetes' own components
//! do, for controllers that run in a cluster.
//!
//! ```
//! use std::{collections::BTreeMap, time::Duration};
//!
//! use kube_endpoint_serving::{HealthChecks, Pages, Probe, ReviewClients, Server, ServingOptions};
//!
//! #[tokio::main(flavor = "current_thread")]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let health = HealthChecks::default();
//!     health.add(Probe::Readyz, "caches", || Err("pods are not listed yet".to_owned()));
//!     let pages = Pages {
//!         component: "my-controller".to_owned(),
//!         version: "1.0.0".to_owned(),
//!         health,
//!         metrics: None,
//!         slis: None,
//!         configz: serde_json::Value::Null,
//!         flagz: BTreeMap::new(),
//!         statusz: None,
//!         mounted: Vec::new(),
//!     };
//!     // With clients of the API server it also serves the pages that need authentication.
//!     let options = ServingOptions::new("127.0.0.1:0".parse()?);
//!     let server = Server::bind(options, ReviewClients::default(), pages, jiff::Timestamp::now).await?;
//!     println!("https://{}/readyz", server.local_addr()?);
//!     // A program awaits `run`, which serves until it is dropped.
//!     assert!(tokio::time::timeout(Duration::from_millis(10), server.run()).await.is_err());
//!     Ok(())
//! }
//! ```
//!
//! - **Certificates:** from files, or self-signed. The server reads files again while it runs.
//! - **Health:** `/healthz`, `/livez` and `/readyz` report the checks in [`HealthChecks`], in
//!   upstream's format.
//! - **Authentication:** every other path needs a bearer token, which the API server confirms
//!   (`TokenReview`), or a client certificate of a known CA. **Authorization:** the API server
//!   decides (`SubjectAccessReview`). The server caches the answers for ten seconds, as upstream
//!   does.
//! - **Limits:** the server bounds the number of connections, the size of requests and the time of
//!   each step ([`Limits`]). If there are too many connections, it first closes those that have not
//!   authenticated. It does not bound the time of the processor: run it on a thread of its own
//!   where clients that begin many handshakes must not delay other tasks.
//!
//! A program may add pages of its own ([`MountedPages`]), which may be streams of server-sent
//! events ([`PageBody::Events`]). [`BrowserServer`] serves them to the browser of one user on
//! loopback, and [`BrowserGuard`] guards pages that a browser opens on loopback, where it sends no
//! credentials.
//!
//! [`Server::bind`] opens the port and [`Server::run`] serves [`Pages`]. HTTP is hyper's and TLS
//! rustls's.
//!
//! Upstream's counterpart is `k8s.io/apiserver/pkg/server` with its delegating authentication and
//! authorization options, as kube-controller-manager uses it.

mod accept;
mod access;
mod authentication;
mod authorization;
mod browser_guard;
mod browser_server;
mod cache;
mod certificate;
mod client_ca;
mod connection;
mod connections;
mod error;
mod event_streams;
mod front_proxy;
mod handshakes;
mod hash;
mod health;
mod limits;
mod mounted;
mod pages;
mod path;
mod peer;
mod reload;
mod respond;
mod reviews;
mod self_signed;
mod server;
mod service;
mod stored_pair;
mod subject;
mod timed_io;
mod tls;
mod user;

pub use access::Access;
pub use browser_guard::{BrowserGuard, Decision, add_browser_headers};
pub use browser_server::{BrowserServer, serve_browser};
pub use certificate::CertificateSource;
pub use error::ServingError;
pub use front_proxy::{FrontProxyOptions, RequestHeaders};
pub use health::{CheckResult, HealthChecks, Probe};
pub use limits::Limits;
pub use mounted::{
    Event, MountedPages, PageAnswer, PageBody, PageHandler, PageRequest, error_page, event_stream, page,
};
pub use pages::{Page, Pages, StatusPage};
pub use path::{InvalidOpenPath, OpenPaths};
pub use reviews::Unanswered;
pub use server::{ReviewClients, Server, ServingOptions};
pub use tls::{CipherSuites, InvalidTlsOption, TlsVersion};
