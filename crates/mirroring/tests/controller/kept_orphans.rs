//! Tests with slices made from pods that the controller keeps, because the mirrored ones do not
//! replace them.

use std::collections::BTreeSet;
use std::time::Duration;

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_mirroring::ControllerOptions;
use serde_json::{Value, json};

use crate::controller::harness::{Harness, endpoints, made_of_pods, server, service, written_by};

const CONTROLLER: &str = "kube-controller-manager";

/// Returns a Service that has just lost its selector, slices with these addresses, and Endpoints.
async fn orphaned(options: ControllerOptions, slices: &[Vec<String>], endpoints: Value) -> Harness {
    let harness = Harness::start(&server([]), options).await;
    let mut service = service("web");
    service["spec"]["selector"] = json!({"app": "web"});
    let made = harness.create(&service).await;
    for (number, addresses) in slices.iter().enumerate() {
        let mut slice = made_of_pods(&format!("web-{number:02}"), &made, &addresses[0]);
        let ready = |ip: &String| json!({"addresses": [ip], "conditions": {"ready": true}});
        slice["endpoints"] = addresses.iter().map(ready).collect();
        harness.create(&slice).await;
    }
    harness.create(&endpoints).await;
    harness.pass(Duration::from_secs(1)).await;
    harness.patch("services", "web", json!({"spec": {"selector": null}})).await;
    harness.pass(Duration::from_secs(5)).await;
    harness
}

/// Starts with one slice with these addresses.
async fn one(addresses: &[&str], endpoints: Value) -> Harness {
    let slice = addresses.iter().map(|ip| (*ip).to_owned()).collect();
    orphaned(ControllerOptions::default(), &[slice], endpoints).await
}

/// Returns the addresses that clients see.
fn published(harness: &Harness) -> BTreeSet<String> {
    let slices = harness.server.list("endpointslices");
    let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().unwrap());
    endpoints.map(|endpoint| endpoint["addresses"][0].as_str().unwrap().to_owned()).collect()
}

fn reads_of_endpoints(harness: &Harness) -> usize {
    let log = harness.server.request_log();
    log.iter().filter(|it| it.request.verb == "get" && it.request.plural() == "endpoints").count()
}

#[tokio::test(start_paused = true)]
async fn truncated_endpoints_take_no_pod_away() {
    let address = |number: usize| format!("10.0.{}.{}", number / 250, number % 250);
    let all: Vec<String> = (0..3000).map(address).collect();
    let slices: Vec<Vec<String>> = all.chunks(100).map(<[String]>::to_vec).collect();
    let third: Vec<&str> = all.iter().step_by(3).map(String::as_str).collect();
    let mut truncated = written_by(CONTROLLER, endpoints("web", &third));
    truncated["metadata"]["annotations"] = json!({"endpoints.kubernetes.io/over-capacity": "truncated"});
    let harness = orphaned(ControllerOptions::default(), &slices, truncated).await;
    assert_eq!(harness.server.list("endpointslices").len(), 31);
    assert_eq!(published(&harness).len(), 3000);
    insta::assert_snapshot!(harness.events().join("\n"));
    // A user points the Service elsewhere.
    harness.put("endpoints", &written_by("kubectl", endpoints("web", &["192.0.2.1"]))).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.slices(), ["endpointslicemirroring [192.0.2.1]"]);
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_are_out_of_date_take_none_away() {
    let stale = written_by(CONTROLLER, endpoints("web", &["192.0.2.1"]));
    let harness = one(&["192.0.2.1", "192.0.2.2"], stale).await;
    let both = ["endpointslice [192.0.2.1 192.0.2.2]", "endpointslicemirroring [192.0.2.1]"];
    assert_eq!(harness.slices(), both);
    insta::assert_snapshot!(harness.events().join("\n"), @"Service default/web: OrphanedEndpointSlicesKept EndpointSlices that were made from pods are kept: the Endpoints, last written by kube-controller-manager, lack ready endpoints of them (web-00)");
    // Further syncs neither ask nor report again.
    for note in ["a", "b"] {
        harness.patch("endpointslices", "web-00", json!({"metadata": {"labels": {"note": note}}})).await;
        harness.pass(Duration::from_secs(10)).await;
    }
    assert_eq!(harness.slices(), both);
    assert_eq!((harness.events().len(), reads_of_endpoints(&harness)), (1, 1));
    // The controller of the Endpoints catches up.
    let complete = written_by(CONTROLLER, endpoints("web", &["192.0.2.1", "192.0.2.2"]));
    harness.put("endpoints", &complete).await;
    harness.pass(Duration::from_secs(10)).await;
    assert_eq!(harness.slices(), ["endpointslicemirroring [192.0.2.1 192.0.2.2]"]);
    assert_eq!(harness.events().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_user_who_points_the_service_elsewhere_gets_rid_of_the_old_pods() {
    let harness = one(&["192.0.2.1"], written_by("kubectl", endpoints("web", &["198.51.100.1"]))).await;
    assert_eq!(harness.slices(), ["endpointslicemirroring [198.51.100.1]"]);
    assert_eq!(harness.events(), [""; 0]);
    assert_eq!(harness.controller.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn nothing_goes_while_the_server_does_not_say_who_wrote_the_endpoints() {
    for fault in [Fault::Refuse { status: 403, retry_after: None }, Fault::LoseRequest] {
        let harness = Harness::start(&server([]), ControllerOptions::default()).await;
        let made = harness.create(&service("web")).await;
        harness.server.add_fault(FaultRule::on(fault, "get", "endpoints"));
        harness.create(&made_of_pods("web-00", &made, "192.0.2.1")).await;
        harness.create(&written_by("kubectl", endpoints("web", &["198.51.100.1"]))).await;
        harness.pass(Duration::from_secs(300)).await;
        assert_eq!(harness.slices(), ["endpointslice [192.0.2.1]", "endpointslicemirroring [198.51.100.1]"]);
        assert!(reads_of_endpoints(&harness) > 1);
        harness.server.clear_faults();
        harness.pass(Duration::from_secs(600)).await;
        assert_eq!(harness.slices(), ["endpointslicemirroring [198.51.100.1]"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_that_is_behind_takes_none_away() {
    let user = written_by("kubectl", endpoints("web", &["198.51.100.1"]));
    let harness = Harness::start(&server([]), ControllerOptions::default()).await;
    let mut selecting = service("web");
    selecting["spec"]["selector"] = json!({"app": "web"});
    let made = harness.create(&selecting).await;
    harness.create(&made_of_pods("web-00", &made, "192.0.2.1")).await;
    harness.create(&user).await;
    harness.pass(Duration::from_secs(1)).await;
    harness.stall_watch("endpoints", Duration::from_secs(30)).await;
    harness.put("endpoints", &written_by(CONTROLLER, endpoints("web", &["198.51.100.2"]))).await;
    harness.patch("services", "web", json!({"spec": {"selector": null}})).await;
    harness.pass(Duration::from_secs(20)).await;
    assert_eq!(harness.slices(), ["endpointslice [192.0.2.1]", "endpointslicemirroring [198.51.100.1]"]);
    assert!(reads_of_endpoints(&harness) > 0, "the cache was behind");
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.slices(), ["endpointslice [192.0.2.1]", "endpointslicemirroring [198.51.100.2]"]);
    assert!(
        harness.events()[0].contains("last written by kube-controller-manager"),
        "{:?}",
        harness.events()
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_delete_does_not_keep_other_orphans_from_being_deleted() {
    let slices = [vec!["10.0.0.1".to_owned()], vec!["10.0.0.2".to_owned()]];
    let out_of_date = written_by(CONTROLLER, endpoints("web", &["10.0.0.3"]));
    let harness = orphaned(ControllerOptions::default(), &slices, out_of_date).await;
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    harness.server.add_fault(FaultRule::new(refuse, |it| it.verb == "delete" && it.name == "web-00"));
    harness.server.clear_request_log();
    // A user points the Service elsewhere, so that the controller may delete both slices.
    harness.put("endpoints", &written_by("kubectl", endpoints("web", &["192.0.2.1"]))).await;
    harness.pass(Duration::from_secs(5)).await;
    let log = harness.server.request_log();
    assert!(log.iter().any(|it| it.request.verb == "delete" && it.status == 403), "the fault happened");
    assert_eq!(harness.slices(), ["endpointslice [10.0.0.1]", "endpointslicemirroring [192.0.2.1]"]);
    harness.server.clear_faults();
    harness.pass(Duration::from_secs(120)).await;
    assert_eq!(harness.slices(), ["endpointslicemirroring [192.0.2.1]"]);
}
