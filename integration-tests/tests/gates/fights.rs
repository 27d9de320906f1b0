//! Tests two managers on one server that disagree about the mirrored addresses of a Service.

use kube_endpoint_controllers::Gates;
use kube_endpoint_integration_tests::running_manager::{RunningManager, settings};
use serde_json::{Value, json};

use crate::gates::objects::service;
use crate::gates::test_cluster::TestCluster;

/// Returns the number of writes of slices and Endpoints in an hour.
async fn writes_in_an_hour(cluster: &TestCluster) -> usize {
    cluster.server.clear_request_log();
    cluster.pass(3600).await;
    cluster.writes().iter().filter(|write| !write.contains("/events")).count()
}

fn endpoints(addresses: &[&str]) -> Value {
    let addresses: Vec<Value> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web", "namespace": "default"},
        "subsets": [{"addresses": addresses, "ports": [{"port": 80, "protocol": "TCP"}]}],
    })
}

#[tokio::test(start_paused = true)]
async fn two_managers_that_disagree_write_ever_more_slowly_and_stop_once_they_agree() {
    for gates in [Gates::default(), Gates::upstream()] {
        let mut service = service();
        service["spec"]["selector"] = Value::Null;
        let objects = [service, endpoints(&["192.0.2.1", "192.0.2.2"])];
        let cluster = TestCluster::start(Gates::default(), objects).await;
        let mut settings = settings(gates.clone());
        settings.mirroring_max_endpoints_per_subset = 1;
        let other = RunningManager::start(&cluster.server, &settings);
        let first = writes_in_an_hour(&cluster).await;
        assert!((10..150).contains(&first), "{first} writes in the first hour: {gates:?}");
        let second = writes_in_an_hour(&cluster).await;
        assert!((5..=60).contains(&second), "{second} writes in the second hour: {gates:?}");
        // Both mirror one address.
        cluster.load([endpoints(&["192.0.2.1"])]).await;
        cluster.pass(700).await;
        assert_eq!(writes_in_an_hour(&cluster).await, 0, "{gates:?}");
        other.stop().await;
        cluster.stop().await;
    }
}
