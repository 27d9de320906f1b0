//! A controller with its own informers, on the embedded API server and under a paused clock.

use std::ops::Deref;
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter};
use kube_endpoint_controller_runtime::{ControllerContext, StateCounts};
use kube_endpoint_core_model::{EndpointSlice, Endpoints, Service};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_informer::{Cluster, Kind, Object, ReflectorOptions};
use kube_endpoint_mirroring::controller::EVENT_COMPONENT;
use kube_endpoint_mirroring::{ControllerOptions, MirroringController, buckets};
use kube_endpoint_testing::{Environment, Simulation, USER_AGENT, server_builder};
use kube_endpoint_workqueue::{HISTOGRAM_BUCKETS, HISTOGRAM_NAMES};
use serde_json::{Value, json};

pub(crate) struct Harness(Simulation<MirroringController>);

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

impl Harness {
    /// Deletes everything and checks that the controller remembers nothing. Flow tests end with it.
    pub(crate) async fn nothing_is_remembered(&self) {
        self.remove_everything().await;
        assert_eq!(self.controller.pending(), 0);
        assert_eq!(self.controller.state_counts(), StateCounts::default());
    }

    /// Starts a controller on a server and waits two seconds for its first syncs.
    pub(crate) async fn start(server: &EmbeddedApiServer, options: ControllerOptions) -> Self {
        let of_queues = HISTOGRAM_NAMES.map(|name| (name, HISTOGRAM_BUCKETS.to_vec()));
        let of_runtime = kube_endpoint_controller_runtime::buckets();
        let buckets = buckets().into_iter().chain(of_runtime).chain(of_queues);
        let harness =
            Self(Simulation::begin(server, buckets, |environment| controller(environment, options)));
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
    type Target = Simulation<MirroringController>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

fn controller(environment: &mut Environment, options: ControllerOptions) -> MirroringController {
    let client = ApiClient::for_tests(environment.service());
    let cluster = Cluster::new([Kind::Services, Kind::EndpointSlices, Kind::Endpoints]);
    cluster.summarize_endpoints();
    let writer = ApiWriter::new(client.clone(), RequestLimiter::unlimited(), USER_AGENT);
    let clock = Clock::starting_at(environment.now());
    let (events, sending) = EventRecorder::new(EVENT_COMPONENT, writer.clone(), clock, 1);
    let context = ControllerContext { cluster: cluster.clone(), writer, events, clock, seed: 1 };
    let controller = MirroringController::new(context, options);
    environment.spawn(sending);
    watch::<EndpointSlice>(environment, &client, &cluster);
    watch::<Service>(environment, &client, &cluster);
    watch::<Endpoints>(environment, &client, &cluster);
    environment.run(controller.clone().run());
    environment.on_crash(move || cluster.remove_handlers());
    controller
}

fn watch<T: Object>(environment: &mut Environment, client: &ApiClient, cluster: &Cluster) {
    let (client, cluster) = (client.clone(), cluster.clone());
    let options = ReflectorOptions::new(1);
    environment.spawn(async move {
        // A test that restores the server looks at what is still written by the old stores.
        let _ = kube_endpoint_informer::run::<T>(client, cluster, options, std::future::pending()).await;
    });
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
