//! Why the server cannot start.

use std::net::SocketAddr;
use std::path::PathBuf;

/// The reason why the server cannot start. `Display` is one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServingError {
    /// The server cannot listen on the address or port.
    #[error(
        "cannot serve on {address}: {why}; choose another --bind-address or --secure-port, or turn serving off with --secure-port=0"
    )]
    Bind {
        /// The address and port.
        address: SocketAddr,
        /// The operating system's error.
        why: std::io::Error,
    },
    /// The server cannot read or write a certificate, key or CA file.
    #[error(
        "cannot {action} {path}: {why}; check that the path exists and that this process has the permission"
    )]
    File {
        /// `read` or `write`.
        action: &'static str,
        path: PathBuf,
        /// The operating system's error.
        why: std::io::Error,
    },
    /// A file does not hold a usable certificate, key or CA.
    #[error("{path} {why}")]
    Content {
        path: PathBuf,
        /// The problem, and what to do about it.
        why: String,
    },
    /// The options allow no TLS configuration.
    #[error("the TLS options cannot be used together: {0}; change --tls-min-version or --tls-cipher-suites")]
    Tls(String),
    /// Generating a self-signed certificate failed.
    #[error(
        "cannot generate a self-signed certificate: {0}; give --tls-cert-file and --tls-private-key-file"
    )]
    SelfSigned(String),
    /// The address is not on loopback, and the page has no authentication.
    #[error(
        "cannot serve the status page on {0}: it has no TLS and shows everything; choose an address of loopback"
    )]
    NotLoopback(SocketAddr),
    /// The server cannot listen on the address or port on loopback.
    #[error(
        "cannot serve the status page on {address}: {why}; choose another --embedded-ui-address, or none"
    )]
    Loopback {
        /// The address and port.
        address: SocketAddr,
        /// The operating system's error.
        why: std::io::Error,
    },
    /// The operating system has no random numbers.
    #[error("cannot get random numbers from the operating system")]
    Random,
}
