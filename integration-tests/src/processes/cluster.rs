//! The initial objects of the server: nodes in three zones, Services, and ready pods.

use serde_json::{Value, json};

/// The namespace of the Services and pods.
pub const NAMESPACE: &str = "load";

/// Number of nodes.
const NODES: usize = 6;

/// Returns the name of a Service.
pub fn service_name(service: usize) -> String {
    format!("service-{service:03}")
}

/// Returns the name of a pod.
pub(crate) fn pod_name(service: usize, pod: usize) -> String {
    format!("{}-{pod}", service_name(service))
}

/// Returns the Service of a pod or a slice, by its name: all but the last part.
pub(crate) fn service_of(name: &str) -> &str {
    name.rsplit_once('-').map_or(name, |(service, _)| service)
}

/// Returns `services` Services with `pods` pods each.
pub fn objects(services: usize, pods: usize) -> Vec<Value> {
    let nodes = (0..NODES).map(node);
    let services_and_pods = (0..services).flat_map(|service| {
        std::iter::once(service_object(service))
            .chain((0..pods).map(move |pod| pod_object(service, pod, pods)))
    });
    nodes.chain(services_and_pods).collect()
}

fn node(node: usize) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {
            "name": format!("node-{node}"),
            "labels": {"topology.kubernetes.io/zone": format!("zone-{}", node % 3)},
        },
        "status": {
            "allocatable": {"cpu": "4"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn service_object(service: usize) -> Value {
    let name = service_name(service);
    let address = format!("10.96.{}.{}", service / 250, service % 250 + 2);
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"app": name}, "type": "ClusterIP",
            "clusterIP": address, "clusterIPs": [address], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}],
        },
    })
}

fn pod_object(service: usize, pod: usize, pods: usize) -> Value {
    let number = service * pods + pod;
    let address = format!("10.{}.{}.{}", 1 + number / 62_500, number / 250 % 250, number % 250 + 2);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": pod_name(service, pod), "namespace": NAMESPACE, "labels": {"app": service_name(service)},
        },
        "spec": {
            "nodeName": format!("node-{}", number % NODES),
            "containers": [{"name": "main", "image": "main"}],
        },
        "status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_pod_has_an_address_of_its_own() {
        let objects = objects(500, 6);
        let addresses: BTreeSet<&str> =
            objects.iter().filter_map(|object| object["status"]["podIP"].as_str()).collect();
        assert_eq!(addresses.len(), 3_000);
        let addresses: BTreeSet<&str> =
            objects.iter().filter_map(|object| object["spec"]["clusterIP"].as_str()).collect();
        assert_eq!(addresses.len(), 500);
    }

    #[test]
    fn pods_and_slices_tell_their_service() {
        assert_eq!(service_of(&pod_name(7, 3)), service_name(7));
        assert_eq!(service_of("service-007-x8k2p"), service_name(7));
        assert_eq!(service_of("none"), "none");
    }
}
