//! Passes connections on to a server.

use std::net::SocketAddr;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Starts a proxy. It calls a function with bytes that a client has sent before it passes them on,
/// and another one with bytes of answers. Either may block.
pub(crate) async fn proxy(
    server: SocketAddr,
    sent: impl Fn(&[u8]) + Send + Sync + 'static,
    answered: impl Fn(&[u8]) + Send + Sync + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sent, answered) = (Arc::new(sent), Arc::new(answered));
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = TcpStream::connect(server).await.unwrap().into_split();
            let (sent, answered) = (Arc::clone(&sent), Arc::clone(&answered));
            tokio::spawn(async move { pass(from_client, to_server, &*sent).await });
            tokio::spawn(async move { pass(from_server, to_client, &*answered).await });
        }
    });
    address
}

async fn pass(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, look: impl Fn(&[u8])) {
    let mut bytes = vec![0; 1 << 16];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        tokio::task::block_in_place(|| look(&bytes[..read]));
        if to.write_all(&bytes[..read]).await.is_err() {
            break;
        }
    }
}
