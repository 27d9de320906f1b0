//! Tests two managers on one server that disagree about the published pods of a Service.

use kube_endpoint_controllers::{Gate, Gates};
use kube_endpoint_integration_tests::running_manager::{RunningManager, settings};

use crate::gates::objects::{annotated_service, node, pod};
use crate::gates::test_cluster::TestCluster;

const ANNOTATION: &str = "service.alpha.kubernetes.io/tolerate-unready-endpoints";

/// Returns the number of writes of slices and Endpoints in an hour.
async fn writes_in_an_hour(cluster: &TestCluster) -> usize {
    cluster.server.clear_request_log();
    cluster.pass(3600).await;
    cluster.writes().iter().filter(|write| !write.contains("/events")).count()
}

#[tokio::test(start_paused = true)]
async fn two_managers_that_disagree_write_ever_more_slowly_and_stop_once_they_agree() {
    let others =
        [Gates::default(), Gates::upstream()].map(|gates| gates.with(Gate::TolerateUnreadyAnnotation, true));
    for gates in others {
        let objects = [node("a", "z"), annotated_service(ANNOTATION, "true"), pod(0, "a", false)];
        let cluster = TestCluster::start(Gates::default(), objects).await;
        let other = RunningManager::start(&cluster.server, &settings(gates.clone()));
        let first = writes_in_an_hour(&cluster).await;
        assert!((20..150).contains(&first), "{first} writes in the first hour: {gates:?}");
        let second = writes_in_an_hour(&cluster).await;
        assert!((10..=60).contains(&second), "{second} writes in the second hour: {gates:?}");
        // Both publish a ready pod.
        cluster.load([pod(0, "a", true)]).await;
        cluster.pass(700).await;
        assert_eq!(writes_in_an_hour(&cluster).await, 0, "{gates:?}");
        other.stop().await;
        cluster.stop().await;
    }
}
