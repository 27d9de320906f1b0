//! Why the server cannot start.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the server cannot start. `Display` is one line that says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServingError {
    /// The address or port cannot be used.
    #[error(
        "cannot serve on {address}: {why}; choose another --bind-address or --secure-port, or turn serving off with --secure-port=0"
    )]
    Bind {
        /// The address and port.
        address: SocketAddr,
        /// The operating system's error.
        why: std::io::Error,
    },
    /// A certificate, key or CA file cannot be read or written.
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
    /// A file was read, but does not hold what it should.
    #[error("{path} {why}")]
    Content {
        path: PathBuf,
        /// What is wrong with it, and what to do.
        why: String,
    },
    /// No TLS configuration can be made from the options.
    #[error("the TLS options cannot be used together: {0}; change --tls-min-version or --tls-cipher-suites")]
    Tls(String),
    /// No self-signed certificate can be made.
    #[error(
        "cannot generate a self-signed certificate: {0}; give --tls-cert-file and --tls-private-key-file"
    )]
    SelfSigned(String),
    /// A page without users may only be served on loopback.
    #[error(
        "cannot serve the status page on {0}: it has no TLS and shows everything; choose an address of loopback"
    )]
    NotLoopback(SocketAddr),
    /// The address or port on loopback cannot be used.
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
