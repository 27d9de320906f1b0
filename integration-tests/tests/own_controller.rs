//! A controller of a user's own on controller-runtime: the example of that crate's documentation,
//! run on the embedded API server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::Clock;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule};
use serde_json::{Value, json};

#[path = "../../crates/controller-runtime/docs/address_controller.rs"]
mod address_controller;

fn service(labels: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "db", "namespace": "default", "labels": labels},
        "spec": {"ports": [{"port": 5432}]},
    })
}

fn with_address(address: &str) -> Value {
    service(json!({"example.com/address": address}))
}

/// A server with the Service `db`, and the controller running on it.
fn start() -> EmbeddedApiServer {
    let server = EmbeddedApiServer::builder().seed(1).load([with_address("192.0.2.1")]).build().unwrap();
    let client = ApiClient::for_tests(server.service());
    tokio::spawn(address_controller::run(client, Clock::starting_at(server.now()), 1));
    server
}

/// The addresses in all slices after some seconds of the paused clock.
async fn addresses_after(server: &EmbeddedApiServer, seconds: u64) -> String {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    let slices = server.list("endpointslices");
    let addresses = slices.iter().map(|slice| slice["endpoints"][0]["addresses"][0].as_str().unwrap());
    addresses.collect::<Vec<_>>().join(" ")
}

#[tokio::test(start_paused = true)]
async fn it_publishes_an_address_and_writes_only_changes() {
    let server = start();
    assert_eq!(addresses_after(&server, 5).await, "192.0.2.1");
    server.load([with_address("192.0.2.2")]).unwrap();
    assert_eq!(addresses_after(&server, 5).await, "192.0.2.2");
    server.clear_request_log();
    addresses_after(&server, 600).await;
    assert!(server.writes().is_empty(), "{:?}", server.writes());
    server.load([service(json!({}))]).unwrap();
    assert_eq!(addresses_after(&server, 5).await, "");
}

/// The runtime repeats what failed, and creates nothing twice.
#[tokio::test(start_paused = true)]
async fn it_recovers_from_faults_of_the_server() {
    for fault in
        [Fault::Refuse { status: 500, retry_after: None }, Fault::ApplyAndLoseAnswer, Fault::LoseRequest]
    {
        let text = format!("{fault:?}");
        let server = start();
        let hits = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&hits);
        let rule = FaultRule::new(fault, move |request| {
            let is_create = request.verb == "create" && request.plural() == "endpointslices";
            counter.fetch_add(usize::from(is_create), Ordering::Relaxed);
            is_create
        });
        server.add_fault(rule.times(1));
        assert_eq!(addresses_after(&server, 60).await, "192.0.2.1", "{text}");
        assert!(hits.load(Ordering::Relaxed) > 0, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn it_undoes_what_another_client_does_to_its_slices() {
    let server = start();
    assert_eq!(addresses_after(&server, 5).await, "192.0.2.1");
    let mut edited = server.list("endpointslices")[0].clone();
    edited["endpoints"][0]["addresses"] = json!(["192.0.2.66"]);
    server.load([edited]).unwrap();
    assert_eq!(addresses_after(&server, 5).await, "192.0.2.1");
}
