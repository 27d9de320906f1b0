//! The listener: HTTP/1.1 and HTTP/2 on loopback, with or without TLS.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use kube_endpoint_watch_channel as watch;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tower::Service;

use crate::connection::{Closing, Connection};
use crate::open_requests::OpenRequests;
use crate::server::Inner;
use crate::service::ApiService;
use crate::tls::{Tls, TlsError};

/// The time limit for responses in flight once the listener shuts down.
const DRAIN: Duration = Duration::from_secs(5);

/// The time limit for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// A connection without a request ends after this time, as upstream's. This also limits the time
/// for the head of a request.
const QUIET: Duration = Duration::from_secs(90);

/// The answer to an HTTP request without TLS, as Go's server's.
const NOT_TLS: &[u8] = b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";

/// The pause before accepting again when the system has no resources for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The reason why opening a listener failed.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address is not loopback. By default, the server has no authentication.
    #[error("{0} is not a loopback address")]
    NotLoopback(SocketAddr),
    /// The listener has no TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The system refused the address.
    #[error("cannot listen on {address}: {source}")]
    Bind { address: SocketAddr, source: std::io::Error },
}

/// Options of a listener.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenOptions {
    /// True if addresses other than loopback are allowed.
    pub allow_any_address: bool,
    /// True if the listener speaks TLS, with a certificate of a CA of its own:
    /// [`Listener::certificate_authority`].
    pub tls: bool,
}

/// An open listener. Dropping it closes it immediately.
#[derive(Debug)]
pub struct Listener {
    address: SocketAddr,
    ca: Option<String>,
    closing: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Listener {
    pub(crate) async fn bind(
        inner: Arc<Inner>,
        address: SocketAddr,
        options: ListenOptions,
    ) -> Result<Self, ListenError> {
        if !address.ip().is_loopback() && !options.allow_any_address {
            return Err(ListenError::NotLoopback(address));
        }
        let bind = |source| ListenError::Bind { address, source };
        let socket = TcpListener::bind(address).await.map_err(bind)?;
        let address = socket.local_addr().map_err(bind)?;
        let tls = options.tls.then(|| Tls::new(address.ip(), inner.now())).transpose()?;
        let (closing, closed) = watch::channel(false);
        let connection = Connection { address, has_tls: tls.is_some(), closing: Closing(closed) };
        let (acceptor, ca) = tls.map(|tls| (tls.acceptor, tls.ca)).unzip();
        let service = ApiService::new(inner, Some(connection.clone()));
        let task = tokio::spawn(accept(socket, acceptor, service, connection));
        Ok(Self { address, ca, closing, task })
    }

    /// Returns its URL, for which its certificate is valid.
    pub fn url(&self) -> String {
        url(self.address, self.ca.is_some())
    }

    /// Returns the certificate of the CA of a listener with TLS, in PEM.
    pub fn certificate_authority(&self) -> Option<&str> {
        self.ca.as_deref()
    }

    /// Returns the address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, ends open watches, gives other responses some seconds to finish, and
    /// returns once all connections are closed.
    pub async fn shutdown(mut self) {
        self.closing.send_replace(true);
        // The task ends by itself; if its runtime has cancelled it, there is nothing to do.
        let _ = (&mut self.task).await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Returns the URL of a listener.
pub(crate) fn url(address: SocketAddr, has_tls: bool) -> String {
    let scheme = if has_tls { "https" } else { "http" };
    format!("{scheme}://{address}")
}

async fn accept(
    socket: TcpListener,
    acceptor: Option<TlsAcceptor>,
    service: ApiService,
    connection: Connection,
) {
    let mut connections = JoinSet::new();
    let mut closing = connection.closing;
    let mut failing = false;
    loop {
        tokio::select! {
            biased;
            () = closing.wait() => break,
            Some(_) = connections.join_next() => {}
            accepted = socket.accept() => match accepted {
                Ok((stream, _)) => {
                    failing = false;
                    connections.spawn(connect(stream, acceptor.clone(), service.clone(), closing.clone()));
                }
                Err(error) => {
                    if !failing {
                        tracing::warn!(%error, "cannot accept connections; trying again");
                    }
                    failing = true;
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(socket);
    let drained = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        tracing::debug!("connections were still open when the time to close them was over");
    }
}

async fn connect(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    service: ApiService,
    mut closing: Closing,
) {
    // The option keeps the kernel from delaying small responses; a socket without it still works.
    let _ = stream.set_nodelay(true);
    let Some(acceptor) = acceptor else { return serve(stream, service, closing).await };
    let accepted = tokio::select! {
        biased;
        () = closing.wait() => return,
        accepted = tokio::time::timeout(HANDSHAKE, handshake(acceptor, stream)) => accepted,
    };
    match accepted {
        Ok(Ok(Some(stream))) => serve(stream, service, closing).await,
        Ok(Ok(None)) => tracing::debug!("a client sent an HTTP request without TLS"),
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// Accepts TLS. A client that sends an HTTP request instead gets the answer of Go's server.
async fn handshake(
    acceptor: TlsAcceptor,
    mut stream: TcpStream,
) -> std::io::Result<Option<TlsStream<TcpStream>>> {
    // TLS begins with the number of a record type, a request with the name of its method.
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 || !first[0].is_ascii_uppercase() {
        return acceptor.accept(stream).await.map(Some);
    }
    // The system resets a connection that is closed with unread bytes, and may drop the answer.
    let _ = stream.read(&mut [0; 4096]).await?;
    stream.write_all(NOT_TLS).await?;
    stream.shutdown().await?;
    Ok(None)
}

async fn serve(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: ApiService,
    mut closing: Closing,
) {
    let requests = OpenRequests::new();
    let counted = requests.clone();
    let answer = move |request| counted.while_open(service.clone().call(request));
    let builder = auto::Builder::new(TokioExecutor::new());
    let service = TowerToHyperService::new(tower::service_fn(answer));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        biased;
        result = connection.as_mut() => Some(result),
        () = closing.wait() => None,
        () = requests.none_for(QUIET) => None,
    };
    let result = match ended {
        Some(result) => result,
        None => {
            connection.as_mut().graceful_shutdown();
            let Ok(result) = tokio::time::timeout(DRAIN, connection).await else {
                return tracing::debug!("a connection was closed because its client took too long");
            };
            result
        }
    };
    if let Err(error) = result {
        // Clients may disconnect at any time, and faults break connections on purpose.
        tracing::debug!(%error, "a connection ended with an error");
    }
}

#[cfg(test)]
mod tests;
