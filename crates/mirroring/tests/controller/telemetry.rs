//! Tests the metrics page after a scripted flow.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_mirroring::PlanOptions;
use serde_json::json;

use crate::controller::harness::{Harness, changed, endpoints, server, service};

#[tokio::test(start_paused = true)]
async fn metrics_after_a_scripted_flow() {
    let plan = PlanOptions::default().with_max_endpoints_per_subset(3);
    let options = changed(|options| options.plan = plan);
    let objects =
        [service("web"), endpoints("web", &["192.0.2.1", "192.0.2.2"]), endpoints("alone", &["192.0.2.9"])];
    let harness = Harness::start(&server(objects), options).await;
    harness.put("endpoints", &endpoints("web", &["192.0.2.1", "192.0.2.3"])).await;
    harness.pass(Duration::from_secs(1)).await;
    harness.patch("endpoints", "web", json!({"metadata": {"labels": {"a": "b"}}})).await;
    harness.pass(Duration::from_secs(1)).await;
    // Two addresses exceed the maximum; the first attempt fails.
    harness.fault(Fault::Refuse { status: 500, retry_after: None }, "update", 1);
    let many = ["192.0.2.1", "192.0.2.3", "192.0.2.4", "192.0.2.5", "2001:db8::1"];
    harness.put("endpoints", &endpoints("web", &many)).await;
    harness.pass(Duration::from_secs(10)).await;
    harness.create(&service("other")).await;
    harness.create(&endpoints("other", &["2001:db8::7", "192.0.2.7"])).await;
    harness.pass(Duration::from_secs(1)).await;
    harness.delete("services", "web").await;
    harness.pass(Duration::from_secs(10)).await;
    insta::assert_snapshot!(harness.metrics().without("informer_").summary());
    harness.nothing_is_remembered().await;
}
