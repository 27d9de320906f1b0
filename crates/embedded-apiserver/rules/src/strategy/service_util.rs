//! Predicates on Services that defaults, validation and allocation share, after
//! `pkg/api/service/util.go`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::value::{Fields, spec};

/// The deprecated name of [`TOPOLOGY_MODE`].
pub(crate) const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
/// The annotation with which a Service requests hints.
pub(crate) const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

/// Returns true if Services of this type have cluster IPs.
pub(crate) fn needs_cluster_ip(service: &Value) -> bool {
    spec(service).text("type") != "ExternalName"
}

/// Returns true if the Service is headless: its cluster IP is `None`.
pub(crate) fn is_headless(service: &Value) -> bool {
    matches!(spec(service).list("clusterIPs"), [only] if only == "None")
}

/// Returns true if clients outside of the cluster can reach the Service.
pub(crate) fn is_externally_accessible(service: &Value) -> bool {
    let spec = spec(service);
    match spec.text("type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !spec.list("externalIPs").is_empty(),
        _ => false,
    }
}

/// Returns the node ports of a Service's ports.
pub(crate) fn node_ports(service: &Value) -> BTreeSet<i64> {
    spec(service).list("ports").iter().map(|p| p.int("nodePort")).filter(|p| *p != 0).collect()
}

/// Returns true if a load balancer probes a health check node port.
pub(crate) fn needs_health_check(service: &Value) -> bool {
    let spec = spec(service);
    spec.text("type") == "LoadBalancer" && spec.text("externalTrafficPolicy") == "Local"
}
