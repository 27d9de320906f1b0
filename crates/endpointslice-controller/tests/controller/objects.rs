//! Objects that tests create on the server, and readers of those that the controller writes.

use serde_json::{Value, json};

/// The value of the label of the controller's slices.
pub(crate) const MANAGER: &str = "endpointslice-controller.k8s.io";
/// The label that names the manager of a slice.
pub(crate) const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The label that names the Service of a slice.
pub(crate) const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// Returns a pod of the application `web` on the node `node`; its last number is that of its
/// address.
pub(crate) fn pod(name: &str, number: u8, ready: bool) -> Value {
    pod_on("node", name, number, ready)
}

/// Returns a pod of the application `web` on a node.
pub(crate) fn pod_on(node: &str, name: &str, number: u8, ready: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}, "uid": format!("uid-{name}")},
        "spec": {"nodeName": node, "containers": [{"name": "web", "image": "example.invalid/web"}]},
        "status": {
            "phase": "Running", "podIP": format!("10.1.0.{number}"),
            "podIPs": [{"ip": format!("10.1.0.{number}")}],
            "conditions": [{
                "type": "Ready", "status": if ready { "True" } else { "False" },
                "lastTransitionTime": format!("2026-01-01T00:0{}:{number:02}Z", u8::from(ready)),
            }],
        },
    })
}

/// Returns a pod that no Service selects.
pub(crate) fn pod_of_nobody(name: &str, number: u8) -> Value {
    let mut pod = pod(name, number, true);
    pod["metadata"]["labels"] = json!({});
    pod
}

/// Returns a Service that selects the application `web`.
pub(crate) fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {
            "selector": {"app": "web"}, "ipFamilies": ["IPv4"],
            "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
    })
}

/// Returns a ready node with `cpus` CPUs. It has no zone if `zone` is empty.
pub(crate) fn node(name: &str, zone: &str, cpus: u32) -> Value {
    let labels = if zone.is_empty() { Value::Null } else { json!({"topology.kubernetes.io/zone": zone}) };
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {
            "allocatable": {"cpu": cpus.to_string()},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

/// Returns a slice with one address, made by hand.
pub(crate) fn slice(name: &str, service: &str, manager: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": name, "labels": {SERVICE_NAME: service, MANAGED_BY: manager}},
        "endpoints": [{"addresses": [ip]}], "ports": [{"name": "", "port": 9376, "protocol": "TCP"}],
    })
}

/// Returns the endpoints of slices, sorted by address: `10.1.0.1`, with `!` if it is not ready, the
/// zone in brackets and the zones of its hints after an arrow.
pub(crate) fn endpoints(slices: &[Value]) -> Vec<String> {
    let all = slices.iter().filter_map(|slice| slice["endpoints"].as_array()).flatten();
    let mut all: Vec<String> = all
        .map(|endpoint| {
            let mut text = endpoint["addresses"][0].as_str().unwrap().to_owned();
            if endpoint["conditions"]["ready"] == false {
                text.push('!');
            }
            if let Some(zone) = endpoint["zone"].as_str() {
                text += &format!(" [{zone}]");
            }
            for hinted in endpoint["hints"]["forZones"].as_array().into_iter().flatten() {
                text += &format!(" -> {}", hinted["name"].as_str().unwrap());
            }
            text
        })
        .collect();
    all.sort();
    all
}

/// Returns the trigger time that a slice carries.
pub(crate) fn trigger_time(slice: &Value) -> &Value {
    &slice["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"]
}

/// Returns the name of an object.
pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}
