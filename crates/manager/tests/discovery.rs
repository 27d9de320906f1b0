//! An API server does not serve the resources of some controllers.

use std::time::Duration;

use kube_endpoint_controllers::{ApiClient, LeaderElectionSettings, Manager, Settings};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const GROUP: &str = "discovery.k8s.io";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

async fn server() -> EmbeddedApiServer {
    let server = EmbeddedApiServer::builder().seed(1).build().unwrap();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    server.create(service).await.unwrap();
    server
}

fn start(server: &EmbeddedApiServer) -> (kube_endpoint_informer::Cluster, JoinHandle<()>) {
    start_with(server, &Settings::default())
}

/// Returns settings with leader election.
fn electing() -> Settings {
    let mut settings = Settings::default();
    settings.leader_election = Some(LeaderElectionSettings::default());
    settings
}

fn start_with(
    server: &EmbeddedApiServer,
    settings: &Settings,
) -> (kube_endpoint_informer::Cluster, JoinHandle<()>) {
    let client = ApiClient::for_tests(server.service());
    let manager = Manager::new(client, settings, server.now(), 1).unwrap();
    let cluster = manager.cluster().clone();
    (cluster, tokio::spawn(async move { manager.run(std::future::pending()).await.unwrap() }))
}

/// Returns the kinds that the manager has listed or watched, sorted, without the Lease.
fn watched(server: &EmbeddedApiServer) -> String {
    let log = server.request_log();
    let watches = log.iter().filter(|entry| matches!(entry.request.verb, "list" | "watch"));
    let mut kinds: Vec<&str> = watches.map(|entry| entry.request.plural()).collect();
    kinds.retain(|kind| *kind != "leases");
    kinds.sort_unstable();
    kinds.dedup();
    kinds.join(" ")
}

#[tokio::test(start_paused = true)]
async fn a_controller_is_started_when_its_resources_appear() {
    for settings in [Settings::default(), electing()] {
        let server = server().await;
        server.hide_group(GROUP);
        let (cluster, manager) = start_with(&server, &settings);
        sleep(seconds(200)).await;
        assert_eq!(watched(&server), "endpoints pods services");
        assert!(cluster.has_synced(), "what is not served is not waited for");
        assert_eq!((server.count("endpoints"), server.count("endpointslices")), (1, 0));
        server.show_group(GROUP);
        sleep(seconds(90)).await;
        assert_eq!(watched(&server), "endpoints endpointslices nodes pods services");
        assert!(cluster.has_synced());
        assert_eq!(server.count("endpointslices"), 1);
        assert!(!manager.is_finished());
        manager.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_begins_although_the_lists_of_its_outputs_are_answered_with_404() {
    let server = server().await;
    server.hide_group(GROUP);
    // After this answer, discovery takes the group for served.
    let of_discovery = |path: &str| path == "/apis/discovery.k8s.io/v1";
    let refuse = Fault::Refuse { status: 503, retry_after: None };
    server.add_fault(FaultRule::new(refuse, move |request| of_discovery(&request.path)));
    let (_, manager) = start_with(&server, &electing());
    sleep(seconds(60)).await;
    let is_version = |request: &kube_endpoint_embedded_apiserver::RequestInfo| {
        request.plural() == "endpointslices" && request.parameter("limit").as_deref() == Some("1")
    };
    let asked = server.request_log().iter().filter(|entry| is_version(&entry.request)).count();
    assert_eq!(asked, 1, "the version is not asked for again after a 404");
    assert_eq!(server.count("endpoints"), 1);
    manager.abort();
}

#[tokio::test(start_paused = true)]
async fn only_a_success_ends_the_waiting() {
    let faults = [
        Fault::Refuse { status: 403, retry_after: None },
        Fault::Refuse { status: 503, retry_after: None },
        Fault::LoseRequest,
        Fault::NeverAnswer { applied: false },
    ];
    for fault in faults {
        let server = server().await;
        server.hide_group(GROUP);
        let (cluster, manager) = start(&server);
        sleep(seconds(10)).await;
        let of_discovery = |path: &str| path == "/apis/discovery.k8s.io/v1";
        server.add_fault(FaultRule::new(fault.clone(), move |request| of_discovery(&request.path)).times(2));
        sleep(seconds(150)).await;
        let asked = server.request_log().iter().filter(|entry| of_discovery(&entry.request.path)).count();
        assert_eq!(asked, 3, "{fault:?}");
        assert_eq!(watched(&server), "endpoints pods services", "{fault:?}");
        assert!(cluster.has_synced());
        server.show_group(GROUP);
        sleep(seconds(90)).await;
        assert_eq!(server.count("endpointslices"), 1, "{fault:?}");
        manager.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn everything_is_started_after_any_other_answer() {
    let faults = [
        Fault::Refuse { status: 403, retry_after: None },
        Fault::Refuse { status: 401, retry_after: None },
        Fault::Refuse { status: 429, retry_after: Some(1) },
        Fault::Refuse { status: 500, retry_after: None },
        Fault::Refuse { status: 503, retry_after: None },
        Fault::LoseRequest,
        Fault::NeverAnswer { applied: false },
    ];
    for fault in faults {
        let server = server().await;
        let of_discovery = |path: &str| path == "/apis/discovery.k8s.io/v1" || path == "/api/v1";
        server.add_fault(FaultRule::new(fault.clone(), move |request| of_discovery(&request.path)));
        let (_, manager) = start(&server);
        sleep(seconds(30)).await;
        let asked = server.request_log().iter().filter(|entry| of_discovery(&entry.request.path)).count();
        assert_eq!(asked, 2, "{fault:?}: both group versions, once");
        assert_eq!(watched(&server), "endpoints endpointslices nodes pods services", "{fault:?}");
        assert_eq!((server.count("endpoints"), server.count("endpointslices")), (1, 1), "{fault:?}");
        manager.abort();
    }
}
