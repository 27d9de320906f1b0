//! A controller with its own informers, on the embedded API server and under a paused clock.

use std::ops::Deref;
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter};
use kube_endpoint_controller_runtime::{ControllerContext, StateCounts};
use kube_endpoint_core_model::{Endpoints, Pod, Service};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_endpoints_controller::controller::EVENT_COMPONENT;
use kube_endpoint_endpoints_controller::{ControllerOptions, EndpointsController};
use kube_endpoint_informer::{Cluster, Kind, Object, ReflectorOptions};
use kube_endpoint_testing::{Environment, Simulation, USER_AGENT, server_builder};
use serde_json::{Value, json};

pub(crate) struct Harness(Simulation<EndpointsController>);

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

impl Harness {
    /// Deletes everything and checks that the controller remembers nothing. Flow tests end with it.
    pub(crate) async fn nothing_is_remembered(&self) {
        self.remove_everything().await;
        assert_eq!(self.controller.pending(), 0);
        assert_eq!(self.controller.state_counts(), StateCounts::default());
    }

    /// Starts a controller on a server and waits two seconds for its first syncs.
    pub(crate) async fn start(server: &EmbeddedApiServer, options: ControllerOptions) -> Self {
        let begin = |environment: &mut Environment| controller(environment, options);
        let harness = Self(Simulation::begin(server, [], begin));
        harness.pass(Duration::from_secs(2)).await;
        harness
    }

    /// Aborts the controller, and returns the server.
    pub(crate) async fn crash(self) -> EmbeddedApiServer {
        self.0.crash().await
    }

    /// Returns the controller's events, sorted.
    pub(crate) fn events(&self) -> Vec<String> {
        self.0.events(EVENT_COMPONENT)
    }
}

impl Deref for Harness {
    type Target = Simulation<EndpointsController>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

fn controller(environment: &mut Environment, options: ControllerOptions) -> EndpointsController {
    let client = ApiClient::for_tests(environment.service());
    let cluster = Cluster::new([Kind::Pods, Kind::Services, Kind::Endpoints]);
    let writer = ApiWriter::new(client.clone(), RequestLimiter::unlimited(), USER_AGENT);
    let clock = Clock::starting_at(environment.now());
    let (events, sending) = EventRecorder::new(EVENT_COMPONENT, writer.clone(), clock, 1);
    let context = ControllerContext { cluster: cluster.clone(), writer, events, clock, seed: 1 };
    let controller = EndpointsController::new(context, options);
    environment.spawn(sending);
    watch::<Pod>(environment, &client, &cluster);
    watch::<Service>(environment, &client, &cluster);
    watch::<Endpoints>(environment, &client, &cluster);
    environment.run(controller.clone().run());
    environment.on_crash(move || cluster.remove_handlers());
    controller
}

pub(crate) fn watch<T: Object>(environment: &mut Environment, client: &ApiClient, cluster: &Cluster) {
    let (client, cluster) = (client.clone(), cluster.clone());
    let options = ReflectorOptions::new(1);
    environment.spawn(async move {
        // A test that restores the server looks at what is still written by the old stores.
        let _ = kube_endpoint_informer::run::<T>(client, cluster, options, std::future::pending()).await;
    });
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
