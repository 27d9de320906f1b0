//! Tests the other writes of a sync after the server has refused to create or to update a slice.

use kube_endpoint_embedded_apiserver::{Fault, FaultRule, refusals};
use kube_endpoint_endpointslice_controller::{ControllerOptions, PlanOptions};
use serde_json::json;

use crate::controller::harness::{Harness, changed, seconds, server};
use crate::controller::objects::{pod, service};

fn options(writes_after_failed_create: bool) -> ControllerOptions {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(2);
    changed(|options| {
        options.plan = plan;
        options.writes_after_failed_create = writes_after_failed_create;
    })
}

/// Starts a controller with the pods `a` and `b` in one slice, and a server that refuses creates.
async fn started(options: ControllerOptions, faults: impl IntoIterator<Item = Fault>) -> Harness {
    let objects = [pod("a", 1, true), pod("b", 2, true), service("web")];
    let harness = Harness::start(&server(objects), options).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    harness.requests();
    for fault in faults {
        harness.fault(fault, "create", usize::MAX);
    }
    harness
}

/// The pod `b` goes and three others come, so that another slice is needed.
async fn replace_b(harness: &Harness) {
    harness.delete("pods", "b").await;
    harness.load([pod("c", 3, true), pod("d", 4, true), pod("e", 5, true)]);
}

fn refusals() -> [Fault; 6] {
    let used = ["count/endpointslices.discovery.k8s.io=1"; 3];
    [
        Fault::RefuseWith(refusals::webhook_denied("hook.example.com", 400, "", "no")),
        Fault::RefuseWith(refusals::webhook_failed("hook.example.com", "failed to call webhook")),
        Fault::RefuseWith(refusals::policy_denied("endpointslices", "web-", "no-web", "binding", "no")),
        Fault::RefuseWith(refusals::quota_exceeded("endpointslices", "web-", "slices", used)),
        Fault::Refuse { status: 409, retry_after: None },
        Fault::LoseRequest,
    ]
}

#[tokio::test(start_paused = true)]
async fn a_dead_pod_is_removed_though_no_slice_can_be_created() {
    for refusal in refusals() {
        let harness = started(options(true), [refusal.clone()]).await;
        replace_b(&harness).await;
        harness.pass(seconds(5)).await;
        let endpoints = harness.endpoints("web");
        assert_eq!(endpoints.len(), 2, "{refusal:?}");
        assert!(endpoints.contains(&"10.1.0.1".to_owned()), "{refusal:?}: {endpoints:?}");
        assert!(!endpoints.contains(&"10.1.0.2".to_owned()), "{refusal:?}: {endpoints:?}");
        let requests = harness.requests();
        let updates = requests.iter().filter(|it| *it == "update endpointslices 200").count();
        assert_eq!(updates, 1, "{requests:?}");
        assert!(requests.iter().filter(|it| it.starts_with("create endpointslices")).count() > 1);
        harness.server.clear_faults();
        harness.pass(seconds(60)).await;
        assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.3", "10.1.0.4", "10.1.0.5"]);
        assert_eq!(harness.slices("web").len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_pod_is_removed_though_another_slice_cannot_be_updated() {
    for refused in [0, 1] {
        let pods = ["a", "b", "c", "d"].into_iter().zip(1..).map(|(name, number)| pod(name, number, true));
        let harness = Harness::start(&server(pods.chain([service("web")])), options(true)).await;
        let slices = harness.slices("web");
        let first_pods =
            slices.iter().map(|slice| slice["endpoints"][0]["targetRef"]["name"].as_str().unwrap());
        let first_pods: Vec<String> = first_pods.map(str::to_owned).collect();
        let name = slices[refused]["metadata"]["name"].as_str().unwrap().to_owned();
        let fault = Fault::Refuse { status: 422, retry_after: None };
        harness.server.add_fault(FaultRule::new(fault, move |request| {
            request.verb == "update" && request.name == name
        }));
        for pod in &first_pods {
            harness.delete("pods", pod).await;
        }
        harness.pass(seconds(5)).await;
        assert_eq!(harness.endpoints("web").len(), 3, "only the refused one is left");
        harness.server.clear_faults();
        harness.pass(seconds(60)).await;
        assert_eq!(harness.endpoints("web").len(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_takes_30_seconds_delays_the_removal_by_that_once() {
    let failed = refusals::webhook_failed("hook.example.com", "context deadline exceeded");
    let harness = started(options(true), [Fault::Delay(seconds(30)), Fault::RefuseWith(failed)]).await;
    replace_b(&harness).await;
    // The Service needs one more slice, whose create the sync does not try.
    harness.load([pod("f", 6, true), pod("g", 7, true)]);
    harness.pass(seconds(29)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    harness.pass(seconds(2)).await;
    assert!(!harness.endpoints("web").contains(&"10.1.0.2".to_owned()));
    assert_eq!(harness.requests()[..2], ["create endpointslices 500", "update endpointslices 200"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn ready_pods_stay_published_though_the_slices_they_move_to_cannot_be_created() {
    let harness = started(options(true), [Fault::Refuse { status: 403, retry_after: None }]).await;
    // All endpoints move to slices with another port, and there is one more slice than before.
    harness.load([pod("c", 3, true), pod("b", 2, false)]);
    harness
        .patch(
            "services",
            "web",
            json!({"spec": {"ports": [{"port": 80, "targetPort": 9090, "protocol": "TCP"}]}}),
        )
        .await;
    for _ in 0..60 {
        harness.pass(seconds(1)).await;
        let ready = ready_addresses(&harness);
        assert!(ready.contains(&"10.1.0.1".to_owned()), "{ready:?}");
        assert!(!ready.contains(&"10.1.0.2".to_owned()), "{ready:?}");
    }
    assert!(harness.requests().iter().any(|request| request == "create endpointslices 403"));
    harness.server.clear_faults();
    harness.pass(seconds(120)).await;
    assert_eq!(ready_addresses(&harness), ["10.1.0.1", "10.1.0.3"]);
    assert!(harness.slices("web").iter().all(|slice| slice["ports"][0]["port"] == 9090));
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn one_slice_that_cannot_be_created_holds_up_no_other_service() {
    let harness = started(options(true), []).await;
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    harness.server.add_fault(FaultRule::new(refuse, |it| it.verb == "create" && it.namespace == "default"));
    replace_b(&harness).await;
    let mut other = service("web");
    other["metadata"]["namespace"] = "other".into();
    harness.load([other]);
    harness.pass(seconds(5)).await;
    assert!(harness.requests().contains(&"create endpointslices 201".to_owned()));
    harness.nothing_is_remembered().await;
}

fn ready_addresses(harness: &Harness) -> Vec<String> {
    let mut found: Vec<String> = harness
        .slices("web")
        .iter()
        .flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default())
        .filter(|endpoint| endpoint["conditions"]["ready"] == true)
        .map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_owned())
        .collect();
    found.sort();
    found
}
