//! EndpointSlices and Endpoints that exist before a plan.

use serde_json::{Value, json};

use super::Cluster;

impl Cluster {
    /// Adds a slice of a Service, as written by hand: ready endpoints with these addresses, on port
    /// 8080, and no manager.
    #[track_caller]
    pub fn slice(self, service: &str, name: &str, addresses: &[&str]) -> Self {
        let endpoint = |ip: &&str| json!({"addresses": [ip], "conditions": {"ready": true}});
        let endpoints: Vec<Value> = addresses.iter().map(endpoint).collect();
        let family = if addresses.first().is_some_and(|ip| ip.contains(':')) { "IPv6" } else { "IPv4" };
        self.with(json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": family,
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
            "endpoints": endpoints,
            "ports": [{"name": "", "port": 8080, "protocol": "TCP"}],
        }))
    }

    /// Sets the `managed-by` label of the current slices, for example to
    /// `endpointslice-controller.k8s.io`.
    #[track_caller]
    pub fn managed_by(self, manager: &str) -> Self {
        self.change_only(&["EndpointSlice"], "managed_by", |slice| {
            slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = manager.into();
        })
    }

    /// Hints all endpoints of the current slices for zones.
    #[track_caller]
    pub fn hints(self, zones: &[&str]) -> Self {
        let zones: Vec<Value> = zones.iter().map(|zone| json!({"name": zone})).collect();
        self.change_only(&["EndpointSlice"], "hints", |slice| {
            for endpoint in slice["endpoints"].as_array_mut().into_iter().flatten() {
                endpoint["hints"] = json!({"forZones": &zones});
            }
        })
    }

    /// Adds an Endpoints object, as written by hand: ready addresses on port 8080.
    #[track_caller]
    pub fn endpoints(self, name: &str, addresses: &[&str]) -> Self {
        let addresses: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
        let subsets = if addresses.is_empty() {
            json!([])
        } else {
            json!([{"addresses": addresses, "ports": [{"port": 8080, "protocol": "TCP"}]}])
        };
        self.with(json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}, "subsets": subsets,
        }))
    }
}
