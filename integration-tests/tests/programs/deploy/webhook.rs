//! Tests a cluster in which nobody can create pods until a webhook answers, whose endpoints only
//! the manager writes.

use std::time::Duration;

use kube_endpoint_controllers::Gates;
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, refusals};
use kube_endpoint_integration_tests::running_manager::{RunningManager, settings};
use serde_json::{Value, json};

use crate::deploy::cluster_role::paused;

/// Returns a Service and its only pod, which has run since before the loss of the endpoints.
fn webhook() -> [Value; 3] {
    [
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node"}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "policy", "namespace": "policy"},
            "spec": {"selector": {"app": "policy"}, "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"],
                "ports": [{"port": 443, "targetPort": 8443}]}}),
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "policy", "namespace": "policy", "labels": {"app": "policy"}},
            "spec": {"nodeName": "node", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
                "conditions": [{"type": "Ready", "status": "True"}]}}),
    ]
}

fn has_ready_endpoint(server: &EmbeddedApiServer) -> bool {
    let slices = server.list("endpointslices");
    slices.iter().any(|slice| slice["endpoints"][0]["conditions"]["ready"] == true)
}

/// A static pod, or a container that the kubelet restarts, needs no admission. From there on the
/// manager must not create, change or wait for a pod.
pub(crate) fn a_manager_that_runs_writes_the_endpoints_that_the_webhook_waits_for() {
    paused(the_manager_writes_the_endpoints());
}

async fn the_manager_writes_the_endpoints() {
    let server = EmbeddedApiServer::builder().load(webhook()).build().unwrap();
    let refused =
        refusals::webhook_failed("policy.example.com", "no endpoints available for service \"policy\"");
    let closed = server
        .add_fault(FaultRule::new(Fault::RefuseWith(refused), |it| it.is_write() && it.plural() == "pods"));
    let manager = RunningManager::start(&server, &settings(Gates::default()));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "new", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let client = kube::Client::new(server.service(), "default");
    let create = || {
        let request =
            http::Request::post("/api/v1/namespaces/default/pods").body(pod.to_string().into_bytes());
        client.request::<Value>(request.unwrap())
    };
    assert!(create().await.unwrap_err().to_string().contains("failed calling webhook"));
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(has_ready_endpoint(&server));
    // Clients can reach the webhook now.
    server.remove_fault(closed);
    create().await.unwrap();
    manager.stop().await;
    let log = server.request_log();
    let pod_writes = log.iter().filter(|it| it.request.is_write() && it.request.plural() == "pods").count();
    assert_eq!(pod_writes, 2, "the manager wrote a pod");
}
