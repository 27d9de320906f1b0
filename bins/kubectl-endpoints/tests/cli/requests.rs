//! Tests that `explain` sends the same requests and reads the same number of bytes, however large
//! the cluster is.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::large;
use crate::server::{Shop, stderr, stdout};

/// Passes connections on to a server and counts the bytes that it answers.
async fn counting_proxy(server: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let answered = Arc::clone(&count);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = TcpStream::connect(server).await.unwrap().into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_client, &mut to_server).await });
            let answered = Arc::clone(&answered);
            tokio::spawn(async move {
                let mut bytes = vec![0; 1 << 16];
                while let Ok(read @ 1..) = from_server.read(&mut bytes).await {
                    answered.fetch_add(read, Ordering::Relaxed);
                    if to_client.write_all(&bytes[..read]).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    (address, count)
}

/// Explains one Service of a cluster. Returns the requests and the bytes of the answers.
async fn explained(services: usize) -> (Vec<String>, usize) {
    let shop = Shop::of(large::server(services, 10)).await;
    let (address, bytes) = counting_proxy(shop.address()).await;
    std::fs::write(shop.kubeconfig.path(), shop.server.kubeconfig(address)).unwrap();
    shop.server.clear_request_log();
    let (name, namespace) = large::service(7);
    let output = shop.run_in(&namespace, &["explain", &name]).await;
    let text = stdout(&output);
    assert!(
        text.starts_with(&format!("OK  Service {namespace}/{name}\n10 of 10 pods receive traffic.\n")),
        "{text}{}",
        stderr(&output)
    );
    let mut requests = shop.requests();
    requests.sort();
    (requests, bytes.load(Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_size_of_the_cluster_changes_neither_requests_nor_bytes() {
    let (requests, bytes) = explained(20).await;
    let (of_large, bytes_of_large) = explained(400).await;
    assert_eq!(requests, of_large);
    // The requests are for the Service, its pods, their ten nodes, slices, Endpoints and events.
    assert_eq!(requests.len(), 15, "{requests:#?}");
    // Versions have more digits in the larger cluster.
    assert!(bytes_of_large.abs_diff(bytes) < bytes / 50, "{bytes} and {bytes_of_large}");
    assert!(bytes_of_large < 64 * 1024, "{bytes_of_large}");
}

/// Nodes without a pod of the Service matter if a traffic policy is `Local`, or if hints are for
/// other nodes or zones.
#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_are_listed_for_a_policy_local_and_for_hints_to_other_zones() {
    let node = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": "eu-1"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let service = |policy: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ipFamilies": ["IPv4"],
                "internalTrafficPolicy": policy, "ports": [{"port": 80, "protocol": "TCP"}]}})
    };
    let slice = |hints: [Value; 2]| {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": ["10.9.0.1"], "nodeName": "a", "conditions": {"ready": true}, "hints": hints[0]},
            {"addresses": ["10.9.0.2"], "nodeName": "a", "conditions": {"ready": true}, "hints": hints[1]},
        ]})
    };
    let zone = |name: &str| json!({"forZones": [{"name": name}]});
    let none = || [Value::Null, Value::Null];
    for (policy, hints, requests, verdict, receiving) in [
        ("Cluster", none(), 0, "EP000", 2),
        ("Local", none(), 1, "EP048", 2),
        ("Cluster", [zone("eu-1"), zone("of-no-node")], 1, "EP000", 1),
    ] {
        let objects = [node("a"), node("b"), service(policy), slice(hints)];
        let shop = Shop::with(objects, Vec::new()).await;
        let output = shop.run(&["explain", "web", "-o", "json"]).await;
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["verdict"]["code"], verdict, "{}", stderr(&output));
        assert_eq!(json["podsByPublication"]["receiving"], receiving, "{policy}");
        let of_nodes = |request: &&String| request.contains("/nodes");
        assert_eq!(shop.requests().iter().filter(of_nodes).count(), requests, "{policy}");
    }
}
