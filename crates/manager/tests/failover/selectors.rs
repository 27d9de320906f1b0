//! A change of leader while the standby's caches of EndpointSelectors lag.

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_controllers::ControllerName;
use serde_json::json;
use tokio::time::sleep;

use super::lagging::lag;
use super::replica::{leader_and_standby, seconds, server_with, settings};

/// The leader has removed the endpoint of a pod because a selector has changed. The standby does
/// not show that selector yet.
#[tokio::test(start_paused = true)]
async fn selectors_that_the_leader_had_read_are_waited_for() {
    let mut settings = settings();
    settings.controllers = vec![ControllerName::EndpointSelector];
    let server = server_with(2).await;
    let selector = |app: &str| {
        json!({
            "apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
            "metadata": {"name": "db", "namespace": "default", "uid": "db"},
            "spec": {"selector": {"matchLabels": {"app": app}}},
        })
    };
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "db", "namespace": "default",
            "annotations": {"kube-endpoint-manager.github.io/endpoint-selector": "db"}},
        "spec": {"ports": [{"port": 5432}]},
    });
    server.load([selector("a0")]).unwrap();
    server.create(service).await.unwrap();
    let published = || {
        let slices = server.list("endpointslices");
        assert_eq!(slices.len(), 1);
        slices[0]["endpoints"][0]["addresses"][0].clone()
    };
    let (leader, standby) = leader_and_standby(&server, &settings, Arc::new(|_| ())).await;
    sleep(seconds(2)).await;
    assert_eq!(published(), "10.0.0.1");
    lag(&server, "b", &["endpointselectors"]);
    sleep(Duration::from_millis(1100)).await;
    server.load([selector("a1")]).unwrap();
    sleep(Duration::from_millis(100)).await;
    assert_eq!(published(), "10.0.0.2");
    server.clear_request_log();
    leader.stop().await;
    assert!(standby.led().await < seconds(6));
    for _ in 0..200 {
        sleep(Duration::from_millis(50)).await;
        assert_eq!(published(), "10.0.0.2", "the former selector counts no more");
    }
    let slices = standby.writes(&server).into_iter();
    assert_eq!(slices.filter(|write| write.request.plural() == "endpointslices").count(), 0);
}
