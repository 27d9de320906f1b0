//! An API server does not serve the resources of some controllers.

use std::time::Duration;

use kube_endpoint_controllers::{ApiClient, ControllerName, LeaderElectionSettings, Manager, Settings};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, RequestInfo};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio::time::sleep;

const GROUP: &str = "discovery.k8s.io";
const SELECTOR_GROUP: &str = "kube-endpoint-manager.github.io";

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

/// Adds a ready pod, an EndpointSelector that selects it, and a Service that names the selector.
async fn attach_a_service(server: &EmbeddedApiServer) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "a", "namespace": "default", "labels": {"app": "db"}, "uid": "a"},
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
            "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node", "uid": "node"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    server.load([pod, node]).unwrap();
    let selector = json!({
        "apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
        "metadata": {"name": "db", "namespace": "default"}, "spec": {"selector": {"matchLabels": {"app": "db"}}},
    });
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "default",
            "annotations": {"kube-endpoint-manager.github.io/endpoint-selector": "db"}},
        "spec": {"ports": [{"port": 5432}]},
    });
    for object in [selector, service] {
        server.create(object).await.unwrap();
    }
}

/// Returns the number of slices of the Service that [`attach_a_service`] adds.
fn slices_of_selectors(server: &EmbeddedApiServer) -> usize {
    let slices = server.list("endpointslices").into_iter();
    slices.filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == "db").count()
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_that_appears_right_after_the_start_is_used_within_seconds() {
    for mut settings in [Settings::default(), electing()] {
        settings.controllers = vec![ControllerName::EndpointSelector];
        let server = server().await;
        attach_a_service(&server).await;
        server.hide_group(SELECTOR_GROUP);
        let (cluster, manager) = start_with(&server, &settings);
        sleep(seconds(2)).await;
        assert!(cluster.has_synced(), "what is not served is not waited for");
        assert_eq!(slices_of_selectors(&server), 0);
        server.show_group(SELECTOR_GROUP);
        sleep(seconds(10)).await;
        assert_eq!(watched(&server), "endpointselectors endpointslices nodes pods services");
        assert_eq!(slices_of_selectors(&server), 1);
        manager.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_custom_resource_no_controller_waits() {
    let mut settings = Settings::default();
    settings.controllers = ControllerName::ALL.to_vec();
    let server = server().await;
    attach_a_service(&server).await;
    server.hide_group(SELECTOR_GROUP);
    let client = ApiClient::for_tests(server.service());
    let manager = Manager::new(client, &settings, server.now(), 1).unwrap();
    let handle = manager.handle();
    let running = tokio::spawn(async move { manager.run(std::future::pending()).await.unwrap() });
    sleep(seconds(10)).await;
    assert!(handle.status().controllers.iter().all(|it| it.waits_for.is_none()));
    assert!(handle.has_synced());
    assert_eq!((server.count("endpoints"), server.count("endpointslices")), (1, 1));
    assert_eq!(slices_of_selectors(&server), 0);
    server.show_group(SELECTOR_GROUP);
    sleep(seconds(60)).await;
    assert_eq!(slices_of_selectors(&server), 1);
    running.abort();
}

#[tokio::test(start_paused = true)]
async fn a_custom_resource_that_is_not_served_any_more_stops_nothing() {
    let mut settings = Settings::default();
    settings.controllers = ControllerName::ALL.to_vec();
    let server = server().await;
    attach_a_service(&server).await;
    let (cluster, manager) = start_with(&server, &settings);
    sleep(seconds(10)).await;
    assert_eq!(slices_of_selectors(&server), 1);
    server.hide_group(SELECTOR_GROUP);
    server.close_watches();
    sleep(seconds(60)).await;
    let failure = cluster.status(kube_endpoint_informer::Kind::EndpointSelectors).failure;
    assert_eq!(failure.unwrap().code, Some(404));
    // A 404 is not an empty list: the selector that was read last still counts.
    let unready = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "b", "namespace": "default", "labels": {"app": "db"}, "uid": "b"},
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running", "podIP": "10.1.0.2", "podIPs": [{"ip": "10.1.0.2"}],
            "conditions": [{"type": "Ready", "status": "True"}]}});
    server.load([unready]).unwrap();
    let other = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "other", "namespace": "default"},
        "spec": {"selector": {"app": "other"}, "ports": [{"port": 80}]}});
    server.create(other).await.unwrap();
    sleep(seconds(5)).await;
    let endpoints = |name: &str| {
        let slices = server.list("endpointslices").into_iter();
        let mut slices =
            slices.filter(|slice| slice["metadata"]["labels"]["kubernetes.io/service-name"] == name);
        slices.next().map(|slice| slice["endpoints"].as_array().map_or(0, Vec::len))
    };
    assert_eq!((endpoints("db"), endpoints("other")), (Some(2), Some(0)));
    server.show_group(SELECTOR_GROUP);
    let mut selector = server.get("endpointselectors", "default", "db").unwrap();
    selector["spec"]["selector"]["matchLabels"]["app"] = json!("nobody");
    server.load([selector]).unwrap();
    sleep(seconds(60)).await;
    assert_eq!(endpoints("db"), Some(0));
    assert!(!manager.is_finished());
    manager.abort();
}

/// Somebody has deleted the CustomResourceDefinition, and the process starts again.
#[tokio::test(start_paused = true)]
async fn after_a_restart_without_the_custom_resource_endpoints_still_leave() {
    for mut settings in [Settings::default(), electing()] {
        settings.controllers = vec![ControllerName::EndpointSelector];
        let server = server().await;
        attach_a_service(&server).await;
        let (_, before) = start_with(&server, &settings);
        sleep(seconds(10)).await;
        before.abort();
        server.hide_group(SELECTOR_GROUP);
        let (cluster, manager) = start_with(&server, &settings);
        // Only a Lease that somebody holds makes it wait.
        sleep(seconds(if settings.leader_election.is_some() { 20 } else { 1 })).await;
        assert!(cluster.has_synced());
        let ready = || {
            let slices = server.list("endpointslices");
            let endpoints = slices.iter().filter_map(|slice| slice["endpoints"].as_array()).flatten();
            endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).count()
        };
        assert_eq!(ready(), 1);
        let mut pod = server.get("pods", "default", "a").unwrap();
        pod["status"]["conditions"][0]["status"] = json!("False");
        server.load([pod.clone()]).unwrap();
        sleep(seconds(5)).await;
        assert_eq!(ready(), 0);
        pod["status"]["conditions"][0]["status"] = json!("True");
        server.load([pod]).unwrap();
        sleep(seconds(5)).await;
        assert_eq!(ready(), 1, "its endpoint comes back");
        server.show_group(SELECTOR_GROUP);
        sleep(seconds(60)).await;
        assert_eq!(ready(), 1);
        assert!(!manager.is_finished());
        manager.abort();
    }
}

/// The previous controller left a slice, one of whose two pods is gone, and no slice is own.
#[tokio::test(start_paused = true)]
async fn without_the_custom_resource_the_dead_leave_the_slices_of_others() {
    let mut settings = Settings::default();
    settings.controllers = vec![ControllerName::EndpointSelector];
    let server = server().await;
    attach_a_service(&server).await;
    server.hide_group(SELECTOR_GROUP);
    let uid = &server.get("services", "default", "db").unwrap()["metadata"]["uid"];
    let endpoint = |pod: &str, address: &str| {
        json!({"addresses": [address], "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "namespace": "default", "name": pod, "uid": pod}})
    };
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": "db-x7k2p", "generateName": "db-", "namespace": "default",
            "labels": {"kubernetes.io/service-name": "db",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "db", "uid": uid, "controller": true,
                "blockOwnerDeletion": true}],
            "managedFields": [{"manager": "kube-controller-manager", "operation": "Update", "fieldsType": "FieldsV1",
                "apiVersion": "discovery.k8s.io/v1", "fieldsV1": {"f:endpoints": {}, "f:ports": {}}}],
        },
        "endpoints": [endpoint("a", "10.1.0.1"), endpoint("gone", "10.1.0.9")],
        "ports": [{"name": "", "port": 5432, "protocol": "TCP"}],
    });
    server.load([slice]).unwrap();
    // The server's first answers tell nothing.
    let of_group = |path: &str| path.contains(SELECTOR_GROUP) || path == "/api/v1";
    let fault = Fault::Refuse { status: 503, retry_after: None };
    server.add_fault(FaultRule::new(fault, move |request| of_group(&request.path)).times(2));
    let (_, manager) = start_with(&server, &settings);
    sleep(seconds(5)).await;
    let left = &server.get("endpointslices", "default", "db-x7k2p").unwrap()["endpoints"];
    let names: Vec<_> = left.as_array().unwrap().iter().map(|it| &it["targetRef"]["name"]).collect();
    assert_eq!(names, ["a"]);
    manager.abort();
}

/// Of two namespaces, the one is listed at once, and the other after the server has answered 404.
#[tokio::test(start_paused = true)]
async fn selectors_of_a_namespace_stay_that_were_listed_before_the_others() {
    let mut settings = Settings::default();
    settings.controllers = vec![ControllerName::EndpointSelector];
    settings.namespaces = ["default", "shop"].map(str::to_owned).to_vec();
    let server = server().await;
    let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    server.load([shop]).unwrap();
    attach_a_service(&server).await;
    let is_late =
        |request: &RequestInfo| request.plural() == "endpointselectors" && request.namespace == "shop";
    let not_found = Fault::Refuse { status: 404, retry_after: None };
    server.add_fault(FaultRule::new(not_found, is_late).times(2));
    let (_, manager) = start_with(&server, &settings);
    sleep(seconds(20)).await;
    assert_eq!(slices_of_selectors(&server), 1);
    let slices = server.list("endpointslices");
    let endpoints = slices.iter().filter_map(|slice| slice["endpoints"].as_array()).flatten().count();
    assert_eq!(endpoints, 1);
    manager.abort();
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
    let is_version = |request: &RequestInfo| {
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
        assert_eq!(asked, 8, "{fault:?}");
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
