//! A TCP proxy between a replica and the API server, with the faults of a network.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context;
use kube_endpoint_watch_channel as watch;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// The bytes that it reads at a time.
const PIECE: usize = 64 << 10;

/// The treatment of connections and bytes. The default forwards everything at once.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rule {
    /// It closes all connections, and each new one at once.
    pub(crate) refuse: bool,
    /// It forwards nothing, and connections stay open.
    pub(crate) stall: bool,
    /// It holds each piece for this time.
    pub(crate) delay: Duration,
    /// A change of this number cuts the connections that are open.
    pub(crate) cuts: u64,
}

/// A proxy on a port of loopback. Dropping it closes the port; connections end by themselves.
pub(crate) struct Proxy {
    address: SocketAddr,
    rule: watch::Sender<Rule>,
    task: AbortHandle,
}

impl Proxy {
    /// Listens, and forwards to `HOST:PORT`.
    pub(crate) async fn start(server: String) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot open a port")?;
        let address = listener.local_addr()?;
        let (rule, rules) = watch::channel(Rule::default());
        let task = tokio::spawn(async move {
            loop {
                // An error concerns a connection that is gone already.
                let Ok((client, _)) = listener.accept().await else { continue };
                let (server, rules) = (server.clone(), rules.clone());
                // A connection that fails ends, as the fault wants it.
                tokio::spawn(async move { forward(client, &server, rules).await.ok() });
            }
        });
        Ok(Self { address, rule, task: task.abort_handle() })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the rule.
    pub(crate) fn set(&self, change: impl FnOnce(&mut Rule)) {
        self.rule.send_modify(change);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn forward(client: TcpStream, server: &str, rules: watch::Receiver<Rule>) -> anyhow::Result<()> {
    let cuts = rules.borrow().cuts;
    let mut broken = rules.clone();
    let both = async {
        let server = TcpStream::connect(server).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
        let up = pump(from_client, to_server, rules.clone());
        let down = pump(from_server, to_client, rules.clone());
        tokio::try_join!(up, down).map(|_| ())
    };
    let fault = async { drop(broken.wait_for(|rule| rule.refuse || rule.cuts != cuts).await) };
    tokio::select! {
        biased;
        () = fault => Ok(()),
        end = both => end,
    }
}

async fn pump(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut rules: watch::Receiver<Rule>,
) -> anyhow::Result<()> {
    let mut piece = vec![0; PIECE];
    loop {
        let length = from.read(&mut piece).await?;
        let rule = *rules.wait_for(|rule| !rule.stall).await?;
        if !rule.delay.is_zero() {
            tokio::time::sleep(rule.delay).await;
        }
        if length == 0 {
            return Ok(to.shutdown().await?);
        }
        to.write_all(&piece[..length]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, timeout};

    const SOON: Duration = Duration::from_millis(200);

    /// Starts a server that returns what it gets, and a proxy before it.
    async fn echo() -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut client, _) = listener.accept().await.unwrap();
                tokio::spawn(async move {
                    let (mut from, mut to) = client.split();
                    tokio::io::copy(&mut from, &mut to).await.ok()
                });
            }
        });
        Proxy::start(address.to_string()).await.unwrap()
    }

    async fn exchange(connection: &mut TcpStream) -> std::io::Result<()> {
        connection.write_all(b"ping").await?;
        connection.read_exact(&mut [0; 4]).await.map(|_| ())
    }

    #[tokio::test]
    async fn connections_suffer_the_rule_and_recover() {
        let proxy = echo().await;
        let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
        exchange(&mut connection).await.unwrap();

        proxy.set(|rule| rule.delay = SOON);
        let start = Instant::now();
        exchange(&mut connection).await.unwrap();
        assert!(start.elapsed() >= 2 * SOON, "a delay in both directions");

        proxy.set(|rule| *rule = Rule { stall: true, ..Rule::default() });
        assert!(timeout(SOON, exchange(&mut connection)).await.is_err(), "no byte comes through");
        proxy.set(|rule| rule.stall = false);
        connection.read_exact(&mut [0; 4]).await.unwrap();

        proxy.set(|rule| rule.cuts += 1);
        assert!(exchange(&mut connection).await.is_err(), "the connection is cut");
        let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
        exchange(&mut connection).await.unwrap();

        proxy.set(|rule| rule.refuse = true);
        assert!(exchange(&mut connection).await.is_err(), "the connection is cut");
        let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(exchange(&mut connection).await.is_err(), "a new one is closed");
        proxy.set(|rule| rule.refuse = false);
        let mut connection = TcpStream::connect(proxy.address()).await.unwrap();
        exchange(&mut connection).await.unwrap();
    }
}
