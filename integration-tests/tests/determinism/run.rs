//! Runs two managers on one server, with changes and faults, until the standby has taken over and
//! settled.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_controllers::{Gates, LeaderElectionSettings, Settings, metrics_recorder};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, LoggedRequest};
use kube_endpoint_integration_tests::running_manager::{RunningManager, settings};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

const SERVICES: usize = 16;
const PODS: usize = 64;
const NODES: usize = 5;

/// Lines in the order of their events. Clones share them.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    fn add(&self, line: &str) {
        self.0.lock().extend_from_slice(format!("{line}\n").as_bytes());
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Runs with this seed, and returns all requests and log lines in order, then the objects and the
/// metrics at the end.
pub(crate) fn transcript(seed: u64) -> String {
    let lines = Lines::default();
    let writer = lines.clone();
    let log = tracing_subscriber::fmt::layer().without_time().with_ansi(false).with_writer(move || {
        let mut writer = writer.clone();
        let _ = writer.write_all(b"log ");
        writer
    });
    let ours = Targets::new().with_target("kube_endpoint", LevelFilter::DEBUG);
    let subscriber = tracing_subscriber::registry().with(log.with_filter(ours));
    let recorder = metrics_recorder().unwrap();
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    tracing::subscriber::with_default(subscriber, || {
        metrics::with_local_recorder(&recorder, || runtime.block_on(play(seed, &lines)));
    });
    recorder.handle().run_upkeep();
    let page = recorder.handle().render();
    let mut metrics: Vec<&str> = page.lines().collect();
    // The exporter's order is random.
    metrics.sort_unstable();
    for line in metrics {
        lines.add(&format!("metric {line}"));
    }
    let bytes = std::mem::take(&mut *lines.0.lock());
    String::from_utf8(bytes).unwrap()
}

async fn play(seed: u64, lines: &Lines) {
    let observed = lines.clone();
    let server = EmbeddedApiServer::builder()
        .seed(seed)
        .load((0..NODES).map(node))
        .load((0..SERVICES).map(service))
        .load((0..PODS).map(|number| pod(number, true)))
        .load((0..SERVICES).filter(|number| number % 4 == 3).map(endpoints))
        .fault(FaultRule::on(Fault::ApplyAndLoseAnswer, "create", "endpointslices").times(2))
        .on_request(move |request| observed.add(&request_line(request)))
        .build()
        .unwrap();
    let pass = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
    let first = RunningManager::start_as(&server, "first", &replica("first"));
    pass(20).await;
    let second = RunningManager::start_as(&server, "second", &replica("second"));
    pass(20).await;
    // Many objects change at once, and writes fail in several ways.
    for (fault, verb, plural, after) in [
        (Fault::Refuse { status: 429, retry_after: Some(2) }, "update", "endpointslices", 0),
        (Fault::Refuse { status: 409, retry_after: None }, "update", "endpointslices", 3),
        (Fault::Refuse { status: 500, retry_after: None }, "update", "endpoints", 0),
    ] {
        server.add_fault(FaultRule::on(fault, verb, plural).after(after).times(3));
    }
    server.load((0..PODS).map(|number| pod(number, number % 3 != 0))).unwrap();
    server.load((PODS..PODS + 20).map(|number| pod(number, true))).unwrap();
    pass(1).await;
    server.load([node(0), node(NODES)]).unwrap();
    server.compact();
    server.break_watches(|_| true);
    server
        .load((0..SERVICES).filter(|number| number % 5 == 0).map(|number| labelled(service(number))))
        .unwrap();
    pass(60).await;
    let earlier = server.checkpoint();
    server.load((0..PODS).map(|number| pod(number, number % 2 != 0))).unwrap();
    pass(5).await;
    server.restore(&earlier);
    pass(150).await;
    first.stop().await;
    // The first manager has left these changes.
    server.load((0..PODS).map(|number| pod(number, number % 7 != 0))).unwrap();
    pass(60).await;
    second.stop().await;
    for plural in ["services", "endpoints", "endpointslices", "events", "leases"] {
        for object in server.list(plural) {
            lines.add(&format!("object {object}"));
        }
    }
}

fn replica(identity: &str) -> Settings {
    let mut settings = settings(Gates::default());
    settings.qps = 50.0;
    settings.max_endpoints_per_slice = 3;
    settings.leader_election =
        Some(LeaderElectionSettings { identity: Some(identity.to_owned()), ..Default::default() });
    settings
}

fn request_line(it: &LoggedRequest) -> String {
    let request = &it.request;
    format!(
        "request {:?} {:?} {} {} {}?{} {}",
        it.received, it.at, request.user_agent, request.method, request.path, request.query, it.status
    )
}

fn node(number: usize) -> Value {
    let zone = format!("zone-{}", number % 3);
    json!({"apiVersion": "v1", "kind": "Node",
        "metadata": {"name": format!("node-{number}"), "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}})
}

/// Returns a Service. Every fourth has no selector.
fn service(number: usize) -> Value {
    let selector = if number % 4 == 3 { Value::Null } else { json!({"app": format!("app-{}", number % 8)}) };
    let distribution = if number.is_multiple_of(2) { json!("PreferSameZone") } else { Value::Null };
    let name = format!("service-{number}");
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": namespace(number)},
        "spec": {"selector": selector, "trafficDistribution": distribution,
            "ports": [{"name": "http", "port": 80}, {"name": "metrics", "port": 9090, "targetPort": "metrics"}]}})
}

fn labelled(mut service: Value) -> Value {
    service["metadata"]["labels"] = json!({"tier": "web", "changed": "true"});
    service
}

fn endpoints(number: usize) -> Value {
    let name = format!("service-{number}");
    let addresses: Vec<Value> =
        (0..5).map(|host| json!({"ip": format!("192.0.2.{}", 10 * number % 200 + host)})).collect();
    json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name, "namespace": namespace(number)},
        "subsets": [{"addresses": addresses, "ports": [{"name": "http", "port": 80}]}]})
}

fn pod(number: usize, ready: bool) -> Value {
    let ip = format!("10.0.{}.{}", number / 200, number % 200 + 1);
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("pod-{number}"), "namespace": namespace(number),
            "labels": {"app": format!("app-{}", number % 8), "version": format!("v{}", number % 3)}},
        "spec": {"nodeName": format!("node-{}", number % NODES), "containers": [{"name": "main", "image": "image",
            "ports": [{"name": "metrics", "containerPort": 9000 + number % 2}]}]},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]}})
}

fn namespace(number: usize) -> &'static str {
    ["default", "kube-public"][number % 8 / 4]
}
