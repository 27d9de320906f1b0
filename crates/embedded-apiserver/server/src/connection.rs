//! The connection of a request to a listener.

use tokio::sync::watch;

/// Becomes true when the listener of a connection shuts down.
#[derive(Clone, Debug)]
pub(crate) struct Closing(pub(crate) watch::Receiver<bool>);

/// The connection of a request.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The address at which clients reach the listener.
    pub(crate) address: std::net::SocketAddr,
    /// Notified when the listener shuts down.
    pub(crate) closing: Closing,
}
