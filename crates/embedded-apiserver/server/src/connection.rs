//! The connection of a request to a listener.

use kube_endpoint_watch_channel as watch;

/// Becomes true when the listener of the connection shuts down.
#[derive(Clone, Debug)]
pub(crate) struct Closing(pub(crate) watch::Receiver<bool>);

impl Closing {
    /// Returns true if the listener shuts down.
    pub(crate) fn has_begun(&self) -> bool {
        *self.0.borrow()
    }

    /// Waits until the listener shuts down or is dropped.
    pub(crate) async fn wait(&mut self) {
        let _ = self.0.wait_for(|closing| *closing).await;
    }
}

/// The connection of a request.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The address at which clients reach the listener.
    pub(crate) address: std::net::SocketAddr,
    /// True if it is encrypted.
    pub(crate) has_tls: bool,
    /// Notified when the listener shuts down.
    pub(crate) closing: Closing,
}
