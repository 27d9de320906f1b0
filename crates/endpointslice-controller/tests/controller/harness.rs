//! A controller with its own informers, on the embedded API server and under a paused clock.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use kube_endpoint_api_client::ApiClient;
use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter};
use kube_endpoint_controller_runtime::{ControllerContext, StateCounts};
use kube_endpoint_core_model::{EndpointSlice, Node, Pod, Service};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_endpointslice_controller::controller::EVENT_COMPONENT;
use kube_endpoint_endpointslice_controller::{ControllerOptions, EndpointSliceController, buckets};
use kube_endpoint_informer::{Cluster, Kind, Object, ReflectorOptions};
use kube_endpoint_testing::{Environment, Simulation, USER_AGENT, server_builder};
use kube_endpoint_workqueue::{HISTOGRAM_BUCKETS, HISTOGRAM_NAMES};
use serde_json::{Value, json};

use crate::controller::objects::{SERVICE_NAME, name, node};

/// The kinds that the controller reads.
const KINDS: [Kind; 4] = [Kind::Pods, Kind::Services, Kind::Nodes, Kind::EndpointSlices];

pub(crate) struct Harness(Simulation<EndpointSliceController>);

/// Returns a server that starts with these objects and the node `node`, which has no zone. Each
/// Service gets a cluster IP.
pub(crate) fn server(objects: impl IntoIterator<Item = Value>) -> EmbeddedApiServer {
    let addressed = |(number, mut object): (usize, Value)| {
        if object["kind"] == "Service" {
            let address = format!("10.96.1.{number}");
            object["spec"]["clusterIPs"] = json!([address]);
            object["spec"]["clusterIP"] = address.into();
        }
        object
    };
    let objects = objects.into_iter().chain([node("node", "", 4)]).enumerate().map(addressed);
    server_builder().load(objects).build().unwrap()
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
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
        let harness = Self::begin(server, options);
        harness.pass(seconds(2)).await;
        harness
    }

    /// Starts a controller with the default options on a new server with these objects.
    pub(crate) async fn with(objects: impl IntoIterator<Item = Value>) -> Self {
        Self::start(&server(objects), ControllerOptions::default()).await
    }

    /// Returns a controller on a server; it runs once the test awaits something.
    pub(crate) fn begin(server: &EmbeddedApiServer, options: ControllerOptions) -> Self {
        Self::begin_with(server, options, Cluster::new(KINDS))
    }

    /// As [`Self::begin`], with a given cluster. This lists only the kinds that the controller
    /// reads.
    pub(crate) fn begin_with(
        server: &EmbeddedApiServer,
        options: ControllerOptions,
        cluster: Cluster,
    ) -> Self {
        let of_queues = HISTOGRAM_NAMES.map(|name| (name, HISTOGRAM_BUCKETS.to_vec()));
        let of_runtime = kube_endpoint_controller_runtime::buckets();
        let buckets = buckets().into_iter().chain(of_runtime).chain(of_queues);
        Self(Simulation::begin(server, buckets, |environment| controller(environment, options, cluster)))
    }

    /// Aborts the controller, and returns the server.
    pub(crate) async fn crash(self) -> EmbeddedApiServer {
        self.0.crash().await
    }

    /// Deletes an object, pods without a grace period.
    pub(crate) async fn delete(&self, plural: &str, name: &str) {
        self.delete_now(plural, name).await;
    }

    /// Returns the slices of a Service on the server, of all managers, sorted by name.
    pub(crate) fn slices(&self, service: &str) -> Vec<Value> {
        let mut slices = self.server.list("endpointslices");
        slices.retain(|slice| slice["metadata"]["labels"][SERVICE_NAME] == service);
        slices
    }

    /// Returns the one slice of a Service.
    pub(crate) fn slice(&self, service: &str) -> Value {
        let slices = self.slices(service);
        let names: Vec<&str> = slices.iter().map(name).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        slices[0].clone()
    }

    /// Returns the endpoints of a Service, see [`crate::controller::objects::endpoints`].
    pub(crate) fn endpoints(&self, service: &str) -> Vec<String> {
        crate::controller::objects::endpoints(&self.slices(service))
    }

    /// Returns the controller's events, sorted.
    pub(crate) fn events(&self) -> Vec<String> {
        self.0.events(EVENT_COMPONENT)
    }

    /// Returns the sum of all counters or gauges of a name.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.metrics().sum(name, &[])
    }

    /// Returns the number of syncs so far.
    pub(crate) fn syncs(&self) -> f64 {
        self.metric("endpoint_slice_controller_syncs")
    }
}

impl Deref for Harness {
    type Target = Simulation<EndpointSliceController>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Harness {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

fn controller(
    environment: &mut Environment,
    options: ControllerOptions,
    cluster: Cluster,
) -> EndpointSliceController {
    let client = ApiClient::for_tests(environment.service());
    let writer = ApiWriter::new(client.clone(), RequestLimiter::unlimited(), USER_AGENT);
    let clock = Clock::starting_at(environment.now());
    let (events, sending) = EventRecorder::new(EVENT_COMPONENT, writer.clone(), clock, 1);
    let context = ControllerContext { cluster: cluster.clone(), writer, events, clock, seed: 1 };
    let controller = EndpointSliceController::new(context, options);
    environment.spawn(sending);
    watch::<Pod>(environment, &client, &cluster);
    watch::<Service>(environment, &client, &cluster);
    watch::<Node>(environment, &client, &cluster);
    watch::<EndpointSlice>(environment, &client, &cluster);
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
