//! Tests a controller that is not part of this project, with the server as a fixture.
//!
//! The controller counts the ready pods of each Service that carries the label `count=yes` and
//! writes the number into an annotation. It uses only kube's `Api` and does not depend on this
//! server. The tests show the use of the fixture: virtual time, faults, and assertions on requests.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule};
use serde_json::json;

const ANNOTATION: &str = "example.com/ready-pods";

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|c| c.type_ == "Ready" && c.status == "True"))
}

/// Updates every annotation.
async fn reconcile(client: &Client) -> Result<(), kube::Error> {
    let services: Api<Service> = Api::all(client.clone());
    for service in services.list(&ListParams::default().labels("count=yes")).await? {
        let namespace = service.namespace().unwrap_or_default();
        let selector = service.spec.as_ref().and_then(|spec| spec.selector.clone()).unwrap_or_default();
        let labels: Vec<String> = selector.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        let ready = pods.list(&ListParams::default().labels(&labels.join(","))).await?;
        let count = ready.iter().filter(|pod| is_ready(pod)).count().to_string();
        if service.annotations().get(ANNOTATION) != Some(&count) {
            let patch = json!({"metadata": {"annotations": {ANNOTATION: count}}});
            let services: Api<Service> = Api::namespaced(client.clone(), &namespace);
            services.patch(&service.name_any(), &PatchParams::default(), &Patch::Merge(&patch)).await?;
        }
    }
    Ok(())
}

/// Runs the controller, which reconciles at the start and after each change of a pod, and restarts
/// when a watch ends or a request fails.
async fn run(client: Client) {
    loop {
        let result = async {
            let pods: Api<Pod> = Api::all(client.clone());
            let version =
                pods.list(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
            reconcile(&client).await?;
            let mut events = pods.watch(&WatchParams::default(), &version).await?.boxed();
            while let Some(event) = events.try_next().await? {
                if let WatchEvent::Error(status) = event {
                    return Err(kube::Error::Api(status));
                }
                reconcile(&client).await?;
            }
            Ok(())
        };
        if result.await.is_err() {
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
}

fn service() -> Service {
    serde_json::from_value(json!({
        "metadata": {"name": "web", "labels": {"count": "yes"}},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    }))
    .unwrap()
}

fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "registry.k8s.io/pause"}]},
    }))
    .unwrap()
}

struct RunningController {
    server: EmbeddedApiServer,
    pods: Api<Pod>,
}

impl RunningController {
    /// Returns a server with one Service, and the controller running on it.
    async fn start() -> Self {
        let server = EmbeddedApiServer::builder().seed(42).build().unwrap();
        let client = Client::new(server.service(), "default");
        let services: Api<Service> = Api::default_namespaced(client.clone());
        services.create(&PostParams::default(), &service()).await.unwrap();
        tokio::spawn(run(client.clone()));
        Self { server, pods: Api::default_namespaced(client) }
    }

    async fn add_ready_pod(&self, name: &str) {
        self.pods.create(&PostParams::default(), &pod(name)).await.unwrap();
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        self.pods.patch_status(name, &PatchParams::default(), &Patch::Merge(&ready)).await.unwrap();
    }

    /// Advances virtual time and reads the annotation.
    async fn count_after(&self, seconds: u64) -> Option<String> {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let service = self.server.get("services", "default", "web").unwrap();
        service["metadata"]["annotations"][ANNOTATION].as_str().map(str::to_owned)
    }
}

#[tokio::test(start_paused = true)]
async fn ready_pods_are_counted() {
    let running = RunningController::start().await;
    assert_eq!(running.count_after(1).await.as_deref(), Some("0"));
    running.add_ready_pod("a").await;
    running.add_ready_pod("b").await;
    assert_eq!(running.count_after(1).await.as_deref(), Some("2"));
    running.pods.delete("a", &Default::default()).await.unwrap();
    assert_eq!(running.count_after(1).await.as_deref(), Some("1"));
    running.server.clear_request_log();
    running.count_after(600).await;
    assert_eq!(running.server.writes(), BTreeMap::new(), "without a change the controller writes nothing");
}

#[tokio::test(start_paused = true)]
async fn the_controller_recovers_from_faults() {
    for fault in [
        FaultRule::on(Fault::Refuse { status: 500, retry_after: None }, "patch", "services").times(3),
        FaultRule::on(Fault::ApplyAndLoseAnswer, "patch", "services").times(1),
        FaultRule::on(Fault::BreakWatch { after: 1 }, "watch", "pods").times(2),
        FaultRule::on(Fault::ExpireWatch, "watch", "pods").times(2),
        FaultRule::on(Fault::Delay(Duration::from_secs(5)), "list", "pods").times(2),
    ] {
        let text = format!("{fault:?}");
        let running = RunningController::start().await;
        running.server.add_fault(fault);
        running.server.close_watches();
        running.add_ready_pod("a").await;
        running.add_ready_pod("b").await;
        assert_eq!(running.count_after(60).await.as_deref(), Some("2"), "{text}");
    }
}
