//! Tests that lists of several pages are of one moment: if the server cannot continue one, an
//! object that is deleted meanwhile does not stay.

use std::io::{Read, Write};
use std::net::SocketAddr;
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::large;
use crate::proxy::proxy;
use crate::server::{Shop, stderr};

/// Deletes an object.
fn delete(server: SocketAddr, path: &str) {
    let mut stream = std::net::TcpStream::connect(server).unwrap();
    let request = format!("DELETE {path} HTTP/1.1\r\nhost: {server}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// Runs a command that reads a list of two pages. Before the server continues the list, somebody
/// deletes an object of the first page, and the server forgets its history, so that it answers 410.
/// Returns what the command prints as JSON.
async fn run(shop: Shop, plural: &'static str, object: &'static str, arguments: &[&str]) -> Value {
    let (server, address) = (shop.server.clone(), shop.address());
    let continued = Mutex::new(Vec::new());
    let before = move |sent: &[u8]| {
        let text = String::from_utf8_lossy(sent).into_owned();
        let mut continued = continued.lock().unwrap();
        if continued.is_empty() && text.contains(&format!("/{plural}?")) && text.contains("continue=") {
            continued.push(text);
            delete(address, object);
            server.compact();
        }
    };
    let through = proxy(address, before, |_| {}).await;
    std::fs::write(shop.kubeconfig.path(), shop.server.kubeconfig(through)).unwrap();
    shop.server.clear_request_log();
    let kubeconfig = shop.kubeconfig.path().to_str().unwrap();
    let output = shop.run_exactly(&[arguments, &["-o", "json", "--kubeconfig", kubeconfig]].concat()).await;
    let log = shop.server.request_log();
    assert!(log.iter().any(|logged| logged.status == 410), "{arguments:?}: {}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)))
}

fn service(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"app": name}, "clusterIP": "None", "ports": [{"name": "http", "port": 80}]}})
}

fn slice(namespace: &str, name: &str, service: &str) -> Value {
    json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "endpoints": [], "ports": [],
        "metadata": {"name": name, "namespace": namespace, "labels": {
            "kubernetes.io/service-name": service,
            "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}}})
}

/// Returns one Service in the first namespace, and two pages of them with it.
fn services() -> impl Iterator<Item = Value> {
    let others = (0..500).map(|at| service("b", &format!("web-{at:03}")));
    std::iter::once(service("a", "web")).chain(others)
}

/// Returns a slice in the first namespace whose Service does not exist, and two pages of slices
/// with it.
fn slices() -> impl Iterator<Item = Value> {
    let others = (0..500).map(|at| slice("b", &format!("web-{at:03}"), "web"));
    [service("b", "web"), slice("a", "left", "gone")].into_iter().chain(others)
}

#[tokio::test(flavor = "multi_thread")]
async fn lint_and_retire_count_no_service_that_is_deleted_meanwhile() {
    // Nothing is wrong in it, so that lint reads once.
    let (first, shop) =
        ("/api/v1/namespaces/team-000/services/web-00000", Shop::of(large::server(501, 1)).await);
    let lint = run(shop, "services", first, &["lint", "-A"]).await;
    assert_eq!(lint["services"], 500);
    let web = "/api/v1/namespaces/a/services/web";
    let retire = run(Shop::with(services(), Vec::new()).await, "services", web, &["retire", "-A"]).await;
    let namespaces: Vec<&Value> =
        retire["namespaces"].as_array().unwrap().iter().map(|of| &of["namespace"]).collect();
    assert_eq!(namespaces, ["b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_shows_no_pod_that_is_deleted_meanwhile() {
    let shop = Shop::of(large::server(1, 501)).await;
    let (name, namespace) = large::service(0);
    let pod = "/api/v1/namespaces/team-000/pods/web-00000-0?gracePeriodSeconds=0";
    let says = run(shop, "pods", pod, &["explain", &name, "-n", &namespace]).await;
    assert_eq!(says["podsByPublication"]["selected"], 500, "{}", says["podsByPublication"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cleanup_and_doctor_show_no_slice_that_is_deleted_meanwhile() {
    let left = "/apis/discovery.k8s.io/v1/namespaces/a/endpointslices/left";
    let shop = async || Shop::with(slices(), Vec::new()).await;
    let found = run(shop().await, "endpointslices", left, &["cleanup", "-A"]).await;
    assert_eq!(found["items"], json!([]));
    // It reads a part of the slices only, and all of these are in one page then.
    let report = run(shop().await, "endpointslices", left, &["doctor"]).await;
    let of_slices = &report["outputs"][0];
    assert_eq!((&of_slices["read"], &of_slices["left"]), (&json!(500), &json!(0)), "{of_slices}");
}
