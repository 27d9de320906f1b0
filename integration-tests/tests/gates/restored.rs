//! Tests Endpoints that a user creates before their Service, with the label of the endpoints
//! controller, in both profiles.

use kube_endpoint_controllers::Gates;
use kube_endpoint_integration_tests::running_manager::{settings, writes_within};
use serde_json::{Value, json};

use crate::gates::objects::node;
use crate::gates::test_cluster::{LONG, TestCluster};

/// Returns Endpoints from a backup: the restoring tool keeps the labels, and the server notes the
/// tool as their writer.
fn restored() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "web", "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}},
        "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 9376, "protocol": "TCP"}]}],
    })
}

fn mirrored(cluster: &TestCluster) -> Vec<Value> {
    cluster.slices().iter().map(|slice| slice["endpoints"][0]["addresses"][0].clone()).collect()
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_a_backup_restores_before_their_service_stay_and_are_mirrored() {
    for gates in [Gates::default(), Gates::upstream()] {
        let cluster = TestCluster::start(gates.clone(), [node("a", "z")]).await;
        cluster.server.create(restored()).await.unwrap();
        cluster.server.clear_request_log();
        cluster.pass(3600).await;
        assert_eq!(cluster.writes(), [""; 0], "{gates:?}");
        // Another process starts before the Service exists.
        assert_eq!(writes_within(&cluster.server, &settings(gates.clone()), LONG).await, [""; 0]);
        assert_eq!(cluster.endpoints()["subsets"][0]["addresses"][0]["ip"], "192.0.2.1");
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]},
        });
        cluster.server.create(service).await.unwrap();
        cluster.pass(60).await;
        assert_eq!(mirrored(&cluster), ["192.0.2.1"], "{gates:?}");
        assert_eq!(cluster.endpoints()["subsets"][0]["addresses"][0]["ip"], "192.0.2.1");
        cluster.stop().await;
    }
}
