//! Tests the metrics page after a scripted flow.

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_endpointslice_controller::PlanOptions;
use serde_json::json;

use crate::controller::harness::{Harness, changed, seconds, server};
use crate::controller::objects::{name, pod, service};

#[tokio::test(start_paused = true)]
async fn metrics_after_a_scripted_flow() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(2);
    let options = changed(|options| options.plan = plan);
    let pods = (1..6).map(|number| pod(&format!("p{number}"), number, true));
    let harness = Harness::start(&server(pods), options).await;
    let mut close = service("close");
    close["spec"]["trafficDistribution"] = "PreferClose".into();
    harness.create(&service("web")).await;
    harness.create(&close).await;
    harness.pass(seconds(5)).await;
    // One sync fails once; one waits for the cache; a user deletes one slice, and the controller
    // deletes one because it has no pods.
    harness.fault(Fault::Refuse { status: 500, retry_after: None }, "update", 1);
    let mut moved = pod("p1", 1, true);
    moved["metadata"]["labels"] = json!({"app": "other"});
    harness.load([moved]);
    harness.pass(seconds(5)).await;
    harness.stall_watch("endpointslices", seconds(2)).await;
    harness.load([pod("p6", 6, false)]);
    harness.pass(seconds(1)).await;
    harness.load([pod("p7", 7, true)]);
    harness.pass(seconds(10)).await;
    harness.load([pod("p6", 6, true)]);
    harness.pass(seconds(10)).await;
    harness.delete("endpointslices", name(&harness.slices("web")[0])).await;
    harness.pass(seconds(10)).await;
    assert_eq!(harness.endpoints("web").len(), 6);
    for name in ["p2", "p3", "p4", "p5"] {
        harness.delete("pods", name).await;
    }
    harness.pass(seconds(10)).await;
    insta::assert_snapshot!(harness.metrics().without("informer_").summary());
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_counts_from_the_arrival_of_its_event() {
    let options = changed(|options| options.batch_period = seconds(1));
    let harness = Harness::start(&server([pod("a", 1, true), service("web")]), options).await;
    harness.pass(seconds(5)).await;
    let metric = |name: &str| harness.metric(&format!("event_to_write_seconds_{name}"));
    assert_eq!(
        (harness.slices("web").len(), metric("count")),
        (1, 0.0),
        "the list at the start does not count"
    );
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(5)).await;
    assert_eq!(harness.endpoints("web").len(), 2);
    assert_eq!((metric("count"), metric("sum")), (1.0, 1.0), "the batch period");
    harness.nothing_is_remembered().await;
}

/// Starts a controller with pods that have an address of each family, and a Service that publishes
/// both.
async fn dual_stack() -> Harness {
    let pods = (1..4).map(|number: u8| {
        let mut pod = pod(&format!("p{number}"), number, true);
        pod["status"]["podIPs"] =
            json!([{"ip": format!("10.1.0.{number}")}, {"ip": format!("fd00::{number}")}]);
        pod
    });
    let mut both = service("web");
    both["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
    Harness::with(pods.chain([both])).await
}

#[tokio::test(start_paused = true)]
async fn both_families_of_a_dual_stack_service_are_counted() {
    let harness = dual_stack().await;
    let metric = |name: &str| harness.metric(&format!("endpoint_slice_controller_{name}"));
    assert_eq!(metric("endpoints_desired"), 6.0);
    assert_eq!(metric("num_endpoint_slices"), 2.0);
    assert_eq!(metric("desired_endpoint_slices"), 2.0);
    assert_eq!(metric("endpoints_added_per_sync_count"), 2.0);
    harness.delete("services", "web").await;
    harness.pass(seconds(1)).await;
    assert_eq!(metric("endpoints_desired"), 0.0);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn slices_of_a_removed_family_count_as_changes() {
    let harness = dual_stack().await;
    let changes = || harness.metric("endpoint_slice_controller_changes");
    assert_eq!(changes(), 2.0);
    let mut single = harness.get("services", "web").unwrap();
    single["spec"]["ipFamilies"] = json!(["IPv4"]);
    harness.load([single]);
    harness.pass(seconds(1)).await;
    assert_eq!(harness.slice("web")["addressType"], "IPv4");
    assert_eq!(changes(), 3.0);
    let counted = harness.metric("endpoint_slice_controller_endpointslices_changed_per_sync_count");
    assert_eq!(counted, 3.0, "only for the remaining family");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn services_are_counted_by_their_effective_traffic_distribution() {
    let harness = Harness::with([pod("a", 1, true), service("web")]).await;
    let counted = |value: &str| {
        let name = "endpoint_slice_controller_services_count_by_traffic_distribution";
        harness.metrics().value(name, &[("traffic_distribution", value)]).unwrap()
    };
    let set = |spec: serde_json::Value, annotations: serde_json::Value| {
        harness.patch("services", "web", json!({"spec": spec, "metadata": {"annotations": annotations}}))
    };
    for value in ["PreferClose", "PreferSameZone", "PreferSameNode"] {
        set(json!({"trafficDistribution": value}), json!({})).await;
        harness.moment().await;
        for other in ["PreferClose", "PreferSameZone", "PreferSameNode"] {
            assert_eq!(counted(other), f64::from(u8::from(other == value)), "{other} of {value}");
        }
    }
    set(json!({}), json!({"service.kubernetes.io/topology-mode": "Auto"})).await;
    harness.moment().await;
    assert_eq!(counted("PreferSameNode"), 0.0, "the annotation wins");
    harness.nothing_is_remembered().await;
}
