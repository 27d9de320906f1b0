//! Tests which changes start a sync, when, and for which Services.

use std::time::Duration;

use kube_endpoint_endpoints_controller::{ControllerOptions, PlanOptions};
use kube_endpoint_testing::without_an_address;
use serde_json::json;

use crate::controller::harness::{Harness, addresses, changed, endpoints, pod, server, service};

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_service_become_its_endpoints() {
    let harness =
        Harness::start(&server([pod("a", 1, true), pod("b", 2, false)]), ControllerOptions::default()).await;
    assert_eq!(harness.writes(), [""; 0]);
    harness.create(&service("web")).await;
    harness.moment().await;
    let made = harness.get("endpoints", "web").unwrap();
    assert_eq!(addresses(&made), ["10.1.0.1"]);
    assert_eq!(made["subsets"][0]["notReadyAddresses"][0]["ip"], "10.1.0.2");
    assert_eq!(
        made["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"],
        "2026-01-01T00:00:02Z"
    );
    harness.load([pod("b", 2, true)]);
    harness.moment().await;
    let changed = harness.get("endpoints", "web").unwrap();
    assert_eq!(addresses(&changed), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(
        changed["metadata"]["annotations"]["endpoints.kubernetes.io/last-change-trigger-time"],
        "2026-01-01T00:01:02Z"
    );
    harness.pass(seconds(3600)).await;
    assert_eq!(harness.writes(), ["create endpoints 201", "update endpoints 200"]);
    assert_eq!(harness.controller.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_batch_period_delays_syncs_caused_by_pods_only() {
    let options = changed(|options| options.batch_period = seconds(5));
    let harness = Harness::start(&server([pod("a", 1, true)]), options).await;
    harness.create(&service("web")).await;
    harness.pass(seconds(1)).await;
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(2)).await;
    harness.load([pod("c", 3, true)]);
    harness.pass(seconds(10)).await;
    harness.patch("services", "web", json!({"metadata": {"labels": {"a": "b"}}})).await;
    harness.pass(seconds(1)).await;
    harness.delete("endpoints", "web").await;
    harness.pass(seconds(1)).await;
    let writes = harness.timed_writes();
    let writes: Vec<(u128, &str)> = writes.iter().map(|(at, write)| (*at, write.as_str())).collect();
    assert_eq!(
        writes,
        [
            (2000, "create endpoints 201"),
            // Five seconds after the first of two pods.
            (8000, "update endpoints 200"),
            (15_000, "update endpoints 200"),
            (16_000, "create endpoints 201"),
        ]
    );
    harness.nothing_is_remembered().await;
}

/// No endpoint depends on where a pod without an address runs, nor on its containers.
#[tokio::test(start_paused = true)]
async fn a_pod_starts_no_sync_until_it_has_an_address() {
    let harness =
        Harness::start(&server([pod("a", 1, true), service("web")]), ControllerOptions::default()).await;
    let syncs = || harness.metrics().sum("workqueue_adds_total", &[]);
    harness.writes();
    let before = syncs();
    let [new, bound @ ..] = without_an_address(&pod("b", 2, true));
    harness.load([new]);
    harness.pass(seconds(60)).await;
    let created = syncs();
    assert_eq!(created - before, 1.0, "a new pod");
    for (restarts, pod) in bound.into_iter().enumerate() {
        harness.load([pod]);
        harness.pass(seconds(60)).await;
        assert_eq!(syncs(), created, "{restarts} restarts");
    }
    assert_eq!(harness.writes(), [""; 0]);
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(60)).await;
    assert_eq!(syncs() - created, 1.0);
    assert_eq!(harness.writes(), ["update endpoints 200"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn services_without_selector_and_external_names_are_ignored() {
    let harness = Harness::start(&server([pod("a", 1, true)]), ControllerOptions::default()).await;
    harness.create(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "manual"}, "spec": {"ports": [{"port": 80}]},
    })).await;
    harness
        .create(&json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "alias"},
            "spec": {"type": "ExternalName", "externalName": "example.invalid", "selector": {"app": "web"}},
        }))
        .await;
    for name in ["manual", "alias", "nobody"] {
        let mut made = harness.create(&endpoints(name, "192.0.2.1")).await;
        harness.moment().await;
        made["subsets"][0]["addresses"][0]["ip"] = "192.0.2.2".into();
        harness
            .send("PUT", &format!("/api/v1/namespaces/default/endpoints/{name}"), "application/json", &made)
            .await;
        harness.moment().await;
        harness.delete("endpoints", name).await;
    }
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(60)).await;
    assert_eq!(harness.writes(), [""; 0]);
    assert_eq!(harness.server.count("endpoints"), 0);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_that_gets_a_selector_takes_over_its_endpoints() {
    let harness = Harness::start(&server([pod("a", 1, true)]), ControllerOptions::default()).await;
    harness
        .create(&json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
            "spec": {"ports": [{"port": 80, "targetPort": 8080}]},
        }))
        .await;
    harness.create(&endpoints("web", "192.0.2.1")).await;
    harness.moment().await;
    harness.patch("services", "web", json!({"spec": {"selector": {"app": "web"}}})).await;
    harness.moment().await;
    assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["10.1.0.1"]);
    harness.patch("services", "web", json!({"spec": {"selector": null}})).await;
    harness.moment().await;
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(60)).await;
    assert_eq!(harness.writes(), ["update endpoints 200"]);
    harness.nothing_is_remembered().await;
}

/// kubernetes#127370, kubernetes#126578.
#[tokio::test(start_paused = true)]
async fn an_update_without_effect_does_not_block_the_next_update() {
    let plan = PlanOptions::upstream().with_capacity(2);
    let options = changed(|options| {
        options.plan = plan;
        options.repair = false;
    });
    let pods = [pod("a", 1, true), pod("b", 2, true), pod("c", 3, true)];
    let harness = Harness::start(&server(pods), options).await;
    harness.create(&service("web")).await;
    harness.moment().await;
    // With upstream's options each sync writes truncated Endpoints; the first such write removes
    // the trigger time.
    let mut versions = Vec::new();
    for value in ["1", "2", "3"] {
        harness.patch("services", "web", json!({"metadata": {"annotations": {"x": value}}})).await;
        harness.moment().await;
        versions.push(harness.get("endpoints", "web").unwrap()["metadata"]["resourceVersion"].clone());
        assert_eq!(harness.controller.state_counts().outstanding_writes, 0);
    }
    assert_eq!(harness.writes().len(), 4);
    assert_eq!(versions[1], versions[2], "nothing changed");
    harness.load([pod("a", 9, true)]);
    harness.moment().await;
    assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["10.1.0.2", "10.1.0.3"]);
    assert_eq!(harness.writes(), ["update endpoints 200"]);
    harness.nothing_is_remembered().await;
}

/// A resync finds everything in the stores.
#[tokio::test(start_paused = true)]
async fn a_resync_sends_no_request() {
    let services = ["web", "db", "cache"].map(service);
    let objects = services.into_iter().chain([pod("a", 1, true), pod("b", 2, false)]);
    let harness = Harness::start(&server(objects), ControllerOptions::default()).await;
    assert_eq!(harness.writes(), ["create endpoints 201"; 3]);
    let syncs = || harness.metrics().sum("workqueue_adds_total", &[]);
    let before = syncs();
    harness.pass(seconds(12 * 3600 - 60)).await;
    assert_eq!(syncs(), before);
    harness.pass(seconds(13 * 3600)).await;
    assert_eq!(syncs() - before, 3.0, "one of each Service");
    let log = harness.server.request_log();
    let requests: Vec<_> = log.iter().filter(|it| it.request.verb != "watch").collect();
    assert!(requests.is_empty(), "{requests:?}");
    harness.nothing_is_remembered().await;
}
