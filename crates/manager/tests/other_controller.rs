//! The warning about another controller that writes the same objects: it appears if there is one,
//! and never because of an earlier replica, a change of hands or a user.

use std::time::Duration;

use http::Request;
use http::header::{HeaderValue, USER_AGENT};
use kube::client::Body;
use kube_endpoint_controllers::{
    ApiClient, Gates, LeaderElectionSettings, Manager, ManagerError, ManagerHandle, ManagerStatus, Settings,
};
use kube_endpoint_core_model::Timestamp;
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_testing::Log;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tower::ServiceExt;
use tracing::Level;

use crate::failover::replica::{pod, service};

const SERVICES: usize = 3;
const UPSTREAM: &str = "kube-controller-manager/v1.36.2 (linux/amd64)";
const KUBECTL_EDIT: &str = "kubectl-edit/v1.36.2";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

struct Running {
    handle: ManagerHandle,
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), ManagerError>>,
}

impl Running {
    /// Starts a manager. Its requests have this user agent, or its own.
    fn start(server: &EmbeddedApiServer, settings: &Settings, agent: Option<&'static str>) -> Self {
        Self::start_at(server, settings, agent, server.now())
    }

    /// Starts a manager whose clock shows this time.
    fn start_at(
        server: &EmbeddedApiServer,
        settings: &Settings,
        agent: Option<&'static str>,
        now: Timestamp,
    ) -> Self {
        let service = server.service();
        let client = tower::service_fn(move |mut request: Request<Body>| {
            if let Some(agent) = agent {
                request.headers_mut().insert(USER_AGENT, HeaderValue::from_static(agent));
            }
            service.clone().oneshot(request)
        });
        let client = ApiClient::for_tests(client);
        let manager = Manager::new(client, settings, now, 1).unwrap();
        let handle = manager.handle();
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(manager.run(async move {
            let _ = stopped.await;
        }));
        Self { handle, stop, ended }
    }

    /// Starts a replica with leader election.
    fn replica(server: &EmbeddedApiServer, name: &str) -> Self {
        let mut settings = settings();
        let identity = Some(name.to_owned());
        settings.leader_election =
            Some(LeaderElectionSettings { identity, ..LeaderElectionSettings::default() });
        Self::start(server, &settings, None)
    }

    /// Starts the controllers of kube-controller-manager.
    fn upstream(server: &EmbeddedApiServer) -> Self {
        let mut settings = Settings::default();
        settings.gates = Gates::upstream();
        Self::start(server, &settings, Some(UPSTREAM))
    }

    fn leads(&self) -> bool {
        *self.handle.leading().borrow()
    }

    async fn stop(self) {
        self.stop.send(()).unwrap();
        self.ended.await.unwrap().unwrap();
    }

    async fn kill(self) {
        self.ended.abort();
        let _ = self.ended.await;
    }

    /// Returns what the controllers say of another one, as `controller name`.
    fn others(&self) -> Vec<String> {
        let ManagerStatus { controllers, .. } = self.handle.status();
        let others = controllers.iter().filter_map(|it| Some((it.name, it.other_controller.as_ref()?)));
        others.map(|(name, other)| format!("{name} {}", other.name)).collect()
    }

    /// Returns the number of writes of others that the controllers have seen.
    fn foreign_writes(&self) -> u64 {
        let controllers = self.handle.status().controllers;
        controllers.iter().flat_map(|it| &it.recent_foreign_writes).map(|write| write.count).sum()
    }
}

/// Returns settings with which the other controller always writes first.
fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.endpoints_batch_period = seconds(1);
    settings.endpoint_slice_batch_period = seconds(1);
    settings
}

fn server() -> EmbeddedApiServer {
    let server = EmbeddedApiServer::builder().seed(1).track_managers().build().unwrap();
    server.load([json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})]).unwrap();
    server.load((0..SERVICES).flat_map(|number| [service(number), pod(number, true)])).unwrap();
    server
}

/// Changes a pod every ten seconds.
async fn change_pods(server: &EmbeddedApiServer, times: std::ops::Range<usize>) {
    for time in times {
        server.load([pod(time % SERVICES, time / SERVICES % 2 == 1)]).unwrap();
        sleep(seconds(10)).await;
    }
}

/// Returns the number of warnings that name a controller.
fn warnings_about(name: &str, log: &Log) -> usize {
    let text = log.text();
    let is_warning = |line: &&str| line.contains(" WARN ") && line.contains("another controller writes");
    text.lines().filter(is_warning).filter(|line| line.contains(&format!("manager={name} "))).count()
}

#[tokio::test(start_paused = true)]
async fn two_controllers_that_agree_are_reported_once() {
    let log = Log::capture(Level::INFO);
    let server = server();
    let ours = Running::start(&server, &settings(), None);
    sleep(seconds(5)).await;
    let upstream = Running::upstream(&server);
    change_pods(&server, 0..10).await;
    assert!(ours.foreign_writes() > 10, "the other one writes first");
    assert_eq!(ours.others(), [""; 0], "one look proves nothing");
    change_pods(&server, 10..60).await;
    let seen = ["endpoints-controller", "endpointslice-controller"]
        .map(|name| format!("{name} kube-controller-manager"));
    assert_eq!(ours.others(), seen);
    assert_eq!(upstream.others(), [""; 0], "it writes first, so it sees no writes of ours");
    assert_eq!(warnings_about("kube-controller-manager", &log), 2, "once for each kind");
    upstream.stop().await;
    sleep(seconds(3700)).await;
    assert_eq!(ours.others(), [""; 0], "it has gone");
}

#[tokio::test(start_paused = true)]
async fn an_earlier_replica_is_no_other_controller() {
    let log = Log::capture(Level::INFO);
    let server = server();
    let first = Running::replica(&server, "a");
    sleep(seconds(20)).await;
    let second = Running::replica(&server, "b");
    change_pods(&server, 0..20).await;
    assert!(first.leads() && !second.leads());
    // A rolling upgrade.
    first.stop().await;
    let third = Running::replica(&server, "c");
    change_pods(&server, 20..40).await;
    assert!(second.leads());
    second.kill().await;
    change_pods(&server, 40..80).await;
    assert!(third.leads());
    // Its own name, whichever replica wrote: a lost answer looks the same.
    let agent = "kube-endpoint-manager/0.1.0 (linux/amd64)";
    for number in 0..40 {
        edit(&server, agent, number % SERVICES).await;
        sleep(seconds(30)).await;
    }
    assert!(third.foreign_writes() > 10, "the writes are seen");
    assert_eq!(third.others(), [""; 0]);
    assert_eq!(warnings_about("kube-endpoint-manager", &log), 0);
}

#[tokio::test(start_paused = true)]
async fn a_take_over_from_upstream_is_no_other_controller() {
    a_take_over_from_upstream(seconds(0)).await;
}

#[tokio::test(start_paused = true)]
async fn a_take_over_is_no_other_controller_for_a_clock_that_is_late() {
    a_take_over_from_upstream(seconds(600)).await;
}

/// Takes over from kube-controller-manager. The clock of the manager is late by this much.
async fn a_take_over_from_upstream(late: Duration) {
    let server = server();
    let upstream = Running::upstream(&server);
    change_pods(&server, 0..10).await;
    let ours = Running::start_at(&server, &settings(), None, server.now() - late);
    change_pods(&server, 10..12).await;
    upstream.stop().await;
    assert!(ours.foreign_writes() > 0, "both ran for a moment");
    // Objects keep the name of their last writer, and a user annotates them.
    for number in 0..40 {
        let note = json!({"metadata": {"annotations": {"note": number.to_string()}}});
        patch(&server, "kubectl-annotate/v1.36.2", number % SERVICES, &note).await;
        sleep(seconds(30)).await;
    }
    assert!(ours.foreign_writes() >= 40);
    assert_eq!(ours.others(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_user_who_edits_is_no_other_controller() {
    let server = server();
    let ours = Running::start(&server, &settings(), None);
    sleep(seconds(100)).await;
    edit(&server, KUBECTL_EDIT, 0).await;
    sleep(seconds(600)).await;
    assert_eq!(ours.foreign_writes(), 1);
    for number in 0..40 {
        edit(&server, KUBECTL_EDIT, number % SERVICES).await;
        sleep(seconds(70)).await;
    }
    assert!(ours.foreign_writes() > 10, "the writes are seen");
    assert_eq!(ours.others(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_a_service_without_a_selector_are_anybodys() {
    let server = server();
    let mut service = service(0);
    service["metadata"]["name"] = "s9".into();
    service["spec"]["selector"] = Value::Null;
    server.load([service]).unwrap();
    let ours = Running::start(&server, &settings(), None);
    sleep(seconds(100)).await;
    // An operator copies Endpoints with the label of the controller.
    let labels = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    let copy = json!({"metadata": {"name": "s9", "labels": labels}});
    let request = Request::post("/api/v1/namespaces/default/endpoints")
        .header(USER_AGENT, "operator/1.0")
        .header("content-type", "application/json")
        .body(Body::from(copy.to_string().into_bytes()));
    assert!(server.service().oneshot(request.unwrap()).await.unwrap().status().is_success());
    for number in 0..20 {
        let address = format!("192.0.2.{number}");
        let subsets = json!({"subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 1}]}]});
        patch(&server, "operator/1.0", 9, &subsets).await;
        sleep(seconds(70)).await;
    }
    assert!(ours.foreign_writes() >= 20, "the writes are seen");
    assert_eq!(ours.others(), [""; 0]);
}

/// Changes the Endpoints of a Service.
async fn edit(server: &EmbeddedApiServer, agent: &'static str, number: usize) {
    let subsets = json!({"subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 1}]}]});
    patch(server, agent, number, &subsets).await;
}

async fn patch(server: &EmbeddedApiServer, agent: &'static str, number: usize, patch: &Value) {
    let request = Request::patch(format!("/api/v1/namespaces/default/endpoints/s{number}"))
        .header("content-type", "application/merge-patch+json")
        .header(USER_AGENT, agent)
        .body(Body::from(patch.to_string().into_bytes()));
    let answer = server.service().oneshot(request.unwrap()).await.unwrap();
    assert!(answer.status().is_success(), "{answer:?}");
}
