//! Makes clusters of any size without faults.

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_explain::render::{render, to_list};
use kube_endpoint_explain::{Objects, Options};
use serde_json::{Value, json};

/// Services of one namespace.
const IN_NAMESPACE: usize = 100;

const NODES: usize = 100;

/// Returns the name of a Service, and its namespace.
pub(crate) fn service(at: usize) -> (String, String) {
    (format!("web-{at:05}"), format!("team-{:03}", at / IN_NAMESPACE))
}

fn inputs(services: usize, pods: usize) -> impl Iterator<Item = Value> {
    let nodes = (0..NODES).map(|at| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("node-{at:03}"),
            "labels": {"topology.kubernetes.io/zone": format!("zone-{}", at % 3)}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "8"}}})
    });
    let of_service = move |at: usize| {
        let (name, namespace) = service(at);
        let address = format!("10.96.{}.{}", at >> 8, at & 255);
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
            "spec": {"selector": {"app": name}, "clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"],
                "ports": [{"name": "http", "port": 80, "targetPort": 8080}]}});
        let pod = move |number: usize| {
            let id = at * pods + number;
            let address = format!("10.{}.{}.{}", 128 + (id >> 16), id >> 8 & 255, id & 255);
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("{name}-{number}"), "namespace": namespace, "labels": {"app": name}},
                "spec": {"nodeName": format!("node-{:03}", id % NODES),
                    "containers": [{"name": "web", "image": "web:1", "ports": [{"name": "http", "containerPort": 8080}]}]},
                "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}})
        };
        std::iter::once(service).chain((0..pods).map(pod).collect::<Vec<_>>())
    };
    nodes.chain((0..services).flat_map(of_service))
}

/// Starts a server with Services of this many pods each, and with the slices and Endpoints that the
/// controllers write.
pub(crate) fn server(services: usize, pods: usize) -> EmbeddedApiServer {
    let builder = EmbeddedApiServer::builder().without_garbage_collector();
    let server = builder.load(inputs(services, pods)).build().unwrap();
    // Fields that the server has added, such as cluster IPs, are inputs of the plan.
    let mut objects = Objects::new();
    for (plural, kind) in [("nodes", "Node"), ("services", "Service"), ("pods", "Pod")] {
        for mut object in server.list(plural) {
            object["kind"] = kind.into();
            objects.add(object).unwrap();
        }
    }
    let mut outputs = to_list(&render(&objects, &Options::default())).unwrap();
    // A Service has a slice for each of its IP families.
    for (at, output) in outputs["items"].as_array_mut().unwrap().iter_mut().enumerate() {
        if let Some(prefix) = output["metadata"]["generateName"].as_str() {
            output["metadata"]["name"] = format!("{prefix}{at:05}").into();
        }
    }
    server.load([outputs]).unwrap();
    server
}
