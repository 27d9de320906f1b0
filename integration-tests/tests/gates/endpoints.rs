//! Tests the gates of the endpoints controller.

use kube_endpoint_controllers::{Gate, Gates};
use kube_endpoint_integration_tests::running_manager::{settings, writes_within};
use serde_json::json;

use crate::gates::objects::{node, pod, pod_on_port, service};
use crate::gates::test_cluster::{LONG, TestCluster, on_and_off};

/// Returns the number of writes of Endpoints after three changes of the Service that do not matter
/// to its Endpoints.
async fn needless_writes(cluster: &TestCluster) -> usize {
    let mut writes = 0;
    for round in 0..3 {
        let annotations = json!({"round": round.to_string()});
        cluster.patch("services", json!({"metadata": {"annotations": annotations}})).await;
        writes += cluster.writes().iter().filter(|write| write.contains("/endpoints/")).count();
    }
    writes
}

#[tokio::test(start_paused = true)]
async fn endpoints_repair() {
    for (gates, on) in on_and_off(Gate::EndpointsRepair) {
        let cluster = TestCluster::start(gates, [node("a", "z"), service(), pod(0, "a", true)]).await;
        assert_eq!(cluster.endpoints()["subsets"][0]["addresses"][0]["ip"], "10.1.0.1");
        cluster.patch("endpoints", json!({"subsets": null})).await;
        let repaired = cluster.endpoints()["subsets"][0]["addresses"][0]["ip"] == "10.1.0.1";
        assert_eq!((repaired, cluster.writes().len()), (on, usize::from(on)), "{on}");
        cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_keep_truncated() {
    // Three port numbers make three subsets.
    let pods = || (0..1002).map(|number| pod_on_port(number, "a", true, 8080 + number % 3));
    for (gates, on) in on_and_off(Gate::EndpointsKeepTruncated) {
        let cluster = TestCluster::start(gates, [node("a", "z"), service()].into_iter().chain(pods())).await;
        let endpoints = cluster.endpoints();
        assert_eq!(
            endpoints["metadata"]["annotations"]["endpoints.kubernetes.io/over-capacity"],
            "truncated"
        );
        assert_eq!(endpoints["subsets"].as_array().map(Vec::len), Some(3));
        assert_eq!(needless_writes(&cluster).await, if on { 0 } else { 3 });
        // A manager that starts with the default gates keeps the truncated object of either
        // profile.
        let server = cluster.stop().await;
        assert_eq!(writes_within(&server, &settings(Gates::default()), LONG).await, [""; 0]);
        assert_eq!(writes_within(&server, &settings(Gates::default()), LONG).await, [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_ignore_reserved_labels() {
    for label in ["service.kubernetes.io/headless", "endpoints.kubernetes.io/managed-by"] {
        let mut labelled = service();
        labelled["metadata"]["labels"] = json!({label: "from-the-service"});
        for (gates, on) in on_and_off(Gate::EndpointsIgnoreReservedLabels) {
            let objects = [node("a", "z"), labelled.clone(), pod(0, "a", true)];
            let cluster = TestCluster::start(gates, objects).await;
            assert_eq!(needless_writes(&cluster).await, if on { 0 } else { 3 }, "{label}");
            cluster.stop().await;
        }
    }
}
