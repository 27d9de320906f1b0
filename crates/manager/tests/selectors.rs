//! The endpoint selector controller in one process with the others, which hand Services over to it
//! and take them back.

use std::time::Duration;

use http::{Method, Request};
use kube::client::Body;
use kube_endpoint_controllers::{ApiClient, ControllerName, Manager, Settings, metrics_recorder};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tower::ServiceExt;

const ANNOTATION: &str = "kube-endpoint-manager.github.io/endpoint-selector";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const PODS: [&str; 2] = ["10.1.0.1", "10.1.0.2"];

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn pod(name: &str, address: &str, track: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": "web", "track": track}},
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// Returns a server with three ready pods, one of them a canary, a Service that selects all three,
/// and an EndpointSelector that leaves the canary out.
async fn server() -> EmbeddedApiServer {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node", "uid": "node"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let pods = [pod("a", PODS[0], "stable"), pod("b", PODS[1], "stable"), pod("c", "10.1.0.3", "canary")];
    let server = EmbeddedApiServer::builder().seed(1).track_managers().load(pods.into_iter().chain([node]));
    let server = server.build().unwrap();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    let selector = json!({
        "apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
        "metadata": {"name": "stable", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "track", "operator": "NotIn", "values": ["canary"]}]}},
    });
    for object in [service, selector] {
        server.create(object).await.unwrap();
    }
    server
}

fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.controllers = ControllerName::ALL.to_vec();
    settings
}

fn start(server: &EmbeddedApiServer, settings: &Settings) -> JoinHandle<()> {
    let manager = Manager::new(ApiClient::for_tests(server.service()), settings, server.now(), 1).unwrap();
    tokio::spawn(async move { manager.run(std::future::pending()).await.unwrap() })
}

async fn patch(server: &EmbeddedApiServer, path: &str, body: &Value) {
    let request = Request::builder().method(Method::PATCH).uri(path);
    let request = request.header("content-type", "application/merge-patch+json");
    let request = request.body(Body::from(body.to_string().into_bytes())).unwrap();
    let answer = server.service().oneshot(request).await.unwrap();
    assert!(answer.status().is_success(), "{}", answer.status());
}

async fn patch_service(server: &EmbeddedApiServer, selector: Value, names: Value) {
    let body = json!({"metadata": {"annotations": {ANNOTATION: names}}, "spec": {"selector": selector}});
    patch(server, "/api/v1/namespaces/default/services/web", &body).await;
}

async fn attach(server: &EmbeddedApiServer) {
    patch_service(server, Value::Null, json!("stable")).await;
}

/// Returns the slices: the first word of the manager, and the number of endpoints. Sorted.
fn slices(server: &EmbeddedApiServer) -> Vec<String> {
    let slice = |slice: Value| {
        let manager = slice["metadata"]["labels"][MANAGED_BY].as_str().unwrap_or_default();
        let manager = manager.split('.').next().unwrap_or_default();
        format!("{manager} {}", slice["endpoints"].as_array().map_or(0, Vec::len))
    };
    let mut slices: Vec<String> = server.list("endpointslices").into_iter().map(slice).collect();
    slices.sort();
    slices
}

/// Passes some seconds. No moment finds a stable pod without a ready endpoint, or a mirrored slice.
async fn pass_without_a_gap(server: &EmbeddedApiServer, time: u64) {
    for _ in 0..time * 100 {
        sleep(Duration::from_millis(10)).await;
        let all = server.list("endpointslices");
        let endpoints = all.iter().filter_map(|slice| slice["endpoints"].as_array()).flatten();
        let ready: Vec<&Value> = endpoints.filter(|it| it["conditions"]["ready"] != false).collect();
        for address in PODS {
            assert!(ready.iter().any(|it| it["addresses"][0] == address), "{address}: {:?}", slices(server));
        }
        assert!(slices(server).iter().all(|it| !it.starts_with("endpointslicemirroring")));
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_changes_hands_within_one_process_both_ways() {
    let server = server().await;
    let manager = start(&server, &settings());
    sleep(seconds(5)).await;
    assert_eq!(slices(&server), ["endpointslice-controller 3"]);
    for _ in 0..2 {
        attach(&server).await;
        pass_without_a_gap(&server, 10).await;
        assert_eq!(slices(&server), ["endpoint-selector 2"]);
        assert_eq!(server.count("endpoints"), 0);
        patch_service(&server, json!({"app": "web"}), Value::Null).await;
        pass_without_a_gap(&server, 10).await;
        assert_eq!(slices(&server), ["endpointslice-controller 3"]);
        assert_eq!(server.count("endpoints"), 1);
    }
    assert!(!manager.is_finished());
    manager.abort();
}

#[tokio::test(start_paused = true)]
async fn a_held_take_over_keeps_the_former_slices_and_adds_no_mirrored_ones() {
    let server = server().await;
    let manager = start(&server, &settings());
    sleep(seconds(5)).await;
    let selector =
        "/apis/kube-endpoint-manager.github.io/v1alpha1/namespaces/default/endpointselectors/stable";
    let matching = |app: &str| json!({"spec": {"selector": {"matchLabels": {"app": app}}}});
    patch(&server, selector, &matching("typo")).await;
    attach(&server).await;
    pass_without_a_gap(&server, 60).await;
    assert_eq!(slices(&server), ["endpoint-selector 0", "endpointslice-controller 3"]);
    assert_eq!(server.count("endpoints"), 1);
    patch(&server, selector, &matching("web")).await;
    pass_without_a_gap(&server, 10).await;
    assert_eq!(slices(&server), ["endpoint-selector 2"]);
    manager.abort();
}

/// Without the annotation, the Endpoints that are left are mirrored, as kube-controller-manager
/// does. The slices that come of it stay while a take-over is held.
#[tokio::test(start_paused = true)]
async fn mirrored_slices_stay_until_an_own_endpoint_is_ready() {
    let server = server().await;
    let manager = start(&server, &settings());
    sleep(seconds(5)).await;
    patch_service(&server, Value::Null, Value::Null).await;
    sleep(seconds(10)).await;
    assert_eq!(slices(&server), ["endpointslicemirroring-controller 3"]);
    patch_service(&server, Value::Null, json!("missing")).await;
    sleep(seconds(60)).await;
    assert_eq!(slices(&server), ["endpointslicemirroring-controller 3"]);
    attach(&server).await;
    sleep(seconds(10)).await;
    assert_eq!(slices(&server), ["endpoint-selector 2"]);
    assert_eq!(server.count("endpoints"), 0);
    manager.abort();
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_a_user_are_mirrored_beside() {
    let server = server().await;
    let manager = start(&server, &settings());
    sleep(seconds(5)).await;
    attach(&server).await;
    sleep(seconds(5)).await;
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web", "namespace": "default"},
        "subsets": [{"addresses": [{"ip": "10.7.7.7"}], "ports": [{"port": 80}]}]});
    server.create(endpoints).await.unwrap();
    sleep(seconds(10)).await;
    assert_eq!(slices(&server), ["endpoint-selector 2", "endpointslicemirroring-controller 1"]);
    manager.abort();
}

/// Beside kube-controller-manager a dry run plans the slices, and then the deletions that complete
/// the take-over of slices that somebody else has written.
#[tokio::test(start_paused = true)]
async fn a_dry_run_writes_nothing_and_counts_what_it_would_write() {
    let server = server().await;
    let mut beside = Settings::default();
    beside.controllers = ControllerName::DEFAULT.to_vec();
    let others = start(&server, &beside);
    sleep(seconds(5)).await;
    attach(&server).await;
    sleep(seconds(10)).await;
    let before = slices(&server);
    assert_eq!(before, ["endpointslicemirroring-controller 3"]);
    let mut dry = Settings::default();
    dry.controllers = vec![ControllerName::EndpointSelector];
    dry.dry_run = true;
    let recorder = metrics_recorder().unwrap();
    let metrics = recorder.handle();
    let shadow = metrics::with_local_recorder(&recorder, || {
        Manager::new(ApiClient::for_tests(server.service()), &dry, server.now(), 2).unwrap()
    });
    server.clear_request_log();
    let shadow = tokio::spawn(async move { shadow.run(std::future::pending()).await.unwrap() });
    sleep(seconds(100)).await;
    assert_eq!(slices(&server), before);
    let writes = server.request_log().into_iter().filter(|entry| entry.request.is_write());
    assert_eq!(writes.map(|entry| entry.request.path).collect::<Vec<_>>(), [""; 0]);
    let text = metrics.render();
    let line = "dry_run_differences{controller=\"endpoint-selector-controller\",kind=\"EndpointSlice\"} 1";
    assert!(text.contains(line), "{text}");
    shadow.abort();
    others.abort();
}
