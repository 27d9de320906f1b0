//! Hand-overs between this controller and kube-controller-manager's, and inputs that vanish.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::{Fault, FaultRule, RequestInfo};
use serde_json::json;

use crate::harness::{Harness, pod, selector, service};

/// Returns a cluster whose Service has a stable pod, a canary and one that is not ready.
async fn cluster() -> Harness {
    let pods = [pod("a", 1, "stable", true), pod("c", 9, "canary", true), pod("u", 8, "stable", false)];
    Harness::start(pods.into_iter().chain([service(), selector("canary")])).await
}

async fn attached() -> Harness {
    let harness = cluster().await;
    harness.attach().await;
    harness.pass_with(10, &["10.1.0.1"]).await;
    harness
}

#[tokio::test(start_paused = true)]
async fn a_service_is_taken_over_without_a_gap_and_nothing_is_left_behind() {
    let harness = cluster().await;
    assert_eq!(harness.slices(), ["endpointslice: 1 8! 9"]);
    harness.attach().await;
    harness.pass_with(10, &["10.1.0.1"]).await;
    assert_eq!(harness.slices(), ["own: 1 8!"]);
    assert_eq!(harness.get("endpoints", "web"), None);
    assert_eq!(harness.reasons(), ["EndpointsTakenOver"]);
    let status = &harness.get("endpointselectors", "stable").unwrap()["status"];
    assert_eq!((&status["services"], &status["conditions"][0]["status"]), (&json!(1), &json!("True")));
    harness.load([pod("b", 2, "stable", true)]);
    harness.set_ready("u", true).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.slices(), ["own: 1 2 8"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_is_handed_back_without_a_gap() {
    let harness = attached().await;
    harness.detach().await;
    harness.pass_with(10, &["10.1.0.1"]).await;
    assert_eq!(harness.slices(), ["endpointslice: 1 8! 9"]);
    assert!(harness.get("endpoints", "web").is_some());
    assert_eq!(harness.reasons(), ["EndpointsHandedBack", "EndpointsTakenOver"]);
    let status = &harness.get("endpointselectors", "stable").unwrap()["status"];
    assert_eq!(status["services"], 0);
    harness.nothing_is_remembered().await;
}

/// The cache shows each write late, and until then another pod has come: no sync finds a cache that
/// shows all writes and nothing to write.
#[tokio::test(start_paused = true)]
async fn a_rollout_does_not_hold_a_take_over() {
    let harness = cluster().await;
    let watch = |request: &RequestInfo| request.verb == "watch" && request.plural() == "endpointslices";
    harness.server.add_fault(FaultRule::new(Fault::CutWatch { after: 1 }, watch));
    harness.server.add_fault(FaultRule::new(Fault::StallWatch(Duration::from_millis(200)), watch));
    harness.server.break_watches(watch);
    harness.attach().await;
    for number in 10..200 {
        harness.load([pod(&format!("new-{number}"), number, "stable", true)]);
        harness.pass(Duration::from_millis(50)).await;
        assert!(harness.slices().iter().any(|slice| slice.contains(": 1 ")), "{:?}", harness.slices());
    }
    let slices = harness.slices();
    assert!(slices.iter().all(|slice| slice.starts_with("own: ")), "{slices:?}");
    assert_eq!(harness.get("endpoints", "web"), None);
}

/// The other controller may need minutes, such as after many Services at once.
#[tokio::test(start_paused = true)]
async fn endpoints_only_leave_while_a_hand_back_waits() {
    let harness = cluster().await;
    harness.load([pod("b", 2, "stable", true), pod("d", 4, "stable", true)]);
    harness.attach().await;
    harness.pass_with(10, &["10.1.0.1", "10.1.0.2", "10.1.0.4"]).await;
    let late = Fault::Refuse { status: 500, retry_after: None };
    harness.server.add_fault(FaultRule::on(late, "create", "endpointslices"));
    harness.detach().await;
    harness.pass_with(5, &["10.1.0.1", "10.1.0.2", "10.1.0.4"]).await;
    assert_eq!(harness.slices(), ["own: 1 2 4 8!"]);
    assert_eq!(harness.gauge("held_hand_overs"), 1.0);
    harness.set_ready("a", false).await;
    harness.delete_now("pods", "b").await;
    harness.load([pod("e", 5, "stable", true)]);
    harness.pass_with(5, &["10.1.0.4"]).await;
    assert_eq!(harness.slices(), ["own: 1! 4 8!"]);
    harness.server.clear_faults();
    harness.pass_with(60, &["10.1.0.4"]).await;
    assert_eq!(harness.slices(), ["endpointslice: 1! 4 5 8! 9"]);
    assert_eq!(harness.gauge("held_hand_overs"), 0.0);
    harness.nothing_is_remembered().await;
}

/// No pod is ready, and clients get them all.
#[tokio::test(start_paused = true)]
async fn pods_that_are_published_unready_are_not_lost_in_a_hand_over() {
    let harness = cluster().await;
    harness.patch("services", "web", json!({"spec": {"publishNotReadyAddresses": true}})).await;
    for pod in ["a", "c"] {
        harness.set_ready(pod, false).await;
    }
    let typo = json!({"spec": {"selector": {"matchLabels": {"app": "typo"}}}});
    harness.patch("endpointselectors", "stable", typo).await;
    harness.pass(Duration::from_secs(5)).await;
    harness.attach().await;
    harness.pass_with(10, &["10.1.0.1", "10.1.0.8", "10.1.0.9"]).await;
    assert_eq!(harness.reasons(), ["TakeOverHeld"]);
    let right = json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}});
    harness.patch("endpointselectors", "stable", right).await;
    harness.pass_with(10, &["10.1.0.1", "10.1.0.8"]).await;
    assert_eq!(harness.slices(), ["own: 1 8"]);
    let late = Fault::Refuse { status: 500, retry_after: None };
    harness.server.add_fault(FaultRule::on(late, "create", "endpointslices"));
    harness.detach().await;
    harness.pass_with(10, &["10.1.0.1", "10.1.0.8"]).await;
    assert_eq!(harness.slices(), ["own: 1 8"]);
    harness.server.clear_faults();
    harness.pass_with(60, &["10.1.0.1", "10.1.0.8"]).await;
    assert_eq!(harness.slices(), ["endpointslice: 1 8 9"]);
}

/// A webhook that must answer is down, so the API server answers 500.
#[tokio::test(start_paused = true)]
async fn writes_that_fail_again_and_again_are_told_as_refused_ones() {
    let harness = attached().await;
    let published = || {
        let selector = harness.get("endpointselectors", "stable").unwrap();
        let conditions = selector["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = conditions.into_iter().find(|it| it["type"] == "Published").unwrap();
        (
            condition["status"].clone(),
            condition["reason"].clone(),
            harness.gauge("services_with_refused_writes"),
        )
    };
    let down = Fault::Refuse { status: 500, retry_after: None };
    harness.server.add_fault(FaultRule::on(down, "update", "endpointslices"));
    harness.delete_now("pods", "a").await;
    harness.pass(Duration::from_millis(500)).await;
    assert_eq!(published(), (json!("True"), json!("Published"), 0.0), "it may pass");
    harness.pass(Duration::from_secs(30)).await;
    assert_eq!(published(), (json!("False"), json!("EndpointSlicesRefused"), 1.0));
    assert_eq!(harness.gauge("held_hand_overs"), 0.0);
    assert!(harness.reasons().contains(&"EndpointSlicesRefused".to_owned()), "{:?}", harness.reasons());
    assert!(harness.slices()[0].contains(" 1"), "{:?}", harness.slices());
    harness.server.clear_faults();
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(published(), (json!("True"), json!("Published"), 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_refused_delays_no_other() {
    let harness = attached().await;
    let refuse = Fault::Refuse { status: 422, retry_after: None };
    harness.server.add_fault(FaultRule::new(refuse, |request: &RequestInfo| {
        request.verb == "patch" && request.plural() == "endpointselectors" && request.name == "first"
    }));
    for name in ["first", "second", "third"] {
        let mut other = selector("canary");
        other["metadata"]["name"] = json!(name);
        harness.create(&other).await;
        harness.pass(Duration::from_millis(100)).await;
    }
    let has_status = |name: &str| harness.get("endpointselectors", name).unwrap()["status"].is_object();
    assert_eq!(["first", "second", "third"].map(has_status), [false, true, true]);
    harness.server.clear_faults();
    harness.pass(Duration::from_secs(5)).await;
    assert!(has_status("first"));
}

#[tokio::test(start_paused = true)]
async fn without_a_ready_pod_the_slices_of_the_others_stay() {
    let harness = cluster().await;
    harness
        .patch("endpointselectors", "stable", json!({"spec": {"selector": {"matchLabels": {"app": "typo"}}}}))
        .await;
    harness.attach().await;
    harness.pass_with(60, &["10.1.0.1", "10.1.0.9"]).await;
    assert_eq!(harness.slices(), ["endpointslice: 1 8! 9", "endpointslicemirroring: 1 8! 9", "own: "]);
    assert_eq!(harness.reasons(), ["TakeOverHeld"]);
    assert_eq!(harness.gauge("held_hand_overs"), 1.0);
    harness
        .patch("endpointselectors", "stable", json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}}))
        .await;
    harness.pass_with(10, &["10.1.0.1"]).await;
    assert_eq!(harness.slices(), ["own: 1 8!"]);
    assert_eq!(harness.gauge("held_hand_overs"), 0.0);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn no_pod_joins_while_the_selector_is_gone() {
    let harness = attached().await;
    harness.load([pod("b", 2, "stable", true)]);
    harness.pass(Duration::from_secs(1)).await;
    harness.delete("endpointselectors", "stable").await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.slices(), ["own: 1 2 8!"]);
    assert_eq!(harness.gauge("services_without_selector"), 1.0);
    harness.load([pod("d", 4, "stable", true)]);
    harness.set_ready("a", false).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.slices(), ["own: 1! 2 8!"]);
    harness.set_ready("a", true).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.slices(), ["own: 1 2 8!"]);
    for pod in ["a", "b", "u"] {
        harness.delete_now("pods", pod).await;
    }
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.slices(), ["own: "]);
    assert_eq!(harness.reasons(), ["EndpointSelectorNotFound", "EndpointsTakenOver"]);
    harness.create(&selector("canary")).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.slices(), ["own: 4"]);
    assert_eq!(harness.gauge("services_without_selector"), 0.0);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_selector_is_not_accepted() {
    let harness = attached().await;
    // The schema of the API cannot check the keys of matchLabels.
    let invalid = json!({"spec": {"selector": {"matchLabels": {"a b": "c"}, "matchExpressions": null}}});
    harness.patch("endpointselectors", "stable", invalid).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.slices(), ["own: 1 8!"]);
    let status = harness.get("endpointselectors", "stable").unwrap()["status"].clone();
    let accepted = &status["conditions"][0];
    assert_eq!((&accepted["status"], &accepted["reason"]), (&json!("False"), &json!("InvalidSelector")));
    assert_eq!(harness.gauge("selectors_not_accepted"), 1.0);
    assert_eq!(harness.reasons(), ["EndpointSelectorInvalid", "EndpointsTakenOver"]);
    harness.delete("endpointselectors", "stable").await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.gauge("selectors_not_accepted"), 0.0);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_user_s_endpoints_and_slices_stay() {
    let harness = attached().await;
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web"},
        "subsets": [{"addresses": [{"ip": "10.7.7.7"}], "ports": [{"port": 9376, "protocol": "TCP"}]}],
    });
    harness.create(&endpoints).await;
    harness.pass(Duration::from_secs(10)).await;
    assert_eq!(harness.slices(), ["endpointslicemirroring: 10.7.7.7", "own: 1 8!"]);
    assert_eq!(harness.reasons(), ["EndpointsTakenOver", "MirroredEndpointsAdded"]);
    assert!(harness.get("endpoints", "web").is_some());
    // The controller asks about them once, not at each change of a pod.
    assert!(harness.sent("get", "endpoints") > 0);
    harness.set_ready("u", true).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.slices(), ["endpointslicemirroring: 10.7.7.7", "own: 1 8"]);
    assert_eq!(harness.sent("get", "endpoints"), 0);
    harness.delete("endpointselectors", "stable").await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.gauge("services_without_selector"), 1.0);
    harness.create(&selector("canary")).await;
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.gauge("services_without_selector"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_slice_with_a_copied_label_stays() {
    let harness = attached().await;
    let service = harness.get("services", "web").unwrap();
    harness
        .create(&json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {
                "name": "by-hand",
                "labels": {
                    "kubernetes.io/service-name": "web",
                    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
                },
                "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Service", "name": "web", "uid": service["metadata"]["uid"],
                }],
            },
            "endpoints": [{"addresses": ["10.7.7.7"]}],
        }))
        .await;
    harness.pass(Duration::from_secs(10)).await;
    assert_eq!(harness.slices(), ["endpointslice: 10.7.7.7", "own: 1 8!"]);
    assert_eq!(harness.reasons(), ["EndpointSliceKept", "EndpointsTakenOver"]);
}

#[tokio::test(start_paused = true)]
async fn without_annotation_and_selector_the_own_slices_go() {
    let harness = attached().await;
    let annotation = json!({"kube-endpoint-manager.github.io/endpoint-selector": null});
    harness.patch("services", "web", json!({"metadata": {"annotations": annotation}})).await;
    harness.pass(Duration::from_secs(2)).await;
    assert_eq!(harness.slices(), [""; 0]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_service_with_a_selector_ignores_the_annotation() {
    let harness = cluster().await;
    let annotation = json!({"kube-endpoint-manager.github.io/endpoint-selector": "stable"});
    harness.patch("services", "web", json!({"metadata": {"annotations": annotation}})).await;
    harness.pass(Duration::from_secs(10)).await;
    assert_eq!(harness.slices(), ["endpointslice: 1 8! 9"]);
    assert_eq!(harness.reasons(), [""; 0]);
}
