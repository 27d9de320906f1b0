//! A server with controllers, and the operations on it.

use std::time::Duration;

use http::Request;
use kube::Client;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, FaultRule, RequestInfo};
use kube_endpoint_manager_core::{ApiClient, Manager, RunningControllers, Settings};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::objects;
use super::operations::Op;

const START: &str = "2026-01-01T00:00:00Z";
/// The user agent of the requests that operations make; every other request is by a controller.
const USER: &str = "simulation";

/// A server and the controllers that run on it. They are aborted when it is dropped.
pub struct Cluster {
    pub(super) server: EmbeddedApiServer,
    pub(super) controllers: RunningControllers,
    pub(super) seed: u64,
    pub(super) settings: Settings,
    client: Client,
    manager: JoinHandle<()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.manager.abort();
    }
}

fn start_manager(
    server: &EmbeddedApiServer,
    settings: &Settings,
    seed: u64,
) -> (RunningControllers, JoinHandle<()>) {
    let client = ApiClient::for_tests(server.service());
    let manager = Manager::new(client, settings, server.now(), seed).unwrap();
    let controllers = manager.controllers().clone();
    let running = tokio::spawn(async move { manager.run(std::future::pending()).await.unwrap() });
    (controllers, running)
}

/// Whether a request is by the controllers.
pub(super) fn is_by_controllers(request: &RequestInfo) -> bool {
    request.user_agent != USER
}

pub(super) fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

impl Cluster {
    /// A cluster with three nodes in two zones. The seed is that of the server and of the controllers.
    pub fn start(seed: u64, settings: &Settings) -> Self {
        Self::start_with(seed, settings, Duration::from_secs(60))
    }

    /// [`Self::start`] with another interval of bookmarks.
    pub(super) fn start_with(seed: u64, settings: &Settings, bookmark_interval: Duration) -> Self {
        let nodes = (0..3).map(|name| objects::node(name, 1 + name % 2));
        let server = EmbeddedApiServer::builder().seed(seed).start_time(START.parse().unwrap()).load(nodes);
        Self::at(server.bookmark_interval(bookmark_interval).build().unwrap(), seed, settings)
    }

    pub(super) fn at(server: EmbeddedApiServer, seed: u64, settings: &Settings) -> Self {
        let client = Client::new(server.service(), "default");
        let (controllers, manager) = start_manager(&server, settings, seed);
        Self { server, client, seed, settings: settings.clone(), controllers, manager }
    }

    /// Aborts the controllers in the middle of their work and starts new ones.
    pub(super) async fn restart(&mut self) {
        self.manager.abort();
        let _ = (&mut self.manager).await;
        self.seed = self.seed.wrapping_add(1);
        (self.controllers, self.manager) = start_manager(&self.server, &self.settings, self.seed);
    }

    async fn send(&self, method: &str, path: String, body: &Value) {
        let content_type =
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", content_type).header("user-agent", USER);
        // The server refuses invalid requests, which is part of the test.
        let _: Result<Value, _> = self.client.request(request.body(body).unwrap()).await;
    }

    async fn patch(&self, plural: &str, name: &str, patch: Value) {
        self.send("PATCH", path(plural, name), &patch).await;
    }

    pub(super) async fn delete(&self, plural: &str, name: &str) {
        self.send("DELETE", path(plural, name), &json!({"gracePeriodSeconds": 0})).await;
    }

    async fn with_slice(&self, nth: u8, patch: Option<Value>) {
        let slices = self.server.list("endpointslices");
        let Some(slice) = slices.get(usize::from(nth) % slices.len().max(1)) else { return };
        let name = text(slice, "/metadata/name");
        match patch {
            Some(patch) => self.patch("endpointslices", name, patch).await,
            None => self.delete("endpointslices", name).await,
        }
    }

    /// Makes one change, or adds one fault, or waits.
    pub async fn play(&mut self, op: &Op) {
        let labels = |labels: Value| json!({"metadata": {"labels": labels}});
        match op.clone() {
            Op::CreateService { name, selects, headless, publish, families } => {
                let service = objects::service(name, selects, headless, publish, families);
                self.send("POST", collection("services"), &service).await;
            }
            Op::Select { name, selects } => {
                // A merge patch replaces the selector only because all selectors have the same single key.
                let patch = json!({"spec": {"selector": objects::selector(selects)}});
                self.patch("services", &format!("s{name}"), patch).await;
            }
            Op::LabelService { name, value } => {
                self.patch("services", &format!("s{name}"), labels(json!({"v": value.to_string()}))).await;
            }
            Op::Publish { name, publish } => {
                let patch = json!({"spec": {"publishNotReadyAddresses": publish}});
                self.patch("services", &format!("s{name}"), patch).await;
            }
            Op::Distribute { name, close } => {
                let distribution = if close { json!("PreferClose") } else { Value::Null };
                let patch = json!({"spec": {"trafficDistribution": distribution}});
                self.patch("services", &format!("s{name}"), patch).await;
            }
            Op::DeleteService { name } => self.delete("services", &format!("s{name}")).await,
            Op::Pod { name, app, ready, node, life, terminating } => {
                self.server.load([objects::pod(name, app, ready, node, life, terminating)]).unwrap();
            }
            Op::DeletePod { name } => self.delete("pods", &format!("p{name}")).await,
            Op::Node { name, zone } => {
                self.server.load([objects::node(name, zone)]).unwrap();
            }
            Op::DeleteNode { name } => {
                self.send("DELETE", format!("/api/v1/nodes/n{name}"), &Value::Null).await;
                // In a real cluster another controller deletes the pods of a deleted node.
                for pod in self.server.list("pods") {
                    if text(&pod, "/spec/nodeName") == format!("n{name}") {
                        self.delete("pods", text(&pod, "/metadata/name")).await;
                    }
                }
            }
            Op::Endpoints { name, ips, families } => {
                let endpoints = objects::endpoints(name, &ips, families);
                self.send("POST", collection("endpoints"), &endpoints).await;
                self.send("PUT", path("endpoints", &format!("s{name}")), &endpoints).await;
            }
            Op::LabelEndpoints { name, skip } => {
                let label = json!({"endpointslice.kubernetes.io/skip-mirror": skip.then_some("true")});
                self.patch("endpoints", &format!("s{name}"), labels(label)).await;
            }
            Op::DeleteEndpoints { name } => self.delete("endpoints", &format!("s{name}")).await,
            Op::EditEndpoints { name } => {
                self.patch("endpoints", &format!("s{name}"), json!({"subsets": []})).await;
            }
            Op::DeleteSlice { nth } => self.with_slice(nth, None).await,
            Op::EmptySlice { nth } => self.with_slice(nth, Some(json!({"endpoints": []}))).await,
            Op::LabelSlice { nth } => self.with_slice(nth, Some(labels(json!({"x": "y"})))).await,
            Op::BadWrites { verb, plural, fault, times } => {
                let matches = move |request: &RequestInfo| {
                    is_by_controllers(request) && request.verb == verb && request.plural() == plural
                };
                self.server.add_fault(FaultRule::new(fault, matches).times(times));
            }
            Op::BadWatch { plural, fault, times } => {
                self.server.add_fault(FaultRule::on(fault, "watch", plural).times(times));
                self.server.close_watches();
            }
            Op::Compact => self.server.compact(),
            Op::Pass { milliseconds } => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
            Op::Restart => self.restart().await,
        }
    }
}

fn collection(plural: &str) -> String {
    let group = if plural == "endpointslices" { "apis/discovery.k8s.io" } else { "api" };
    format!("/{group}/v1/namespaces/default/{plural}")
}

fn path(plural: &str, name: &str) -> String {
    format!("{}/{name}", collection(plural))
}
