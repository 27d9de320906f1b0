//! The objects of these tests: nodes, pods, and a Service `web` that selects the pods.

use serde_json::{Value, json};

/// Returns a ready node with four CPUs. An empty `zone` means no zone label.
pub(crate) fn node(name: &str, zone: &str) -> Value {
    let labels = if zone.is_empty() { json!({}) } else { json!({"topology.kubernetes.io/zone": zone}) };
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// Returns a pod that serves the port `web` under the number 8080.
pub(crate) fn pod(number: usize, node: &str, ready: bool) -> Value {
    pod_on_port(number, node, ready, 8080)
}

/// Returns a pod that serves the port `web` under a number of its own.
pub(crate) fn pod_on_port(number: usize, node: &str, ready: bool, port: usize) -> Value {
    let ip = format!("10.1.{}.{}", number / 250, number % 250 + 1);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("p{number:02}"), "namespace": "default", "uid": format!("uid-{number}"),
            "labels": {"app": "web"},
        },
        "spec": {
            "nodeName": node,
            "containers": [{
                "name": "web", "image": "example.invalid/web", "ports": [{"name": "web", "containerPort": port}],
            }],
        },
        "status": {
            "phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        },
    })
}

/// Returns the Service `web`.
pub(crate) fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-web"},
        "spec": {
            "selector": {"app": "web"}, "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"],
            "ipFamilies": ["IPv4"], "ports": [{"name": "web", "port": 80, "targetPort": "web", "protocol": "TCP"}],
        },
    })
}
