//! Tests the gates of the mirroring controller.

use kube_endpoint_controllers::{Gate, Gates};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_integration_tests::running_manager::{settings, writes_within};
use serde_json::{Value, json};

use crate::gates::objects::{node, pod, service};
use crate::gates::test_cluster::{LONG, TestCluster, on_and_off};

const FROM_PODS: &str = "endpointslice-controller.k8s.io";
const HEADLESS: &str = "service.kubernetes.io/headless";
const MIRRORED: &str = "endpointslicemirroring-controller.k8s.io";

/// Returns the `managed-by` labels of all slices, sorted.
fn managers(server: &EmbeddedApiServer) -> Vec<String> {
    let manager = |slice: &Value| {
        slice["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"].as_str().unwrap().to_owned()
    };
    let mut managers: Vec<String> = server.list("endpointslices").iter().map(manager).collect();
    managers.sort();
    managers
}

#[tokio::test(start_paused = true)]
async fn orphaned_slice_cleanup() {
    for (gates, on) in on_and_off(Gate::OrphanedSliceCleanup) {
        let cluster = TestCluster::start(gates, [node("a", "z"), service(), pod(0, "a", true)]).await;
        assert_eq!(managers(&cluster.server), [FROM_PODS]);
        cluster.patch("services", json!({"spec": {"selector": null}})).await;
        let both = [FROM_PODS, MIRRORED];
        assert_eq!(managers(&cluster.server), if on { &both[1..] } else { &both });
        // At its start, the upstream profile keeps existing slices; the default profile deletes the
        // leftovers of upstream.
        let server = cluster.stop().await;
        assert_eq!(writes_within(&server, &settings(Gates::upstream()), LONG).await, [""; 0]);
        let writes = writes_within(&server, &settings(Gates::default()), LONG).await;
        assert_eq!(writes.iter().filter(|write| write.starts_with("DELETE")).count(), usize::from(!on));
        assert_eq!(writes.len(), usize::from(!on), "{writes:?}");
        assert_eq!(managers(&server), [MIRRORED]);
        assert_eq!(writes_within(&server, &settings(Gates::default()), LONG).await, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn headless_label_repair() {
    for (gates, on) in on_and_off(Gate::HeadlessLabelRepair) {
        let mut service = service();
        service["spec"]["selector"] = Value::Null;
        let endpoints = json!({
            "apiVersion": "v1", "kind": "Endpoints",
            "metadata": {"name": "web", "namespace": "default", "labels": {HEADLESS: ""}},
            "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"name": "web", "port": 8080}]}],
        });
        let cluster = TestCluster::start(gates, [service, endpoints]).await;
        let is_labelled = |server: &EmbeddedApiServer| {
            server.list("endpointslices")[0]["metadata"]["labels"].get(HEADLESS).is_some()
        };
        assert_eq!(is_labelled(&cluster.server), !on);
        // The other profile mirrors it the other way, with one write.
        let server = cluster.stop().await;
        let other = if on { Gates::upstream() } else { Gates::default() };
        assert_eq!(writes_within(&server, &settings(other.clone()), LONG).await.len(), 1);
        assert_eq!(is_labelled(&server), on);
        assert_eq!(writes_within(&server, &settings(other), LONG).await, [""; 0]);
    }
}
