//! The harness of these tests, and their objects.

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_endpoints_controller::ControllerOptions;
use kube_endpoint_endpoints_controller::controller::{EVENT_COMPONENT, EndpointsReconciler};
use kube_endpoint_testing::server_builder;
use serde_json::{Value, json};

use crate::simulated::{self, Simulated};

pub(crate) type Harness = simulated::Harness<EndpointsReconciler>;

impl Simulated for EndpointsReconciler {
    const COMPONENT: &'static str = EVENT_COMPONENT;
}

/// Returns a server that starts with these objects, and tracks who sets which field of others.
pub(crate) fn server(objects: impl IntoIterator<Item = Value>) -> EmbeddedApiServer {
    server_builder().track_managers().load(objects).build().unwrap()
}

/// Returns the default options after `change`.
pub(crate) fn changed(change: impl FnOnce(&mut ControllerOptions)) -> ControllerOptions {
    let mut options = ControllerOptions::default();
    change(&mut options);
    options
}

/// Returns a pod of the application `web`; its last number is that of its address.
pub(crate) fn pod(name: &str, number: u8, ready: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "web"}, "uid": format!("uid-{name}")},
        "spec": {"nodeName": "node", "containers": [{"name": "web", "image": "example.invalid/web"}]},
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

/// Returns a Service that selects the application `web`.
pub(crate) fn service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    })
}

/// Endpoints with one address, made by hand.
pub(crate) fn endpoints(name: &str, ip: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name},
        "subsets": [{"addresses": [{"ip": ip}], "ports": [{"port": 9376, "protocol": "TCP"}]}],
    })
}

/// The label of the endpoints controller.
pub(crate) const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";

/// Endpoints with the label of the endpoints controller, whose addresses this field manager wrote.
pub(crate) fn labelled(mut endpoints: Value, manager: &str) -> Value {
    endpoints["metadata"]["labels"] = json!({MANAGED_BY: "endpoint-controller"});
    written_by(endpoints, manager)
}

/// Endpoints whose addresses this field manager wrote.
pub(crate) fn written_by(mut endpoints: Value, manager: &str) -> Value {
    endpoints["metadata"]["managedFields"] = json!([{
        "manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1", "fieldsV1": {"f:subsets": {}},
    }]);
    endpoints
}

/// Ready addresses of an Endpoints object.
pub(crate) fn addresses(endpoints: &Value) -> Vec<String> {
    let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
    let ready = subsets.iter().filter_map(|subset| subset["addresses"].as_array());
    ready.flatten().map(|address| address["ip"].as_str().unwrap().to_owned()).collect()
}
