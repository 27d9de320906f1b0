//! The harness of these tests.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_endpointslice_controller::controller::{EVENT_COMPONENT, EndpointSliceReconciler};
use kube_endpoint_endpointslice_controller::{ControllerOptions, buckets};
use kube_endpoint_testing::server_builder;
use serde_json::{Value, json};

use crate::controller::objects::{SERVICE_NAME, name, node};
use crate::simulated::{self, Simulated};

pub(crate) type Harness = simulated::Harness<EndpointSliceReconciler>;

impl Simulated for EndpointSliceReconciler {
    const COMPONENT: &'static str = EVENT_COMPONENT;

    fn buckets() -> Vec<(&'static str, Vec<f64>)> {
        buckets()
    }
}

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
    /// Starts a controller with the default options on a new server with these objects.
    pub(crate) async fn with(objects: impl IntoIterator<Item = Value>) -> Self {
        Self::start(&server(objects), ControllerOptions::default()).await
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

    /// Returns the sum of all counters or gauges of a name.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        self.metrics().sum(name, &[])
    }

    /// Returns the number of syncs so far.
    pub(crate) fn syncs(&self) -> f64 {
        self.metric("endpoint_slice_controller_syncs")
    }
}
