//! A server with a webhook, and a manager that runs on it: a Service `web` with pods, and a Service
//! `db` whose Endpoints somebody wrote.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use kube_endpoint_controllers::{ApiClient, ContentType, ControllerStatus, Gates, Settings};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, LoggedRequest, ServiceError};
use kube_endpoint_integration_tests::running_manager::{RunningManager, settings};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tower::ServiceExt;

/// A function that changes the object of a create or an update. The number counts the requests
/// about the object, so that an order of requests about others decides nothing.
pub(crate) type Webhook = fn(&mut Value, usize);

/// The number of requests about each object.
type Turns = Mutex<BTreeMap<String, usize>>;

pub(crate) struct Cluster {
    pub(crate) server: EmbeddedApiServer,
    manager: RunningManager,
}

/// Returns a pod of an application.
pub(crate) fn pod(namespace: &str, app: &str, number: usize, ready: bool) -> Value {
    let ip = format!("10.1.{}.{}", number / 200, number % 200 + 1);
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("{app}-{number:03}"), "namespace": namespace, "labels": {"app": app}},
        "spec": {"nodeName": "node-a", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" },
                "lastTransitionTime": "2026-12-01T00:00:00Z"}]}})
}

/// Returns a Service, with a selector if it has pods.
pub(crate) fn service(namespace: &str, name: &str, number: usize, selects: bool) -> Value {
    let ip = format!("10.96.0.{number}");
    let selector = if selects { json!({"app": name}) } else { Value::Null };
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": ip, "clusterIPs": [ip], "ipFamilies": ["IPv4"], "selector": selector,
            "ports": [{"port": 80, "protocol": "TCP", "targetPort": 8080}]}})
}

/// Returns Endpoints that somebody writes.
pub(crate) fn endpoints(namespace: &str, name: &str, ips: &[&str]) -> Value {
    let addresses: Vec<Value> = ips.iter().map(|ip| json!({"ip": ip})).collect();
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "namespace": namespace},
        "subsets": [{"addresses": addresses, "ports": [{"port": 8080, "protocol": "TCP"}]}]})
}

/// Returns the objects of a namespace: `web` with this number of pods, and `db`.
pub(crate) fn objects(namespace: &str, number: usize, pods: usize) -> Vec<Value> {
    let addresses = ["192.0.2.1", "192.0.2.2", "192.0.2.3"];
    let mut objects = vec![
        service(namespace, "web", number, true),
        service(namespace, "db", number + 1, false),
        endpoints(namespace, "db", &addresses),
    ];
    objects.extend((0..pods).map(|number| pod(namespace, "web", number, true)));
    objects
}

pub(crate) fn server(objects: impl IntoIterator<Item = Value>) -> EmbeddedApiServer {
    let node = json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-a", "labels": {"topology.kubernetes.io/zone": "zone-a"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4"}}});
    EmbeddedApiServer::builder()
        .seed(1)
        .start_time("2026-12-01T00:00:00Z".parse().unwrap())
        .load(objects.into_iter().chain([node]))
        .build()
        .unwrap()
}

/// Returns settings with JSON, so that a webhook can rewrite the objects.
pub(crate) fn settings_of_tests(max_endpoints_per_slice: usize) -> Settings {
    let mut settings = settings(Gates::default());
    settings.content_type = ContentType::Json;
    settings.max_endpoints_per_slice = max_endpoints_per_slice;
    settings
}

async fn rewritten(request: Request<Body>, webhook: Webhook, turns: &Turns) -> Request<Body> {
    let path = request.uri().path();
    let is_output = ["/endpointslices", "/endpoints"].iter().any(|plural| path.contains(plural));
    if !(is_output && matches!(*request.method(), Method::POST | Method::PUT)) {
        return request;
    }
    let (mut head, body) = request.into_parts();
    let mut object: Value = serde_json::from_slice(&body.collect().await.unwrap().to_bytes()).unwrap();
    let turn = {
        let mut turns = turns.lock();
        let turn = turns.entry(format!("{} {}", object["kind"], object["metadata"]["name"])).or_default();
        *turn += 1;
        *turn - 1
    };
    webhook(&mut object, turn);
    head.headers.remove(http::header::CONTENT_LENGTH);
    Request::from_parts(head, Body::from(object.to_string().into_bytes()))
}

impl Cluster {
    /// Starts a manager on a server whose webhook rewrites the objects of creates and updates.
    pub(crate) fn rewriting(server: EmbeddedApiServer, settings: &Settings, webhook: Webhook) -> Self {
        let (service, turns) = (server.service(), Arc::new(Turns::default()));
        let client = ApiClient::for_tests(tower::service_fn(move |request: Request<Body>| {
            let (service, turns) = (service.clone(), Arc::clone(&turns));
            async move {
                let answer = service.oneshot(rewritten(request, webhook, &turns).await).await?;
                Ok::<_, ServiceError>(answer)
            }
        }));
        let manager = RunningManager::with_client(client, &server, settings, 1);
        Self { server, manager }
    }

    pub(crate) fn start(server: EmbeddedApiServer, settings: &Settings) -> Self {
        let manager = RunningManager::start(&server, settings);
        Self { server, manager }
    }

    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    pub(crate) async fn stop(self) {
        self.manager.stop().await;
    }

    /// Returns the states of the controllers: of Endpoints, of slices and of mirrored slices.
    pub(crate) fn statuses(&self) -> [ControllerStatus; 3] {
        self.manager.status().controllers.try_into().unwrap()
    }

    /// Returns the text of `/statusz`.
    pub(crate) fn printed_status(&self) -> String {
        self.manager.status().to_string()
    }

    /// Returns the writes of each controller since the log was cleared, in the order of
    /// [`Self::statuses`], whatever their answers.
    pub(crate) fn writes(&self) -> [usize; 3] {
        let log = self.server.request_log();
        let is_write = |one: &&LoggedRequest| one.request.is_write() && one.request.plural() != "events";
        let by = |agent: &str| {
            log.iter().filter(is_write).filter(|one| one.request.user_agent.ends_with(agent)).count()
        };
        [" endpoints-controller", " endpointslice-controller", " endpointslice-mirroring-controller"].map(by)
    }

    /// Returns the ready addresses in the slices of a Service, sorted.
    pub(crate) fn published(&self, namespace: &str, service: &str) -> Vec<String> {
        let of_service = |slice: &Value| {
            slice["metadata"]["namespace"] == namespace
                && slice["metadata"]["labels"]["kubernetes.io/service-name"] == service
        };
        let slices: Vec<Value> = self.server.list("endpointslices").into_iter().filter(of_service).collect();
        let endpoints = slices.iter().filter_map(|slice| slice["endpoints"].as_array()).flatten();
        let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != false);
        let mut addresses: Vec<String> =
            ready.map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_owned()).collect();
        addresses.sort();
        addresses
    }

    /// Returns the ready addresses of Endpoints, sorted.
    pub(crate) fn in_endpoints(&self, namespace: &str, name: &str) -> Vec<String> {
        let Some(endpoints) = self.server.get("endpoints", namespace, name) else { return Vec::new() };
        let addresses = endpoints["subsets"][0]["addresses"].as_array().cloned().unwrap_or_default();
        let mut addresses: Vec<String> =
            addresses.iter().map(|address| address["ip"].as_str().unwrap().to_owned()).collect();
        addresses.sort();
        addresses
    }
}
