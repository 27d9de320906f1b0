//! A connection whose client gets a turn for each message of its handshake.

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::turns::{Client, Turn, Turns};

/// How many bytes the server reads from a client that waits for its turn. A first message is
/// smaller, so the server sees its end, or the end of the connection.
const AHEAD: usize = 4096;

/// A socket from which TLS reads in [turns](Turns), until the handshake is done.
///
/// TLS processes the bytes of one read before it reads or writes again, so a turn lasts from a read
/// to the next operation on the socket. Each message needs a turn, because a client may make the
/// server sign its second message instead of its first.
pub(crate) struct GatedIo {
    stream: TcpStream,
    /// Bytes that this has read from the socket and TLS has not taken yet.
    ahead: Vec<u8>,
    gate: Option<Gate>,
}

struct Gate {
    turns: Turns,
    address: IpAddr,
    waiting: Option<BoxFuture<'static, Turn>>,
    turn: Option<Turn>,
    /// Set once the client has had a turn.
    begun: bool,
    /// Set once the client has closed its direction of the connection.
    ended: bool,
}

impl GatedIo {
    pub(crate) fn new(stream: TcpStream, turns: Turns, address: IpAddr) -> Self {
        let gate = Gate { turns, address, waiting: None, turn: None, begun: false, ended: false };
        Self { stream, ahead: Vec::new(), gate: Some(gate) }
    }

    /// Ends the handshake: from now on TLS reads without turns.
    pub(crate) fn open(&mut self) {
        self.gate = None;
    }

    /// Ends the turn, because TLS has processed the last read.
    fn end_turn(&mut self) {
        if let Some(gate) = &mut self.gate {
            gate.turn = None;
        }
    }

    fn give(&mut self, buf: &mut ReadBuf<'_>) {
        let length = self.ahead.len().min(buf.remaining());
        buf.put_slice(&self.ahead[..length]);
        self.ahead.drain(..length);
        if self.ahead.is_empty() {
            self.ahead = Vec::new();
        }
    }
}

impl Gate {
    /// Reads the available bytes, so that this notices the end of the connection.
    fn read_ahead(
        &mut self,
        stream: &mut TcpStream,
        ahead: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> io::Result<()> {
        let mut part = [0; 1024];
        while !self.ended && ahead.len() < AHEAD {
            let mut part = ReadBuf::new(&mut part);
            match Pin::new(&mut *stream).poll_read(cx, &mut part) {
                Poll::Pending => break,
                Poll::Ready(read) => read?,
            }
            self.ended = part.filled().is_empty();
            ahead.extend_from_slice(part.filled());
        }
        Ok(())
    }
}

impl AsyncRead for GatedIo {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.end_turn();
        let Some(gate) = &mut this.gate else {
            if this.ahead.is_empty() {
                return Pin::new(&mut this.stream).poll_read(cx, buf);
            }
            this.give(buf);
            return Poll::Ready(Ok(()));
        };
        gate.read_ahead(&mut this.stream, &mut this.ahead, cx)?;
        if gate.ended && !gate.begun {
            // Nobody reads the answer to the first message.
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the client has given up")));
        }
        if this.ahead.is_empty() {
            return if gate.ended { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let (turns, client) = (&gate.turns, Client { address: gate.address, begun: gate.begun });
        let waiting = gate.waiting.get_or_insert_with(|| Box::pin(turns.clone().take(client)));
        gate.turn = Some(ready!(waiting.poll_unpin(cx)));
        (gate.waiting, gate.begun) = (None, true);
        this.give(buf);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for GatedIo {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.end_turn();
        Pin::new(&mut this.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.end_turn();
        Pin::new(&mut this.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Duration;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    const SOON: Duration = Duration::from_millis(100);
    const LATE: Duration = Duration::from_secs(20);

    const OTHER: Client = Client { address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), begun: false };

    /// Returns a client, and the server's side of its connection.
    async fn pair(turns: &Turns) -> (TcpStream, GatedIo) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, peer) = listener.accept().await.unwrap();
        (client, GatedIo::new(server, turns.clone(), peer.ip()))
    }

    async fn read(server: &mut GatedIo) -> io::Result<u8> {
        timeout(LATE, server.read_u8()).await.unwrap()
    }

    #[tokio::test]
    async fn each_read_waits_for_a_turn_until_the_gate_is_open() {
        let turns = Turns::new();
        let (mut client, mut server) = pair(&turns).await;
        client.write_all(b"abc").await.unwrap();
        let other = turns.clone().take(OTHER).await;
        assert!(timeout(SOON, server.read_u8()).await.is_err(), "someone else has a turn");
        drop(other);
        let of = turns.clone();
        let running = tokio::spawn(async move { of.run().await });
        assert_eq!(read(&mut server).await.unwrap(), b'a');
        // The turn lasts until the next operation.
        assert!(timeout(SOON, turns.clone().take(OTHER)).await.is_err());
        server.write_u8(b'x').await.unwrap();
        let other = timeout(LATE, turns.clone().take(OTHER)).await.unwrap();
        assert!(timeout(SOON, server.read_u8()).await.is_err(), "someone else has a turn");
        drop(other);
        assert_eq!(read(&mut server).await.unwrap(), b'b');
        server.open();
        running.abort();
        assert_eq!(read(&mut server).await.unwrap(), b'c');
    }

    #[tokio::test]
    async fn a_client_that_gives_up_before_its_first_turn_is_noticed_without_one() {
        let turns = Turns::new();
        let (mut client, mut server) = pair(&turns).await;
        client.write_all(b"hello").await.unwrap();
        let _other = turns.clone().take(OTHER).await;
        assert!(timeout(SOON, server.read_u8()).await.is_err(), "someone else has a turn");
        drop(client);
        let error = read(&mut server).await.unwrap_err().to_string();
        assert!(error.contains("given up"), "{error}");
    }

    #[tokio::test]
    async fn a_long_message_arrives_whole_through_the_gate_and_behind_it() {
        let turns = Turns::new();
        let (mut client, mut server) = pair(&turns).await;
        let sent: Vec<u8> = (0..20_000_u32).map(|number| (number % 251) as u8).collect();
        let message = sent.clone();
        tokio::spawn(async move { client.write_all(&message).await.unwrap() });
        let of = turns.clone();
        tokio::spawn(async move { of.run().await });
        let mut received = vec![0; 10_000];
        timeout(LATE, server.read_exact(&mut received)).await.unwrap().unwrap();
        server.open();
        timeout(LATE, server.read_to_end(&mut received)).await.unwrap().unwrap();
        assert_eq!(received, sent);
    }

    #[tokio::test]
    async fn a_client_that_closes_its_direction_after_its_first_turn_is_read_to_the_end() {
        let turns = Turns::new();
        let (mut client, mut server) = pair(&turns).await;
        tokio::spawn(async move { turns.run().await });
        client.write_all(b"a").await.unwrap();
        assert_eq!(read(&mut server).await.unwrap(), b'a');
        client.write_all(b"b").await.unwrap();
        client.shutdown().await.unwrap();
        assert_eq!(read(&mut server).await.unwrap(), b'b');
        assert_eq!(read(&mut server).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
