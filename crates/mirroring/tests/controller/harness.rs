//! The harness of these tests, and their objects.

use kube_endpoint_controller_runtime::Reconciler;
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_informer::Cluster;
use kube_endpoint_mirroring::controller::{EVENT_COMPONENT, MirroringReconciler};
use kube_endpoint_mirroring::{ControllerOptions, buckets};
use kube_endpoint_testing::server_builder;
use serde_json::{Value, json};

use crate::simulated::{self, Simulated};

pub(crate) type Harness = simulated::Harness<MirroringReconciler>;

impl Simulated for MirroringReconciler {
    const COMPONENT: &'static str = EVENT_COMPONENT;

    fn buckets() -> Vec<(&'static str, Vec<f64>)> {
        buckets()
    }

    fn cluster() -> Cluster {
        let cluster = Cluster::new(Self::kinds());
        cluster.summarize_endpoints();
        cluster
    }
}

/// Returns a server that starts with these objects.
pub(crate) fn server(objects: impl IntoIterator<Item = Value>) -> EmbeddedApiServer {
    server_builder().load(objects).build().unwrap()
}

/// Returns the default options after `change`.
pub(crate) fn changed(change: impl FnOnce(&mut ControllerOptions)) -> ControllerOptions {
    let mut options = ControllerOptions::default();
    change(&mut options);
    options
}

/// Returns a Service without a selector.
pub(crate) fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": {"ports": [{"port": 80}]},
    })
}

/// Returns Endpoints with ready addresses, if any, and one port.
pub(crate) fn endpoints(name: &str, addresses: &[&str]) -> Value {
    let addresses: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    let subset = json!({"addresses": addresses, "ports": [{"port": 9376, "protocol": "TCP"}]});
    let subsets = if addresses.is_empty() { json!([]) } else { json!([subset]) };
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name}, "subsets": subsets})
}

/// Returns Endpoints as the endpoints controller writes them.
pub(crate) fn of_the_endpoints_controller(mut endpoints: Value) -> Value {
    endpoints["metadata"]["labels"]["endpoints.kubernetes.io/managed-by"] = "endpoint-controller".into();
    endpoints
}

/// Returns the managedFields of an object whose field was written by this manager.
pub(crate) fn fields_of(manager: &str, field: &str) -> Value {
    json!([{
        "manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {field: {}},
    }])
}

/// Returns Endpoints whose addresses this field manager wrote last.
pub(crate) fn written_by(manager: &str, mut endpoints: Value) -> Value {
    endpoints["metadata"]["managedFields"] = fields_of(manager, "f:subsets");
    endpoints
}

/// Returns a slice as the endpointslice controller makes it for a Service.
pub(crate) fn made_of_pods(name: &str, service: &Value, ip: &str) -> Value {
    let (service_name, uid) = (&service["metadata"]["name"], &service["metadata"]["uid"]);
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": name,
            "labels": {
                "kubernetes.io/service-name": service_name,
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Service", "name": service_name, "uid": uid, "controller": true,
            }],
            "managedFields": fields_of("kube-controller-manager", "f:endpoints"),
        },
        "addressType": if ip.contains(':') { "IPv6" } else { "IPv4" },
        "endpoints": [{"addresses": [ip], "conditions": {"ready": true}}],
        "ports": [{"name": "", "port": 9376, "protocol": "TCP"}],
    })
}

impl Harness {
    /// Returns the addresses of all slices, each in brackets after its manager, sorted.
    pub(crate) fn slices(&self) -> Vec<String> {
        let slice = |slice: Value| {
            let manager = slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"].as_str();
            let manager = manager.unwrap_or_default().trim_end_matches("-controller.k8s.io");
            let endpoints = slice["endpoints"].as_array().cloned().unwrap_or_default();
            let address = |endpoint: &Value| endpoint["addresses"][0].as_str().unwrap().to_owned();
            let mut addresses: Vec<String> = endpoints.iter().map(address).collect();
            addresses.sort();
            format!("{manager} [{}]", addresses.join(" "))
        };
        let mut slices: Vec<String> = self.server.list("endpointslices").into_iter().map(slice).collect();
        slices.sort();
        slices
    }

    /// Returns the name of the only slice.
    pub(crate) fn slice(&self) -> String {
        let slices = self.server.list("endpointslices");
        assert_eq!(slices.len(), 1);
        slices[0]["metadata"]["name"].as_str().unwrap().to_owned()
    }
}
