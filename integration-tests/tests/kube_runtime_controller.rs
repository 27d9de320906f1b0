//! Example: how to test a controller of your own, built on kube-runtime, on the embedded API
//! server.
//!
//! The controller writes the number of ready pods of each Service into an annotation. It knows
//! nothing of this project; its client calls the server in process. Under tokio's paused clock the
//! tests run through minutes of watches, backoff and retries in milliseconds.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule};
use kube_runtime::controller::{Action, Controller};
use kube_runtime::reflector::ObjectRef;
use kube_runtime::watcher;
use serde_json::{Value, json};

const ANNOTATION: &str = "example.com/ready-pods";

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|it| it.type_ == "Ready" && it.status == "True"))
}

async fn reconcile(service: Arc<Service>, client: Arc<Client>) -> Result<Action, kube::Error> {
    let namespace = service.namespace().unwrap_or_default();
    let selector = service.spec.iter().filter_map(|spec| spec.selector.as_ref()).flatten();
    let labels: Vec<String> = selector.map(|(key, value)| format!("{key}={value}")).collect();
    let pods: Api<Pod> = Api::namespaced((*client).clone(), &namespace);
    let pods = pods.list(&ListParams::default().labels(&labels.join(","))).await?;
    let count = pods.iter().filter(|pod| is_ready(pod)).count().to_string();
    if service.annotations().get(ANNOTATION) != Some(&count) {
        let patch = json!({"metadata": {"annotations": {ANNOTATION: count}}});
        let services: Api<Service> = Api::namespaced((*client).clone(), &namespace);
        services.patch(&service.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
    }
    Ok(Action::await_change())
}

fn retry(_: Arc<Service>, _: &kube::Error, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_secs(5))
}

/// The controller. Its pods carry the name of their Service in the label `app`.
async fn run(client: Client, config: watcher::Config) {
    let service_of = |pod: Pod| {
        let service = pod.labels().get("app")?.clone();
        Some(ObjectRef::new(&service).within(&pod.namespace()?))
    };
    Controller::new(Api::<Service>::all(client.clone()), config.clone())
        .watches(Api::<Pod>::all(client.clone()), config, service_of)
        .run(reconcile, retry, Arc::new(client))
        .for_each(|_| async {})
        .await;
}

fn service() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    })
}

fn pod(name: &str, ready: bool) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause"}]},
        "status": {"conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}]},
    })
}

/// Returns a server with the Service `web`, and the controller running on it.
fn start(config: watcher::Config) -> EmbeddedApiServer {
    let server = EmbeddedApiServer::builder().seed(1).load([service()]).build().unwrap();
    tokio::spawn(run(Client::new(server.service(), "default"), config));
    server
}

/// Returns the annotation of the Service `web` after `seconds` of the paused clock.
async fn count_after(server: &EmbeddedApiServer, seconds: u64) -> Value {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    server.get("services", "default", "web").unwrap()["metadata"]["annotations"][ANNOTATION].clone()
}

#[tokio::test(start_paused = true)]
async fn it_counts_ready_pods_and_writes_only_changes() {
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let server = start(config);
        assert_eq!(count_after(&server, 5).await, "0");
        server.load([pod("a", true), pod("b", true), pod("c", false)]).unwrap();
        assert_eq!(count_after(&server, 5).await, "2");
        server.load([pod("b", false)]).unwrap();
        assert_eq!(count_after(&server, 5).await, "1");
        server.clear_request_log();
        count_after(&server, 600).await;
        assert!(server.writes().is_empty(), "{:?}", server.writes());
    }
}

#[tokio::test(start_paused = true)]
async fn it_recovers_from_faults_of_the_server() {
    for (fault, verb, plural, times) in [
        (Fault::Refuse { status: 500, retry_after: None }, "patch", "services", 3),
        (Fault::ApplyAndLoseAnswer, "patch", "services", 1),
        (Fault::BreakWatch { after: 1 }, "watch", "pods", 2),
        (Fault::ExpireWatch, "watch", "pods", 2),
        (Fault::StallWatch(Duration::from_secs(20)), "watch", "pods", 1),
    ] {
        let text = format!("{fault:?}");
        let server = start(watcher::Config::default());
        assert_eq!(count_after(&server, 5).await, "0");
        let hits = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&hits);
        let rule = FaultRule::new(fault, move |request| {
            let matches = request.verb == verb && request.plural() == plural;
            counter.fetch_add(usize::from(matches), Ordering::Relaxed);
            matches
        });
        server.add_fault(rule.times(times));
        server.close_watches();
        server.load([pod("a", true), pod("b", true)]).unwrap();
        assert_eq!(count_after(&server, 120).await, "2", "{text}");
        assert!(hits.load(Ordering::Relaxed) >= times, "{text}: {hits:?} requests");
    }
}
