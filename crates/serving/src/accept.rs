//! Opens the port and accepts connections.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::connection::{Shared, serve};
use crate::connections::Connections;

/// The number of connections that the kernel keeps until this process accepts them.
const BACKLOG: i32 = 1024;

/// The pause before accepting again when the system has no resources for another connection.
const PAUSE: Duration = Duration::from_millis(100);

/// After closing this many connections for new ones, the server frees their memory before it
/// accepts more.
const CLOSED: usize = 16;

/// Listens on an address. As in Go, an unspecified address means all addresses of both families.
pub(crate) fn listen(address: SocketAddr) -> std::io::Result<std::net::TcpListener> {
    if !address.ip().is_unspecified() {
        return listen_on(address, false);
    }
    let both = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), address.port());
    // A system may have no IPv6.
    listen_on(both, true)
        .or_else(|_| listen_on(SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), address.port()), false))
}

fn listen_on(address: SocketAddr, both_families: bool) -> std::io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    if address.is_ipv6() {
        socket.set_only_v6(!both_families)?;
    }
    // Otherwise a restarted process waits until the kernel forgets the connections of the one
    // before.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Accepts connections, forever.
pub(crate) async fn accept(listener: TcpListener, shared: Arc<Shared>, connections: Arc<Connections>) {
    let mut tasks = JoinSet::new();
    let (mut failing, mut closed) = (false, 0);
    loop {
        let accepted = tokio::select! {
            biased;
            Some(_) = tasks.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                failing = false;
                let place = connections.place(peer.ip().to_canonical());
                let (number, has_closed) = (place.number(), place.has_closed());
                let task = tasks.spawn(serve(stream, Arc::clone(&shared), place));
                connections.started(number, task);
                closed += usize::from(has_closed);
                if closed == CLOSED {
                    closed = 0;
                    tokio::task::yield_now().await;
                }
            }
            Err(error) => {
                if !failing {
                    tracing::warn!(%error, "cannot accept connections on the secure port; trying again");
                }
                failing = true;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}
