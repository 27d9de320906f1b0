//! TLS handshakes, in which the clients of an address take turns.
//!
//! Anyone who can connect can begin handshakes, and one with a 4096-bit RSA key takes several
//! milliseconds. A client that begins hundreds of them delays those of its own address: each step
//! of a handshake waits for those of the same address that came before, so the addresses alternate.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::ready;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::net::TcpStream;
use tokio::task::yield_now;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Whoever has this lock may make a step. It serves its waiters in their order.
type Turn = tokio::sync::Mutex<()>;

/// Makes the handshakes of all connections.
pub(crate) struct Handshakes {
    acceptor: TlsAcceptor,
    turns: Mutex<BTreeMap<IpAddr, Weak<Turn>>>,
}

impl Handshakes {
    pub(crate) fn new(acceptor: TlsAcceptor) -> Self {
        Self { acceptor, turns: Mutex::default() }
    }

    /// Returns the turn that the clients of an address share.
    fn turn(&self, address: IpAddr) -> Arc<Turn> {
        let mut turns = self.turns.lock();
        if let Some(turn) = turns.get(&address).and_then(Weak::upgrade) {
            return turn;
        }
        // No address stays here longer than its connections.
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(address, Arc::downgrade(&turn));
        turn
    }

    /// Makes a handshake with a client at `address`.
    ///
    /// # Errors
    ///
    /// The error of the socket or of TLS. If the client closes its connection before its first
    /// turn, this makes no step for it.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
        address: IpAddr,
    ) -> io::Result<TlsStream<TcpStream>> {
        // A client that sends nothing does not keep others from their turns.
        refuse_closed(stream.ready(Interest::READABLE).await)?;
        let turn = self.turn(address);
        let (mut handshake, mut begun) = (self.acceptor.accept(stream), false);
        let mut waiting = None;
        poll_fn(|cx| {
            let mine = waiting.get_or_insert_with(|| Box::pin(Arc::clone(&turn).lock_owned()));
            let mine = ready!(mine.poll_unpin(cx));
            waiting = None;
            if !begun
                && let Some(stream) = handshake.get_ref()
                && let Some(ready) = stream.ready(Interest::READABLE).now_or_never()
            {
                refuse_closed(ready)?;
            }
            begun = true;
            // Each poll is a step: TLS processes what it has received, and waits for more.
            let step = Pin::new(&mut handshake).poll(cx);
            // The next step of the address comes after one of each other task, and after a look at
            // all sockets.
            tokio::spawn(async move {
                yield_now().await;
                drop(mine);
            });
            step
        })
        .await
    }
}

fn refuse_closed(ready: io::Result<tokio::io::Ready>) -> io::Result<()> {
    match ready?.is_read_closed() {
        true => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the client has given up")),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::generate_simple_self_signed;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};

    use super::*;

    const SOON: Duration = Duration::from_millis(100);
    const LATE: Duration = Duration::from_secs(20);

    /// Returns the handshakes of a server, and the configuration of its clients.
    fn handshakes() -> (Arc<Handshakes>, Arc<ClientConfig>) {
        let pair = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (pair.cert.der().clone(), pair.signing_key.serialize_der());
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let server = server.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
        let server = server.with_single_cert(vec![certificate.clone()], key.try_into().unwrap()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let client = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let client = client.unwrap().with_root_certificates(roots).with_no_client_auth();
        (Arc::new(Handshakes::new(TlsAcceptor::from(Arc::new(server)))), Arc::new(client))
    }

    fn address(number: u8) -> IpAddr {
        [10, 0, 0, number].into()
    }

    /// Returns a client, and the server's side of its connection.
    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (client, listener.accept().await.unwrap().0)
    }

    /// Makes the handshake of a client from an address.
    async fn shake_hands(of: &Handshakes, config: &Arc<ClientConfig>, address: IpAddr) -> io::Result<()> {
        let (client, server) = pair().await;
        let connector = TlsConnector::from(Arc::clone(config));
        let client = connector.connect("localhost".try_into().unwrap(), client);
        let (client, server) = tokio::join!(client, of.accept(server, address));
        client.and(server.map(drop))
    }

    #[tokio::test]
    async fn each_step_waits_for_the_address_and_for_no_other() {
        let (handshakes, config) = handshakes();
        shake_hands(&handshakes, &config, address(1)).await.unwrap();
        let turn = handshakes.turn(address(1)).lock_owned().await;
        let (of, configured) = (Arc::clone(&handshakes), Arc::clone(&config));
        let waiting = tokio::spawn(async move { shake_hands(&of, &configured, address(1)).await });
        timeout(LATE, shake_hands(&handshakes, &config, address(2))).await.unwrap().unwrap();
        tokio::time::sleep(SOON).await;
        assert!(!waiting.is_finished());
        drop(turn);
        timeout(LATE, waiting).await.unwrap().unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_client_that_gives_up_before_its_first_turn_costs_nothing() {
        let (handshakes, config) = handshakes();
        let mut hello = Vec::new();
        let mut tls = ClientConnection::new(config, "localhost".try_into().unwrap()).unwrap();
        tls.write_tls(&mut hello).unwrap();
        for waits in [false, true] {
            let (mut client, server) = pair().await;
            client.write_all(&hello).await.unwrap();
            let turn = handshakes.turn(address(1)).lock_owned().await;
            let of = Arc::clone(&handshakes);
            let accepting = async move { of.accept(server, address(1)).await };
            let accepting = if waits {
                let accepting = tokio::spawn(accepting);
                tokio::time::sleep(SOON).await;
                client.shutdown().await.unwrap();
                tokio::time::sleep(SOON).await;
                accepting
            } else {
                client.shutdown().await.unwrap();
                tokio::time::sleep(SOON).await;
                tokio::spawn(accepting)
            };
            drop(turn);
            let error = timeout(LATE, accepting).await.unwrap().unwrap().unwrap_err();
            assert_eq!(error.to_string(), "the client has given up");
            // The end of the connection may be a reset, because the server has not read everything.
            let mut sent = Vec::new();
            let _ = timeout(LATE, client.read_to_end(&mut sent)).await.unwrap();
            assert!(sent.is_empty(), "{sent:?}");
        }
    }

    #[tokio::test]
    async fn a_client_that_sends_nothing_or_a_part_keeps_nobody_waiting() {
        let (handshakes, config) = handshakes();
        for beginning in [&b""[..], &[22, 3, 1]] {
            let (mut client, server) = pair().await;
            client.write_all(beginning).await.unwrap();
            let of = Arc::clone(&handshakes);
            let slow = tokio::spawn(async move { of.accept(server, address(1)).await.is_ok() });
            tokio::time::sleep(SOON).await;
            timeout(LATE, shake_hands(&handshakes, &config, address(1))).await.unwrap().unwrap();
            assert!(!slow.is_finished());
            slow.abort();
        }
    }

    #[test]
    fn an_address_without_clients_is_forgotten() {
        let (handshakes, _) = handshakes();
        let first = handshakes.turn(address(1));
        assert!(Arc::ptr_eq(&first, &handshakes.turn(address(1))));
        drop(first);
        drop(handshakes.turn(address(2)));
        drop(handshakes.turn(address(3)));
        assert_eq!(handshakes.turns.lock().keys().copied().collect::<Vec<_>>(), [address(3)]);
    }
}
