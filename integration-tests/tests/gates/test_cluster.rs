//! A server with a manager that runs on it.

use std::time::Duration;

use http::Request;
use kube::Client;
use kube_endpoint_controllers::{Gate, Gates, Settings};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_integration_tests::running_manager::{RunningManager, settings, writes};
use serde_json::Value;

/// A time longer than the controllers take for any change of these tests.
pub(crate) const LONG: Duration = Duration::from_secs(120);

/// Returns the gates with which each test runs: only `gate` on, and all off.
pub(crate) fn on_and_off(gate: Gate) -> [(Gates, bool); 2] {
    [(Gates::upstream().with(gate, true), true), (Gates::upstream(), false)]
}

/// A server and a manager that runs on it.
pub(crate) struct TestCluster {
    pub(crate) server: EmbeddedApiServer,
    client: Client,
    manager: RunningManager,
}

impl TestCluster {
    /// Starts all controllers with `gates` and waits until they have written their outputs for
    /// `objects`.
    pub(crate) async fn start(gates: Gates, objects: impl IntoIterator<Item = Value>) -> Self {
        Self::start_with(&settings(gates), objects).await
    }

    /// Starts the controllers of `settings` and waits until they have written their outputs for
    /// `objects`.
    pub(crate) async fn start_with(settings: &Settings, objects: impl IntoIterator<Item = Value>) -> Self {
        let start_time = "2026-12-01T00:00:00Z".parse().unwrap();
        let builder = EmbeddedApiServer::builder().seed(1).start_time(start_time).track_managers();
        let server = builder.load(objects).build().unwrap();
        let client = Client::new(server.service(), "default");
        let manager = RunningManager::start(&server, settings);
        let cluster = Self { server, client, manager };
        cluster.pass(5).await;
        cluster.server.clear_request_log();
        cluster
    }

    /// Sleeps for tokio time.
    pub(crate) async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    /// Stores objects, as if other clients had written them, and waits. Clears the log first.
    pub(crate) async fn load(&self, objects: impl IntoIterator<Item = Value>) {
        self.server.clear_request_log();
        self.server.load(objects).unwrap();
        self.pass(5).await;
    }

    /// Patches the object `web` of a core kind and waits. Clears the log after the patch.
    pub(crate) async fn patch(&self, plural: &str, patch: Value) {
        let request = Request::patch(format!("/api/v1/namespaces/default/{plural}/web"))
            .header("content-type", "application/merge-patch+json");
        let body = patch.to_string().into_bytes();
        let _: Value = self.client.request(request.body(body).unwrap()).await.unwrap();
        self.server.clear_request_log();
        self.pass(5).await;
    }

    /// Stops the manager and returns the server.
    pub(crate) async fn stop(self) -> EmbeddedApiServer {
        self.manager.stop().await;
        self.server
    }

    /// Returns the write requests since the log was cleared: method, path and status of each.
    pub(crate) fn writes(&self) -> Vec<String> {
        writes(&self.server)
    }

    /// Returns the methods of the writes of slices since the log was cleared.
    pub(crate) fn slice_writes(&self) -> Vec<String> {
        let writes = self.writes().into_iter().filter(|write| write.contains("/endpointslices"));
        writes.map(|write| write.split(' ').next().unwrap().to_owned()).collect()
    }

    /// Returns the Endpoints `web`.
    pub(crate) fn endpoints(&self) -> Value {
        self.server.get("endpoints", "default", "web").unwrap()
    }

    /// Returns the slices.
    pub(crate) fn slices(&self) -> Vec<Value> {
        self.server.list("endpointslices")
    }

    /// Returns the endpoints of all slices.
    pub(crate) fn slice_endpoints(&self) -> Vec<Value> {
        let lists = self.slices().into_iter().filter_map(|slice| slice["endpoints"].as_array().cloned());
        lists.flatten().collect()
    }
}
