//! A manager with leader election on an embedded server. Its requests carry its name in the user
//! agent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::header::{HeaderValue, USER_AGENT};
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use kube_endpoint_controllers::{
    ApiClient, LeaderElectionSettings, Manager, ManagerError, ManagerHandle, Settings,
};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, LoggedRequest};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tower::ServiceExt;

/// Changes the Lease that a replica is about to write to release it.
pub(crate) type EditRelease = Arc<dyn Fn(&mut Value) + Send + Sync>;

pub(crate) struct Replica {
    name: &'static str,
    pub(crate) handle: ManagerHandle,
    stop: oneshot::Sender<()>,
    pub(crate) ended: JoinHandle<Result<(), ManagerError>>,
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.leader_election = Some(LeaderElectionSettings::default());
    settings
}

impl Replica {
    pub(crate) fn start(server: &EmbeddedApiServer, name: &'static str, settings: &Settings) -> Self {
        Self::start_with(server, name, settings, Arc::new(|_| ()))
    }

    pub(crate) fn start_with(
        server: &EmbeddedApiServer,
        name: &'static str,
        settings: &Settings,
        edit_release: EditRelease,
    ) -> Self {
        let mut settings = settings.clone();
        if let Some(election) = &mut settings.leader_election {
            election.identity = Some(name.to_owned());
        }
        let server_service = server.service();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (service, edit) = (server_service.clone(), Arc::clone(&edit_release));
            async move { service.oneshot(named(request, name, &edit).await).await }
        });
        let seed = name.bytes().map(u64::from).sum();
        let client = ApiClient::for_tests(service);
        let manager = Manager::new(client, &settings, server.now(), seed).unwrap();
        let handle = manager.handle();
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(manager.run(async move {
            let _ = stopped.await;
        }));
        Self { name, handle, stop, ended }
    }

    pub(crate) fn leads(&self) -> bool {
        *self.handle.leading().borrow()
    }

    /// Waits until it leads, and returns how long that took.
    pub(crate) async fn led(&self) -> Duration {
        let start = Instant::now();
        let mut leading = self.handle.leading();
        tokio::time::timeout(seconds(100), leading.wait_for(|leading| *leading)).await.unwrap().unwrap();
        start.elapsed()
    }

    /// Stops it, and returns how long that took.
    pub(crate) async fn stop(self) -> Duration {
        let start = Instant::now();
        self.stop.send(()).unwrap();
        self.ended.await.unwrap().unwrap();
        start.elapsed()
    }

    /// Ends it as SIGKILL does.
    pub(crate) async fn kill(self) {
        self.ended.abort();
        let _ = self.ended.await;
    }

    /// Returns its requests in the server's log.
    pub(crate) fn requests(&self, server: &EmbeddedApiServer) -> Vec<LoggedRequest> {
        requests_of(server, self.name)
    }

    /// Returns its writes in the server's log, without those of the Lease and its events.
    pub(crate) fn writes(&self, server: &EmbeddedApiServer) -> Vec<LoggedRequest> {
        writes_of(server, self.name)
    }
}

pub(crate) fn requests_of(server: &EmbeddedApiServer, name: &str) -> Vec<LoggedRequest> {
    let prefix = format!("{name} ");
    let log = server.request_log();
    log.into_iter().filter(|entry| entry.request.user_agent.starts_with(&prefix)).collect()
}

pub(crate) fn writes_of(server: &EmbeddedApiServer, name: &str) -> Vec<LoggedRequest> {
    let is_about_lease = |entry: &LoggedRequest| match entry.request.plural() {
        "events" => entry.request.path.contains("/kube-system/"),
        plural => plural == "leases",
    };
    let is_write = |entry: &LoggedRequest| entry.request.is_write() && !is_about_lease(entry);
    requests_of(server, name).into_iter().filter(is_write).collect()
}

async fn named(request: Request<Body>, name: &str, edit: &EditRelease) -> Request<Body> {
    let (mut parts, body) = request.into_parts();
    let agent = parts.headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let agent = format!("{name} {agent}");
    parts.headers.insert(USER_AGENT, HeaderValue::from_str(&agent).unwrap());
    if parts.method != Method::PUT || !parts.uri.path().contains("/leases/") {
        return Request::from_parts(parts, body);
    }
    let bytes = body.collect().await.unwrap().to_bytes();
    let mut lease: Value = serde_json::from_slice(&bytes).unwrap();
    if lease["spec"]["holderIdentity"] == "" {
        edit(&mut lease);
    }
    Request::from_parts(parts, Body::from(lease.to_string().into_bytes()))
}

/// Returns a server with Services that each select one ready pod.
pub(crate) async fn server_with(services: usize) -> EmbeddedApiServer {
    let server = EmbeddedApiServer::builder().seed(1).build().unwrap();
    server.load([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})]).unwrap();
    add_services(&server, 0..services);
    server
}

/// Adds Services with a ready pod each.
pub(crate) fn add_services(server: &EmbeddedApiServer, numbers: std::ops::Range<usize>) {
    let objects = numbers.flat_map(|number| [service(number), pod(number, true)]);
    server.load(objects).unwrap();
}

pub(crate) fn service(number: usize) -> Value {
    json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": format!("s{number}"), "namespace": "default"},
        "spec": {"selector": {"app": format!("a{number}")}, "clusterIP": "None", "ipFamilies": ["IPv4"],
            "ports": [{"port": 80, "protocol": "TCP"}]}})
}

pub(crate) fn pod(number: usize, ready: bool) -> Value {
    let status = if ready { "True" } else { "False" };
    let ip = format!("10.0.{}.{}", number / 250, 1 + number % 250);
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": format!("p{number}"), "namespace": "default", "labels": {"app": format!("a{number}")}},
        "spec": {"nodeName": "n", "containers": []},
        "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
            "conditions": [{"type": "Ready", "status": status}]}})
}

/// Checks that each Service has one slice and one Endpoints object, with its pod ready if
/// `is_ready`.
#[track_caller]
pub(crate) fn assert_right(server: &EmbeddedApiServer, services: usize, is_ready: impl Fn(usize) -> bool) {
    let slices = server.list("endpointslices");
    let mut by_service: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for slice in &slices {
        let owner = slice["metadata"]["labels"]["kubernetes.io/service-name"].as_str().unwrap();
        by_service.entry(owner).or_default().push(slice);
    }
    for number in 0..services {
        let name = format!("s{number}");
        let of_service = by_service.remove(&*name).unwrap_or_default();
        assert_eq!(of_service.len(), 1, "slices of {name}: {of_service:#?}");
        let ready = &of_service[0]["endpoints"][0]["conditions"]["ready"];
        assert_eq!(*ready, json!(is_ready(number)), "{name}");
        let endpoints = server.get("endpoints", "default", &name).unwrap();
        let part = if is_ready(number) { "addresses" } else { "notReadyAddresses" };
        assert!(endpoints["subsets"][0][part][0]["ip"].is_string(), "{name}: {endpoints:#}");
    }
    assert_eq!(slices.len(), services);
}

/// Starts the leader `a` and the standby `b`, and waits until the leader has written the outputs.
pub(crate) async fn leader_and_standby(
    server: &EmbeddedApiServer,
    settings: &Settings,
    edit_release: EditRelease,
) -> (Replica, Replica) {
    let leader = Replica::start_with(server, "a", settings, edit_release);
    leader.led().await;
    let standby = Replica::start(server, "b", settings);
    sleep(seconds(30)).await;
    assert!(leader.leads() && !standby.leads() && standby.handle.has_synced());
    (leader, standby)
}
