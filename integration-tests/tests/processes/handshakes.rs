//! Tests clients that begin hundreds of TLS handshakes a second, with a 4096-bit RSA key for
//! serving.
#![expect(clippy::disallowed_methods, reason = "it talks over real sockets")]

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use kube::Config;
use kube::client::ConfigExt;
use kube_endpoint_integration_tests::processes::{Pages, Scene, Size, free_port};
use kube_endpoint_testing::MetricsPage;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::rustls::ClientConnection;

use crate::common::{APISERVER, LONGEST_GAP, probes, report, worst_since};

/// How long clients begin handshakes.
const TIME: Duration = Duration::from_secs(5);

/// The pause between two clients of each sort: 200 of each sort begin in a second.
const PAUSE: Duration = Duration::from_millis(5);

/// The address of clients that wait for an answer. Clients that do not wait have the address of the
/// probes.
const WAITING: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 2), 0);

/// The limit for the median of the probes. Each may take five times as long: the clients themselves
/// load a busy machine.
const PROBE: Duration = Duration::from_secs(1);

/// The limit for the median of the answers to changes.
const HALF_OF_CHANGES: Duration = Duration::from_millis(200);

/// Returns the first message of a handshake.
fn client_hello() -> Vec<u8> {
    let mut config = Config::new("https://127.0.0.1".parse().unwrap());
    config.accept_invalid_certs = true;
    let config = Arc::new(config.rustls_client_config().unwrap());
    let mut hello = Vec::new();
    let mut client = ClientConnection::new(config, "127.0.0.1".try_into().unwrap()).unwrap();
    client.write_tls(&mut hello).unwrap();
    hello
}

async fn begin(port: u16, hello: &[u8], from: Option<SocketAddrV4>) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if let Some(from) = from {
        socket.bind(from.into())?;
    }
    let mut client = socket.connect((Ipv4Addr::LOCALHOST, port).into()).await?;
    client.write_all(hello).await?;
    Ok(client)
}

/// Begins handshakes for [`TIME`]. Returns the number of clients that have given up at once, and of
/// those that have got an answer.
async fn begin_handshakes(port: u16) -> (usize, usize) {
    let (hello, answered) = (Arc::new(client_hello()), Arc::new(AtomicUsize::new(0)));
    let (mut given_up, mut waiting) = (0, JoinSet::new());
    let (start, mut ticks) = (Instant::now(), tokio::time::interval(PAUSE));
    while start.elapsed() < TIME {
        ticks.tick().await;
        given_up += usize::from(begin(port, &hello, None).await.is_ok());
        let (hello, answered) = (Arc::clone(&hello), Arc::clone(&answered));
        waiting.spawn(async move {
            let client = begin(port, &hello, Some(WAITING)).await;
            if let Ok(mut client) = client
                && client.read_u8().await.is_ok()
            {
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    waiting.shutdown().await;
    (given_up, answered.load(Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_by_the_hundred_delay_no_change_and_no_renewal() {
    let mut scene = Box::pin(Scene::start(APISERVER, Size::from_environment())).await;
    let pages = Pages::on(free_port());
    let [port, address] = pages.flags();
    let pair = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/rsa-4096");
    let certificate = format!("--tls-cert-file={}", pair.with_extension("crt").display());
    let key = format!("--tls-private-key-file={}", pair.with_extension("key").display());
    let replica = scene.start_replica(&[&port, &address, &certificate, &key]);
    scene.settled().await;
    scene.start_flips();
    tokio::time::sleep(scene.size.steady).await;
    assert_eq!(pages.read("/livez").await.unwrap().0, 200);
    let mark = scene.mark();
    let (stop, stopped) = tokio::sync::oneshot::channel();
    let probes = tokio::spawn(probes(pages, PROBE, stopped));

    let (start, used) = (Instant::now(), scene.replicas[replica].process.cpu_time().unwrap());
    let (given_up, answered) = begin_handshakes(pages.port()).await;
    let used = scene.replicas[replica].process.cpu_time().unwrap() - used;
    let share = used.as_secs_f64() / start.elapsed().as_secs_f64();
    stop.send(()).unwrap();
    let times = probes.await.unwrap();
    println!(
        "{given_up} clients gave up, {answered} were answered; the replica took {share:.2} of a processor"
    );
    let half = times[times.len() / 2];
    report("handshakes: the half of all probes", half);
    report(&format!("handshakes: the slowest of {} probes", times.len()), times[times.len() - 1]);
    assert!(given_up > 100 && answered > 10, "there were few handshakes: {given_up}, {answered}");
    assert!(times.len() > 4 && half < PROBE, "{times:?}");

    let page = MetricsPage::new(pages.metrics().await.unwrap());
    let (leads, renewals) = (page.sum("leader_election_master_status", &[]), renewals(&mut scene, mark));
    assert!(leads == 1.0 && renewals > 2, "{leads}, {renewals} renewals of the Lease");

    scene.finish().await;
    let gap = worst_since(&mut scene, mark, "handshakes");
    assert!(gap < LONGEST_GAP, "{gap:?}");
    let mut waits: Vec<Duration> =
        scene.answers_since(mark).iter().filter_map(|answer| answer.after).collect();
    waits.sort_unstable();
    report("handshakes: the half of all changes", waits[waits.len() / 2]);
    assert!(waits[waits.len() / 2] < HALF_OF_CHANGES, "{waits:?}");
}

/// Counts the renewals of the Lease since `mark`.
fn renewals(scene: &mut Scene, mark: usize) -> usize {
    let lines = &scene.lines()[mark..];
    lines.iter().filter(|line| line.resource == "leases" && line.is_write() && line.succeeded()).count()
}
