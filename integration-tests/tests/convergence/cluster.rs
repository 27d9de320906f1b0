//! A server with controllers, the operations on it, and the properties that must hold afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use http::Request;
use kube::Client;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, FaultRule, RequestInfo};
use kube_endpoint_integration_tests::conformance::{Compare, Snapshot, normal::normal_form, unified_diff};
use kube_endpoint_manager_core::{ApiClient, Gate, Gates, Manager, RunningControllers, Settings};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::objects;
use crate::operations::Op;

const START: &str = "2026-01-01T00:00:00Z";
/// Longer than any fault and the retries after it.
const LONG: Duration = Duration::from_secs(300);

/// The `managed-by` label of slices made from pods.
const FROM_PODS: &str = "endpointslice-controller.k8s.io";
/// The `managed-by` label of mirrored slices.
const MIRRORED: &str = "endpointslicemirroring-controller.k8s.io";

pub(crate) struct Cluster {
    server: EmbeddedApiServer,
    client: Client,
    seed: u64,
    controllers: RunningControllers,
    manager: JoinHandle<()>,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.manager.abort();
    }
}

/// Settings with small slices. The bits of the seed choose the options that affect concurrency and timing.
fn settings(seed: u64) -> Settings {
    let bit = |number: u32| seed >> number & 1 == 1;
    let batch_period = |number| Duration::from_millis(if bit(number) { 700 } else { 0 });
    let mut settings = Settings::default();
    settings.gates = Gates::default().with(Gate::SliceCompaction, bit(8));
    settings.qps = if bit(9) { 20.0 } else { -1.0 };
    settings.max_endpoints_per_slice = 3;
    settings.endpoint_slice_workers = if bit(10) { 1 } else { 5 };
    settings.endpoint_slice_batch_period = batch_period(11);
    settings.endpoints_batch_period = batch_period(12);
    settings.mirroring_batch_period = batch_period(13);
    settings
}

fn start_manager(server: &EmbeddedApiServer, seed: u64) -> (RunningControllers, JoinHandle<()>) {
    let client = ApiClient::for_tests(server.service());
    let settings = settings(seed);
    let manager = Manager::new(client, &settings, server.now(), seed).unwrap();
    let controllers = manager.controllers().clone();
    let running = tokio::spawn(async move { manager.run(std::future::pending()).await.unwrap() });
    (controllers, running)
}

fn is_by_us(request: &RequestInfo) -> bool {
    request.user_agent.starts_with("kube-endpoint-manager")
}

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn slice_label<'a>(slice: &'a Value, label: &str) -> &'a str {
    slice["metadata"]["labels"][label].as_str().unwrap_or_default()
}

impl Cluster {
    pub(crate) async fn start(seed: u64) -> Self {
        let nodes = (0..3).map(|name| objects::node(name, 1 + name % 2));
        let server = EmbeddedApiServer::builder().seed(seed).start_time(START.parse().unwrap()).load(nodes);
        Self::at(server.build().unwrap(), seed).await
    }

    async fn at(server: EmbeddedApiServer, seed: u64) -> Self {
        let client = Client::new(server.service(), "default");
        let (controllers, manager) = start_manager(&server, seed);
        Self { server, client, seed, controllers, manager }
    }

    /// Aborts the controllers in the middle of their work and starts new ones.
    async fn restart(&mut self) {
        self.manager.abort();
        let _ = (&mut self.manager).await;
        self.seed = self.seed.wrapping_add(1);
        (self.controllers, self.manager) = start_manager(&self.server, self.seed);
    }

    async fn send(&self, method: &str, path: String, body: &Value) {
        let content_type =
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        // The server refuses invalid requests, which is part of the test.
        let _: Result<Value, _> = self.client.request(request.body(body).unwrap()).await;
    }

    async fn patch(&self, plural: &str, name: &str, patch: Value) {
        self.send("PATCH", path(plural, name), &patch).await;
    }

    async fn delete(&self, plural: &str, name: &str) {
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

    pub(crate) async fn play(&mut self, op: &Op) {
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
                    is_by_us(request) && request.verb == verb && request.plural() == plural
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

    /// Ends all faults, adds the nodes that pods name, without which syncs keep failing, and waits.
    pub(crate) async fn settle(&self) {
        self.server.clear_faults();
        let nodes = self.server.list("nodes");
        let is_there = |name: u8| nodes.iter().any(|node| text(node, "/metadata/name") == format!("n{name}"));
        let missing = (0..3).filter(|name| !is_there(*name)).map(|name| objects::node(name, 1));
        self.server.load(missing).unwrap();
        tokio::time::sleep(LONG).await;
    }

    /// The write requests since the log was cleared, except deletes of leftover Endpoints without a Service.
    fn writes(&self) -> Vec<String> {
        let log = self.server.request_log();
        let is_leftover = |it: &RequestInfo| {
            it.verb == "delete"
                && it.plural() == "endpoints"
                && !self
                    .services()
                    .iter()
                    .any(|service| it.path.ends_with(&format!("/{}", text(service, "/metadata/name"))))
        };
        log.iter()
            .filter(|it| it.request.method != "GET" && !is_leftover(&it.request))
            .map(|it| format!("{} {} {}", it.request.verb, it.request.path, it.status))
            .collect()
    }

    /// Checks that a settled cluster causes no writes and that no sync is pending.
    pub(crate) async fn writes_nothing(&self) -> Result<(), String> {
        self.server.clear_request_log();
        tokio::time::sleep(LONG).await;
        let writes = self.writes();
        if !writes.is_empty() {
            return Err(format!("still writes: {writes:#?}"));
        }
        let RunningControllers { endpoint_slice, endpoints, mirroring } = &self.controllers;
        let pending = [
            endpoint_slice.as_ref().map(|it| it.pending()),
            endpoints.as_ref().map(|it| it.pending()),
            mirroring.as_ref().map(|it| it.pending()),
        ];
        if pending != [Some(0); 3] {
            return Err(format!("syncs are pending: {pending:?}"));
        }
        Ok(())
    }

    fn services(&self) -> Vec<Value> {
        self.server.list("services")
    }

    /// For each Service, whether it has a selector.
    fn selecting(&self) -> BTreeMap<String, bool> {
        let service =
            |it: &Value| (text(it, "/metadata/name").to_owned(), it["spec"]["selector"].is_object());
        self.services().iter().map(service).collect()
    }

    /// The outputs in normal form, without those that depend on history: Endpoints without a Service, and slices made from
    /// pods for a Service that has lost its selector.
    fn outputs(&self) -> Value {
        let selecting = self.selecting();
        let list = |plural: &str| self.server.list(plural);
        let mut snapshot = Snapshot {
            services: self.services(),
            pods: list("pods"),
            endpoints: list("endpoints"),
            slices: list("endpointslices"),
            events: Vec::new(),
        };
        snapshot.endpoints.retain(|it| selecting.contains_key(text(it, "/metadata/name")));
        snapshot.slices.retain(|it| {
            let owner = slice_label(it, "kubernetes.io/service-name");
            let is_from_pods = slice_label(it, "endpointslice.kubernetes.io/managed-by") == FROM_PODS;
            selecting.get(owner) != Some(&false) || !is_from_pods
        });
        let compare: Compare =
            serde_json::from_value(json!({"trigger": "ignore", "sizes": "ignore"})).unwrap();
        normal_form(&snapshot, "default", &compare)
    }

    /// The objects that no controller writes.
    fn inputs(&self) -> Vec<Value> {
        let selecting = self.selecting();
        let kinds = [("nodes", "Node"), ("pods", "Pod"), ("services", "Service"), ("endpoints", "Endpoints")];
        let objects = kinds.into_iter().flat_map(|(plural, kind)| {
            self.server.list(plural).into_iter().map(move |mut object| {
                (object["apiVersion"], object["kind"]) = ("v1".into(), kind.into());
                object
            })
        });
        let is_input = |object: &Value| {
            object["kind"] != "Endpoints" || selecting.get(text(object, "/metadata/name")) == Some(&false)
        };
        objects.filter(is_input).collect()
    }

    pub(crate) async fn equals_output_of_new_controllers(&self) -> Result<(), String> {
        let server =
            EmbeddedApiServer::builder().start_time(self.server.now()).load(self.inputs()).build().unwrap();
        let new = Self::at(server, self.seed ^ 1).await;
        new.settle().await;
        let (want, got) = (new.outputs(), self.outputs());
        if want == got {
            return Ok(());
        }
        Err(format!("differs from the output of new controllers:\n{}", unified_diff(&want, &got)))
    }

    /// Checks that no Service has both mirrored slices and slices made from pods of one address type.
    pub(crate) fn has_no_slices_from_pods_beside_mirrored_ones(&self) -> Result<(), String> {
        let slices = self.server.list("endpointslices");
        let by = |manager: &'static str| {
            let managed =
                move |it: &&Value| slice_label(it, "endpointslice.kubernetes.io/managed-by") == manager;
            slices.iter().filter(managed)
        };
        for mirrored in by(MIRRORED) {
            let place = |it: &Value| {
                (slice_label(it, "kubernetes.io/service-name").to_owned(), it["addressType"].clone())
            };
            if let Some(beside) = by(FROM_PODS).find(|it| place(it) == place(mirrored)) {
                return Err(format!("{beside:#} exists beside {mirrored:#}"));
            }
        }
        Ok(())
    }

    /// Checks that restarted controllers write nothing.
    pub(crate) async fn restart_writes_nothing(&mut self) -> Result<(), String> {
        self.server.clear_request_log();
        self.restart().await;
        tokio::time::sleep(LONG).await;
        let writes = self.writes();
        if writes.is_empty() { Ok(()) } else { Err(format!("writes after a restart: {writes:#?}")) }
    }
}

fn collection(plural: &str) -> String {
    let group = if plural == "endpointslices" { "apis/discovery.k8s.io" } else { "api" };
    format!("/{group}/v1/namespaces/default/{plural}")
}

fn path(plural: &str, name: &str) -> String {
    format!("{}/{name}", collection(plural))
}
