//! What the listener tells the request handlers about a connection.

use tokio::sync::watch;

/// Becomes true when the listener that a connection belongs to shuts down.
#[derive(Clone, Debug)]
pub(crate) struct Closing(pub(crate) watch::Receiver<bool>);

/// What a request's connection adds to it.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Where clients reach the listener.
    pub(crate) address: std::net::SocketAddr,
    /// Told when the listener shuts down.
    pub(crate) closing: Closing,
}
