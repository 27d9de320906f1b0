//! An API server, and one controller with its own stores, in this process and in paused time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::Request;
use kube::client::Body;
use kube_endpoint_api_writer::{ApiWriter, Clock, EventRecorder, RequestLimiter};
use kube_endpoint_core_model::{EndpointSlice, Node, Pod, Service};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, LoggedRequest, RequestInfo};
use kube_endpoint_endpointslice_controller::controller::EVENT_COMPONENT;
use kube_endpoint_endpointslice_controller::{ControllerOptions, EndpointSliceController, buckets};
use kube_endpoint_informer::{ApiClient, Cluster, Kind, Object, ReflectorOptions};
use kube_endpoint_workqueue::{HISTOGRAM_BUCKETS, HISTOGRAM_NAMES};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tower::Service as _;

use crate::objects::{SERVICE_NAME, name, node};

/// User agent of the controller, by which its requests are told from those of the test.
pub(crate) const AGENT: &str = "controller-under-test";
const START: &str = "2026-01-01T00:00:00Z";

pub(crate) struct World {
    pub(crate) server: EmbeddedApiServer,
    pub(crate) controller: EndpointSliceController,
    /// Milliseconds.
    answers_late: Arc<AtomicU64>,
    metrics: PrometheusHandle,
    cluster: Cluster,
    client: ApiClient,
    /// Watches and events.
    helpers: JoinSet<()>,
    running: JoinSet<()>,
}

/// A server that starts with these objects, as they are but for an address for each Service, and with the node `node`,
/// which has no zone.
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
    EmbeddedApiServer::builder().load(objects).seed(1).start_time(START.parse().unwrap()).build().unwrap()
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl World {
    /// A controller on a server; it has had time to do all that it wants to do at the start.
    pub(crate) async fn start(server: &EmbeddedApiServer, options: ControllerOptions) -> Self {
        let world = Self::begin(server, options);
        world.pass(seconds(2)).await;
        world
    }

    /// A controller with the default options on a new server with these objects.
    pub(crate) async fn with(objects: impl IntoIterator<Item = Value>) -> Self {
        Self::start(&server(objects), ControllerOptions::default()).await
    }

    /// A controller on a server, which has not begun yet.
    pub(crate) fn begin(server: &EmbeddedApiServer, options: ControllerOptions) -> Self {
        let of_queues = HISTOGRAM_NAMES.map(|name| (name, HISTOGRAM_BUCKETS.to_vec()));
        let recorder = buckets()
            .into_iter()
            .chain(of_queues)
            .fold(PrometheusBuilder::new(), |builder, (name, buckets)| {
                builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), &buckets).unwrap()
            })
            .build_recorder();
        let client = ApiClient::for_tests(server.service());
        let cluster = Cluster::new([Kind::Pods, Kind::Services, Kind::Nodes, Kind::EndpointSlices]);
        let answers_late = Arc::new(AtomicU64::new(0));
        let writer = ApiWriter::new(
            slow_to_answer(server, Arc::clone(&answers_late)),
            RequestLimiter::unlimited(),
            AGENT,
        );
        let clock = Clock::starting_at(server.now());
        let (events, sending) = EventRecorder::new(EVENT_COMPONENT, writer.clone(), clock, 1);
        let controller = metrics::with_local_recorder(&recorder, || {
            EndpointSliceController::new(cluster.clone(), writer, events, clock, options)
        });
        let mut helpers = JoinSet::new();
        helpers.spawn(sending);
        watch::<Pod>(&mut helpers, &client, &cluster);
        watch::<Service>(&mut helpers, &client, &cluster);
        watch::<Node>(&mut helpers, &client, &cluster);
        watch::<EndpointSlice>(&mut helpers, &client, &cluster);
        let mut running = JoinSet::new();
        running.spawn(controller.clone().run());
        let metrics = recorder.handle();
        Self { server: server.clone(), controller, answers_late, metrics, cluster, client, helpers, running }
    }

    /// Ends the controller, finishing nothing, as a crash does. The server stays.
    pub(crate) async fn crash(mut self) -> EmbeddedApiServer {
        self.cluster.remove_handlers();
        self.running.shutdown().await;
        self.helpers.shutdown().await;
        self.server.clear_faults();
        self.server
    }

    /// Waits until the controller has returned; it must have been shut down.
    pub(crate) async fn stopped(&mut self) {
        self.running.join_next().await.unwrap().unwrap();
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// Lets a moment pass in which everything happens that is not delayed.
    pub(crate) async fn moment(&self) {
        self.pass(millis(2)).await;
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

    /// Deletes an object, pods at once.
    pub(crate) async fn delete(&self, plural: &str, name: &str) {
        let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
        self.send("DELETE", &path(plural, name), "application/json", &options).await;
    }

    /// Puts objects there as they are, whatever the rules for them say.
    pub(crate) fn load(&self, objects: impl IntoIterator<Item = Value>) {
        self.server.load(objects).unwrap();
    }

    pub(crate) fn get(&self, plural: &str, name: &str) -> Option<Value> {
        self.server.get(plural, "default", name)
    }

    /// The slices of a Service on the server, whoever made them, sorted by name.
    pub(crate) fn slices(&self, service: &str) -> Vec<Value> {
        let mut slices = self.server.list("endpointslices");
        slices.retain(|slice| slice["metadata"]["labels"][SERVICE_NAME] == service);
        slices
    }

    /// The one slice of a Service.
    pub(crate) fn slice(&self, service: &str) -> Value {
        let slices = self.slices(service);
        let names: Vec<&str> = slices.iter().map(name).collect();
        assert_eq!(names.len(), 1, "{names:?}");
        slices[0].clone()
    }

    /// The endpoints of a Service, see [`crate::objects::endpoints`].
    pub(crate) fn endpoints(&self, service: &str) -> Vec<String> {
        crate::objects::endpoints(&self.slices(service))
    }

    /// The requests of the controller, reads included but for lists, watches and events: verb, resource, status; and
    /// forgets all requests.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.timed_requests().into_iter().map(|(_, write)| write).collect()
    }

    /// The same with the time since the server started, in milliseconds.
    pub(crate) fn timed_requests(&self) -> Vec<(u128, String)> {
        let log = self.server.request_log();
        self.server.clear_request_log();
        let of_controller = |it: &&LoggedRequest| is_ours(&it.request) && it.request.plural() != "events";
        let line = |it: &LoggedRequest| {
            (it.at.as_millis(), format!("{} {} {}", it.request.verb, it.request.plural(), it.status))
        };
        log.iter().filter(of_controller).map(line).collect()
    }

    /// What the events say, sorted.
    pub(crate) fn events(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let event = |event: Value| {
            assert_eq!(event["source"]["component"], EVENT_COMPONENT);
            let about = &event["involvedObject"];
            let (kind, namespace) = (text(&about["kind"]), text(&about["namespace"]));
            let (reason, message) = (text(&event["reason"]), text(&event["message"]));
            let count = match &event["count"] {
                count if *count == 1 => String::new(),
                count => format!(" (x{count})"),
            };
            format!("{kind} {namespace}/{}: {reason}{count} {message}", text(&about["name"]))
        };
        let mut events: Vec<String> = self.server.list("events").into_iter().map(event).collect();
        events.sort();
        events
    }

    /// A fault that meets the controller's requests of one verb, so many times.
    pub(crate) fn fault(&self, fault: Fault, verb: &'static str, times: usize) {
        let matches = move |request: &RequestInfo| {
            is_ours(request) && request.plural() != "events" && request.verb == verb
        };
        self.server.add_fault(FaultRule::new(fault, matches).times(times));
    }

    /// From now on the controller's writes are carried out at once and answered so much later.
    pub(crate) fn answer_late(&self, time: Duration) {
        self.answers_late.store(time.as_millis().try_into().unwrap(), Ordering::Relaxed);
    }

    /// A fault that meets so many requests for the list or the watch of slices.
    pub(crate) fn fault_watch(&self, fault: Fault, times: usize) {
        let matches =
            |it: &RequestInfo| it.plural() == "endpointslices" && matches!(it.verb, "list" | "watch");
        self.server.add_fault(FaultRule::new(fault, matches).times(times));
    }

    /// Holds up the watch of one kind, from now on and for so long.
    pub(crate) async fn hold_up(&self, plural: &'static str, time: Duration) {
        self.server.add_fault(FaultRule::on(Fault::StallWatch(time), "watch", plural).times(1));
        self.server.close_watches();
        self.pass(millis(50)).await;
    }

    /// What the metrics page says.
    pub(crate) fn metrics(&self) -> String {
        self.metrics.run_upkeep();
        self.metrics.render()
    }

    /// The sum of all counters or gauges of a name.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let page = self.metrics();
        let lines = page.lines().filter_map(|line| line.rsplit_once(' '));
        let ours = lines.filter(|(key, _)| key.split('{').next() == Some(name));
        ours.map(|(_, value)| value.parse::<f64>().unwrap()).sum()
    }

    /// How many syncs there have been.
    pub(crate) fn syncs(&self) -> f64 {
        self.metric("endpoint_slice_controller_syncs")
    }
}

/// A client whose answers are held back.
fn slow_to_answer(server: &EmbeddedApiServer, by: Arc<AtomicU64>) -> ApiClient {
    let service = server.service();
    let slow = tower::service_fn(move |request: Request<Body>| {
        let (mut service, by) = (service.clone(), Arc::clone(&by));
        async move {
            let answer = service.call(request).await;
            let by = by.load(Ordering::Relaxed);
            if by > 0 {
                tokio::time::sleep(millis(by)).await;
            }
            answer
        }
    });
    ApiClient::for_tests(slow)
}

fn watch<T: Object>(tasks: &mut JoinSet<()>, client: &ApiClient, cluster: &Cluster) {
    let (client, cluster) = (client.clone(), cluster.clone());
    let options = ReflectorOptions::new(1);
    tasks.spawn(kube_endpoint_informer::run::<T>(client, cluster, options, std::future::pending()));
}

fn is_ours(request: &RequestInfo) -> bool {
    request.user_agent == AGENT
}

fn collection(object: &Value) -> String {
    let version = object["apiVersion"].as_str().unwrap();
    let root = if version.contains('/') { "apis" } else { "api" };
    let plural = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
    match &*plural {
        "namespaces" | "nodes" => format!("/api/v1/{plural}"),
        plural => format!("/{root}/{version}/namespaces/{namespace}/{plural}"),
    }
}

/// Path of an object, in the default namespace if it lives in one.
pub(crate) fn path(plural: &str, name: &str) -> String {
    match plural {
        "namespaces" | "nodes" => format!("/api/v1/{plural}/{name}"),
        "endpointslices" => format!("/apis/discovery.k8s.io/v1/namespaces/default/{plural}/{name}"),
        _ => format!("/api/v1/namespaces/default/{plural}/{name}"),
    }
}
