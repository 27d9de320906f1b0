//! Compares the models with recorded answers of kube-proxy and CoreDNS.
//!
//! `answers.jsonl.gz` is a recording of 2026-11-26 beside an API server 1.36.2. It holds 144
//! Services of two namespaces, all but four of them random, and their slices after 250 random
//! changes. kube-endpoint-manager wrote the slices of the Services that have a selector or
//! Endpoints, a user wrote the others. The first line has the nodes with their zones.
//!
//! - `answers` are those of `kube-proxy --proxy-mode=nftables --detect-local-mode=ClusterCIDR`
//!   1.36.2, for each node: where a connection goes that a pod opens to the cluster IP, and a
//!   client from outside, in a range that the Service allows, or a pod to a node port, an external
//!   IP or an address of a load balancer. They come from the kernel's tables. An absent answer
//!   means that there is no rule. On `node-b1` kube-proxy ran during all changes; on the others it
//!   started after the last.
//! - `names` are those of CoreDNS's plugin `kubernetes` 1.14.7, by its options, and by the name
//!   before the Service's. A name outside of the cluster has no addresses.

mod core_dns;
mod kube_proxy;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};

use flate2::read::GzDecoder;
use kube_endpoint_core_model::{EndpointSlice, Service};
use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    /// The zone of each node, or empty.
    Nodes {
        nodes: BTreeMap<String, String>,
    },
    Slice {
        slice: EndpointSlice,
    },
    Service {
        service: Value,
        answers: BTreeMap<String, kube_proxy::Answers>,
        names: core_dns::Names,
    },
}

#[derive(Default)]
struct Recording {
    nodes: BTreeMap<String, String>,
    /// The slices by namespace.
    slices: BTreeMap<String, Vec<EndpointSlice>>,
    services: Vec<Recorded>,
}

struct Recorded {
    service: Service,
    json: Value,
    /// The answers by node.
    answers: BTreeMap<String, kube_proxy::Answers>,
    names: core_dns::Names,
}

fn recording() -> Recording {
    let mut recording = Recording::default();
    for line in BufReader::new(GzDecoder::new(&include_bytes!("answers.jsonl.gz")[..])).lines() {
        match serde_json::from_str(&line.unwrap()).unwrap() {
            Line::Nodes { nodes } => recording.nodes = nodes,
            Line::Slice { slice } => {
                let namespace = slice.metadata.namespace.to_string();
                recording.slices.entry(namespace).or_default().push(slice);
            }
            Line::Service { service: json, answers, names } => {
                let service = serde_json::from_value(json.clone()).unwrap();
                recording.services.push(Recorded { service, json, answers, names });
            }
        }
    }
    recording
}
