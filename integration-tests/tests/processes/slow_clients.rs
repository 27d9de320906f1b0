//! Tests thousands of clients that open a connection to a replica's port and send next to nothing.
#![expect(clippy::disallowed_methods, reason = "it talks over real sockets")]

use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::time::{Duration, Instant};

use kube_endpoint_integration_tests::processes::{Pages, Scene, Size, free_port};
use tokio::io::AsyncWriteExt;

use crate::common::{APISERVER, LONGEST_GAP, probes, report, worst_since};

/// The beginning of a TLS handshake.
const BEGINNING: [u8; 3] = [0x16, 0x03, 0x01];

/// The maximum number of connections of a replica: 400, and some that it is about to close.
const CONNECTIONS: usize = 500;

/// The maximum memory for the clients.
const MEMORY: u64 = 16 * 1024 * 1024;

/// The time limit of a probe.
const PROBE: Duration = Duration::from_secs(1);

/// A time longer than a replica waits for a handshake.
const HANDSHAKE: Duration = Duration::from_secs(20);

/// The address of the slow clients. Probes come from another one, as the kubelet's do: a replica
/// first closes connections of the address that has most of them.
const SLOW: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 2), 0);

/// Returns a client that has sent the beginning of a handshake.
pub(crate) async fn connect(port: u16) -> std::io::Result<TcpStream> {
    connect_and_send(port, &BEGINNING).await
}

/// Returns a client that has sent this.
pub(crate) async fn connect_and_send(port: u16, message: &[u8]) -> std::io::Result<TcpStream> {
    let socket = tokio::net::TcpSocket::new_v4()?;
    socket.bind(SLOW.into())?;
    let mut client = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await?;
    client.write_all(message).await?;
    client.into_std()
}

/// Returns true if the replica has not closed the connection.
fn is_open(mut client: &TcpStream) -> bool {
    matches!(client.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_take_neither_memory_nor_time() {
    let mut scene = Box::pin(Scene::start(APISERVER, Size::from_environment())).await;
    let pages = Pages::on(free_port());
    let [port, address] = pages.flags();
    let replica = scene.start_replica(&[&port, &address]);
    scene.settled().await;
    scene.start_flips();
    tokio::time::sleep(scene.size.steady).await;
    assert_eq!(pages.read("/livez").await.unwrap().0, 200);
    let process = &scene.replicas[replica].process;
    let (memory, files) = (process.memory().unwrap().resident, process.open_files().unwrap());
    let mark = scene.mark();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let probes = tokio::spawn(probes(pages, PROBE, stopped));

    let count = scene.size.slow_clients;
    let port = pages.port();
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.extend(connect(port).await.ok());
    }
    assert!(clients.len() > count * 9 / 10, "{} of {count} clients have connected", clients.len());
    scene.wait_until("connections are cut off", |_| open(&clients) < CONNECTIONS).await;
    assert!(is_open(clients.last().unwrap()), "the oldest connections are cut off, not the newest");
    let process = &scene.replicas[replica].process;
    let (memory, files) =
        (process.memory().unwrap().resident.saturating_sub(memory), process.open_files().unwrap() - files);
    println!("{} slow clients: {} KiB and {files} open files more", clients.len(), memory / 1024);
    assert!(files < CONNECTIONS, "{files} connections are open");
    assert!(memory < MEMORY, "{memory} bytes");

    let start = Instant::now();
    scene.wait_until("the last ones have had no handshake in time", |_| open(&clients) == 0).await;
    assert!(start.elapsed() < HANDSHAKE, "{:?}", start.elapsed());
    stop.send(()).unwrap();
    let times = probes.await.unwrap();
    let slowest = times[times.len() - 1];
    report(&format!("slow clients: the slowest of {} probes", times.len()), slowest);
    // On a busy machine a probe may come late. The kubelet acts when the third one has failed.
    assert!(times.len() > 10 && times[times.len() - 3] < PROBE, "{times:?}");
    scene.finish().await;
    let gap = worst_since(&mut scene, mark, "slow clients");
    assert!(gap < LONGEST_GAP, "{gap:?}");
}

/// Returns the number of clients whose connections are open.
pub(crate) fn open(clients: &[TcpStream]) -> usize {
    clients.iter().filter(|client| is_open(client)).count()
}
