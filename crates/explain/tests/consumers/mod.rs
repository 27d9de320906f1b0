//! Tests the models of kube-proxy and CoreDNS with the cases of these programs' own tests, rebuilt
//! as data under their names there, and with recorded answers of the programs.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

mod core_dns;
mod recorded;
mod slices;
mod topology;

use kube_endpoint_core_model::{EndpointSlice, Service};
use serde_json::{Value, json};

/// Returns a Service `web` with a cluster IP of each family and the port `http`.
fn service() -> Value {
    json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "clusterIP": "10.96.0.7",
            "ipFamilies": ["IPv4", "IPv6"],
            "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        },
    })
}

fn read_service(service: Value) -> Service {
    serde_json::from_value(service).unwrap()
}

/// Sets a label of a slice.
fn label(slice: EndpointSlice, key: &str, value: &str) -> EndpointSlice {
    let mut json = serde_json::to_value(slice).unwrap();
    json["metadata"]["labels"][key] = json!(value);
    serde_json::from_value(json).unwrap()
}

/// Returns a slice of the Service `web` with the port `http` as 80.
fn slice(name: &str, endpoints: Value) -> EndpointSlice {
    let slice = json!({
        "metadata": {"name": name, "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        "endpoints": endpoints,
    });
    serde_json::from_value(slice).unwrap()
}
