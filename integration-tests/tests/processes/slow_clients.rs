//! Thousands of clients open a connection to a replica's port and send next to nothing.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use kube_endpoint_integration_tests::processes::{Scene, Size};

use crate::common::{APISERVER, LONGEST_GAP, worst_since};

/// The beginning of a TLS handshake.
const BEGINNING: [u8; 3] = [0x16, 0x03, 0x01];

/// How much memory the clients may cost.
const MEMORY: u64 = 32 * 1024 * 1024;

/// A port that is free now.
fn free_port() -> u16 {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port()
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
    let mut client = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    client.write_all(&BEGINNING)?;
    Ok(client)
}

async fn health(port: u16) -> kube::Result<String> {
    let mut config = kube::Config::new(format!("https://127.0.0.1:{port}").parse().unwrap());
    config.accept_invalid_certs = true;
    let client = kube::Client::try_from(config)?;
    client.request_text(http::Request::get("/livez").body(Vec::new()).unwrap()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_clients_take_neither_memory_nor_time() {
    let mut scene = Box::pin(Scene::start(APISERVER, Size::from_environment())).await;
    let port = free_port();
    let listens = format!("--secure-port={port}");
    let replica = scene.start_replica(&[&listens, "--bind-address=127.0.0.1"]);
    scene.settled().await;
    scene.start_flips();
    assert_eq!(health(port).await.unwrap(), "ok");
    let process = &scene.replicas[replica].process;
    let (memory, files) = (process.resident_memory(), process.open_files());

    let mark = scene.mark();
    let count = scene.size.slow_clients;
    let clients =
        tokio::task::spawn_blocking(move || (0..count).filter_map(|_| connect(port).ok()).collect());
    let clients: Vec<TcpStream> = clients.await.unwrap();
    assert!(clients.len() > count * 9 / 10, "{} of {count} clients have connected", clients.len());
    let probe = tokio::time::timeout(Duration::from_secs(5), health(port)).await;
    assert_eq!(probe.expect("the probe is answered in time").unwrap(), "ok");
    let process = &scene.replicas[replica].process;
    let (memory, files) = (process.resident_memory().saturating_sub(memory), process.open_files() - files);
    println!("{} slow clients: {} KiB and {files} open files more", clients.len(), memory / 1024);
    assert!(files < 1_000, "{files} connections are open");
    assert!(memory < MEMORY, "{memory} bytes");
    tokio::time::sleep(scene.size.steady).await;
    scene.finish().await;
    let gap = worst_since(&mut scene, mark, "slow clients");
    assert!(gap < LONGEST_GAP, "{gap:?}");
    drop(clients);
}
