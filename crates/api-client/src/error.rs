//! Why there is no client, or no credential for a request.

use std::path::PathBuf;

use kube_endpoint_core_model::causes;

use crate::plugin::PluginError;

/// Why a client cannot be made, or why a request cannot be sent. `Display` is one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// A file with a credential or a CA cannot be read.
    #[error(
        "cannot read {path}, the {what} for the API server: {why}; check that the file exists and this process may read it"
    )]
    File {
        /// What the file holds.
        what: &'static str,
        /// Where it is.
        path: PathBuf,
        /// Why it cannot be read.
        why: std::io::Error,
    },
    /// A file was read, but does not hold what it should.
    #[error("{path}, the {what} for the API server, {why}")]
    Content {
        /// What the file should hold.
        what: &'static str,
        /// Where it is.
        path: PathBuf,
        /// The error in its content.
        why: String,
    },
    /// CA, client certificate and key do not make a TLS configuration.
    #[error(
        "the certificates for the API server cannot be used: {}; check certificate-authority, client-certificate and \
         client-key in the kubeconfig, and what its credential plugin gives",
        causes(.0)
    )]
    Tls(#[source] Box<kube::Error>),
    /// The configuration's user, headers or auth-provider cannot be used.
    #[error("the credentials for the API server cannot be used: {}; check the user in the kubeconfig", causes(.0))]
    Credentials(#[source] Box<kube::Error>),
    /// The proxy cannot be used.
    #[error(
        "the proxy {0} for the API server cannot be used; give proxy-url in the kubeconfig, or HTTPS_PROXY, as \
         http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT"
    )]
    Proxy(String),
    /// The credential plugin gave no credential.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The runtime is shutting down.
    #[error("reading the credentials for the API server was interrupted because the process is ending")]
    Interrupted,
}
