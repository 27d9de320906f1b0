//! Tests the label with which kube-proxy ignores the slices of headless Services, for each way in
//! which a mirrored slice can get it.

use std::time::Duration;

use kube_endpoint_mirroring::{ControllerOptions, PlanOptions};
use serde_json::{Value, json};

use crate::controller::harness::{Harness, changed, endpoints, server, service};

const HEADLESS: &str = "service.kubernetes.io/headless";

fn options(repair: bool) -> ControllerOptions {
    changed(|options| options.plan = PlanOptions::default().with_headless_label_repair(repair))
}

fn service_with(cluster_ip: &str) -> Value {
    let mut service = service("web");
    service["spec"]["clusterIP"] = cluster_ip.into();
    service["spec"]["clusterIPs"] = json!([cluster_ip]);
    service
}

fn labelled() -> Value {
    let mut endpoints = endpoints("web", &["192.0.2.1"]);
    endpoints["metadata"]["labels"] = json!({HEADLESS: "", "team": "shop"});
    endpoints
}

async fn started(repair: bool, cluster_ip: &str, endpoints: Value) -> Harness {
    let harness = Harness::start(&server([service_with(cluster_ip), endpoints]), options(repair)).await;
    assert_eq!(harness.writes(), ["create endpointslices 201"]);
    harness
}

fn is_labelled(harness: &Harness) -> bool {
    harness.get("endpointslices", &harness.slice()).unwrap()["metadata"]["labels"].get(HEADLESS).is_some()
}

async fn nothing_more_is_written(harness: &Harness) {
    harness.writes();
    harness.pass(Duration::from_secs(3600)).await;
    assert_eq!(harness.writes(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_label_of_endpoints_is_mirrored_only_for_a_headless_service() {
    for (cluster_ip, repair, want) in
        [("10.96.1.1", true, false), ("10.96.1.1", false, true), ("None", true, true), ("None", false, true)]
    {
        let harness = started(repair, cluster_ip, labelled()).await;
        assert_eq!(is_labelled(&harness), want, "{cluster_ip} {repair}");
        nothing_more_is_written(&harness).await;
        harness.nothing_is_remembered().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_label_that_endpoints_get_later_is_not_mirrored() {
    for repair in [true, false] {
        let harness = started(repair, "10.96.1.1", endpoints("web", &["192.0.2.1"])).await;
        harness.patch("endpoints", "web", json!({"metadata": {"labels": {HEADLESS: ""}}})).await;
        harness.moment().await;
        assert_eq!(is_labelled(&harness), !repair);
        assert_eq!(harness.writes().len(), usize::from(!repair));
        nothing_more_is_written(&harness).await;
    }
}

/// Upstream removes it, too, unless the Endpoints have it.
#[tokio::test(start_paused = true)]
async fn a_label_that_is_set_by_hand_is_removed() {
    for (repair, endpoints) in [
        (true, labelled()),
        (true, endpoints("web", &["192.0.2.1"])),
        (false, endpoints("web", &["192.0.2.1"])),
    ] {
        let harness = started(repair, "10.96.1.1", endpoints).await;
        let label = json!({"metadata": {"labels": {HEADLESS: ""}}});
        harness.patch("endpointslices", &harness.slice(), label).await;
        harness.pass(Duration::from_secs(10)).await;
        assert!(!is_labelled(&harness));
        nothing_more_is_written(&harness).await;
    }
}

/// No write of the Endpoints shows that the Service has changed.
#[tokio::test(start_paused = true)]
async fn slices_follow_a_service_that_is_no_longer_headless_and_back() {
    for repair in [true, false] {
        let harness = started(repair, "None", labelled()).await;
        for headless in [false, true, false] {
            let external = json!({"type": "ExternalName", "externalName": "example.invalid", "clusterIP": null,
                "clusterIPs": null, "ipFamilies": null, "ipFamilyPolicy": null});
            harness.patch("services", "web", json!({"spec": external})).await;
            harness.pass(Duration::from_secs(1)).await;
            let (ip, ips) =
                if headless { (json!("None"), json!(["None"])) } else { (Value::Null, Value::Null) };
            let back = json!({"type": "ClusterIP", "externalName": null, "clusterIP": ip, "clusterIPs": ips});
            harness.patch("services", "web", json!({"spec": back})).await;
            harness.moment().await;
            let service = harness.get("services", "web").unwrap();
            assert_eq!(service["spec"]["clusterIP"] == "None", headless, "{service}");
            assert_eq!(is_labelled(&harness), headless || !repair);
        }
        nothing_more_is_written(&harness).await;
        harness.nothing_is_remembered().await;
    }
}

#[tokio::test(start_paused = true)]
async fn slices_that_upstream_mirrored_are_corrected_at_the_start() {
    for (cluster_ip, writes) in [("10.96.1.1", 1), ("None", 0)] {
        let server = started(false, cluster_ip, labelled()).await.crash().await;
        let harness = Harness::start(&server, options(true)).await;
        assert_eq!(harness.writes().len(), writes, "{cluster_ip}");
        assert_eq!(is_labelled(&harness), cluster_ip == "None");
    }
}
