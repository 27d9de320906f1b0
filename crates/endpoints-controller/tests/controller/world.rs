//! An API server, and one controller with its own stores, in this process and in paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use http::Request;
use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter};
use kube_endpoint_core_model::{Endpoints, Pod, Service};
use kube_endpoint_embedded_apiserver::{Builder, EmbeddedApiServer, Fault, FaultRule, RequestInfo};
use kube_endpoint_endpoints_controller::controller::EVENT_COMPONENT;
use kube_endpoint_endpoints_controller::{ControllerOptions, EndpointsController};
use kube_endpoint_informer::{ApiClient, Cluster, Kind, Object, ReflectorOptions};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// User agent of the controller, by which its requests are told from those of the test.
pub(crate) const AGENT: &str = "controller-under-test";
const START: &str = "2026-01-01T00:00:00Z";

pub(crate) struct World {
    pub(crate) server: EmbeddedApiServer,
    pub(crate) controller: EndpointsController,
    cluster: Cluster,
    client: ApiClient,
    tasks: JoinSet<()>,
}

/// A server that starts with these objects, as they are.
pub(crate) fn server(objects: impl IntoIterator<Item = Value>) -> EmbeddedApiServer {
    build(EmbeddedApiServer::builder().load(objects))
}

pub(crate) fn build(builder: Builder) -> EmbeddedApiServer {
    builder.seed(1).start_time(START.parse().unwrap()).build().unwrap()
}

impl World {
    /// A controller on a server; it has had time to do all that it wants to do at the start.
    pub(crate) async fn start(server: &EmbeddedApiServer, options: ControllerOptions) -> Self {
        let client = ApiClient::for_tests(server.service());
        let cluster = Cluster::new([Kind::Pods, Kind::Services, Kind::Endpoints]);
        let writer = ApiWriter::new(client.clone(), RequestLimiter::unlimited(), AGENT);
        let clock = Clock::starting_at(server.now());
        let (events, sending) = EventRecorder::new(EVENT_COMPONENT, writer.clone(), clock, 1);
        let controller = EndpointsController::new(cluster.clone(), writer, events, clock, options);
        let mut tasks = JoinSet::new();
        tasks.spawn(sending);
        watch::<Pod>(&mut tasks, &client, &cluster);
        watch::<Service>(&mut tasks, &client, &cluster);
        watch::<Endpoints>(&mut tasks, &client, &cluster);
        tasks.spawn(controller.clone().run());
        let world = Self { server: server.clone(), controller, cluster, client, tasks };
        world.pass(Duration::from_secs(2)).await;
        world
    }

    /// Ends the controller, finishing nothing, as a crash does. The server stays.
    pub(crate) async fn crash(mut self) -> EmbeddedApiServer {
        self.cluster.remove_handlers();
        self.tasks.shutdown().await;
        self.server
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Lets a moment pass in which everything happens that is not delayed.
    pub(crate) async fn moment(&self) {
        self.pass(Duration::from_millis(2)).await;
    }

    pub(crate) async fn send(&self, method: &str, path: &str, content_type: &str, body: &Value) -> Value {
        let request = Request::builder().method(method).uri(path).header("content-type", content_type);
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.client.kube().request(request.body(body).unwrap()).await.unwrap()
    }

    pub(crate) async fn create(&self, object: &Value) -> Value {
        self.send("POST", &collection(object), "application/json", object).await
    }

    pub(crate) async fn patch(&self, plural: &str, name: &str, patch: Value) -> Value {
        self.send("PATCH", &path(plural, name), "application/merge-patch+json", &patch).await
    }

    pub(crate) async fn delete(&self, plural: &str, name: &str) {
        self.send("DELETE", &path(plural, name), "application/json", &Value::Null).await;
    }

    /// Puts objects there as they are, whatever the rules for them say.
    pub(crate) fn load(&self, objects: impl IntoIterator<Item = Value>) {
        self.server.load(objects).unwrap();
    }

    pub(crate) fn get(&self, plural: &str, name: &str) -> Option<Value> {
        self.server.get(plural, "default", name)
    }

    /// The requests of the controller that were to change something, but for events: verb, name, status; and forgets all
    /// requests.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.timed_writes().into_iter().map(|(_, write)| write).collect()
    }

    /// The same with the time since the server started, in milliseconds.
    pub(crate) fn timed_writes(&self) -> Vec<(u128, String)> {
        let log = self.server.request_log();
        self.server.clear_request_log();
        let writes = log.iter().filter(|it| is_write(&it.request) && it.request.plural() != "events");
        writes
            .map(|it| {
                (it.at.as_millis(), format!("{} {} {}", it.request.verb, it.request.plural(), it.status))
            })
            .collect()
    }

    /// What the events say, sorted.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let event = |event: Value| {
            assert_eq!(event["source"]["component"], EVENT_COMPONENT);
            let about = &event["involvedObject"];
            let about =
                format!("{} {}/{}", text(&about["kind"]), text(&about["namespace"]), text(&about["name"]));
            format!("{about}: {} {}", text(&event["reason"]), text(&event["message"]))
        };
        let mut events: Vec<String> = self.server.list("events").into_iter().map(event).collect();
        events.sort();
        events
    }

    /// A fault that meets the controller's requests of one verb, so many times.
    pub(crate) fn fault(&self, fault: Fault, verb: &'static str, times: usize) {
        let matches = move |request: &RequestInfo| {
            is_write(request) && request.plural() != "events" && request.verb == verb
        };
        self.server.add_fault(FaultRule::new(fault, matches).times(times));
    }

    /// Holds up the watch of one kind, from now on and for so long.
    pub(crate) async fn hold_up(&self, plural: &'static str, time: Duration) {
        self.server.add_fault(FaultRule::on(Fault::StallWatch(time), "watch", plural).times(1));
        self.server.close_watches();
        self.pass(Duration::from_millis(50)).await;
    }
}

fn watch<T: Object>(tasks: &mut JoinSet<()>, client: &ApiClient, cluster: &Cluster) {
    let (client, cluster) = (client.clone(), cluster.clone());
    tasks.spawn(kube_endpoint_informer::run::<T>(
        client,
        cluster,
        ReflectorOptions::new(1),
        std::future::pending(),
    ));
}

fn is_write(request: &RequestInfo) -> bool {
    request.user_agent == AGENT && matches!(request.verb, "create" | "update" | "patch" | "delete")
}

fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version.contains('/') { "apis" } else { "api" };
    let kind = object["kind"].as_str().unwrap().to_lowercase();
    let plural = if kind.ends_with('s') { kind } else { format!("{kind}s") };
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    match &*plural {
        "namespaces" => "/api/v1/namespaces".to_owned(),
        plural => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
    }
}

/// Path of an object in the default namespace.
pub(crate) fn path(plural: &str, name: &str) -> String {
    let group = if plural == "endpointslices" { "apis/discovery.k8s.io" } else { "api" };
    format!("/{group}/v1/namespaces/default/{plural}/{name}")
}

/// A pod of the application `web`; its last number is that of its address.
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

/// A Service that selects the application `web`.
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

/// Ready addresses of an Endpoints object.
pub(crate) fn addresses(endpoints: &Value) -> Vec<String> {
    let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
    let ready = subsets.iter().filter_map(|subset| subset["addresses"].as_array());
    ready.flatten().map(|address| address["ip"].as_str().unwrap().to_owned()).collect()
}

/// Counts warnings of the controller.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings(Arc<AtomicUsize>);

impl Warnings {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
            && metadata.target().starts_with("kube_endpoint_endpoints_controller")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
