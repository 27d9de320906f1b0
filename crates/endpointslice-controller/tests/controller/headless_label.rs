//! Tests the label with which kube-proxy ignores the slices of headless Services, for each way in
//! which a slice can have it wrong.

use kube_endpoint_endpointslice_controller::ControllerOptions;
use serde_json::{Value, json};

use crate::controller::harness::{Harness, changed, seconds, server};
use crate::controller::objects::{name, pod, service, slice};

const HEADLESS: &str = "service.kubernetes.io/headless";

fn headless(name: &str) -> Value {
    let mut service = service(name);
    service["spec"]["clusterIP"] = "None".into();
    service["spec"]["clusterIPs"] = json!(["None"]);
    service
}

fn options(repair: bool) -> ControllerOptions {
    changed(|options| options.plan = options.plan.clone().with_headless_label_repair(repair))
}

/// Returns a controller and a Service with two pods, whose slice exists.
async fn started(repair: bool, service: &Value) -> Harness {
    let pods = [pod("a", 1, true), pod("b", 2, true)];
    let harness = Harness::start(&server(pods), options(repair)).await;
    harness.create(service).await;
    harness.pass(seconds(1)).await;
    assert_eq!(harness.writes(), ["create endpointslices 201"]);
    harness
}

fn is_labelled(harness: &Harness) -> bool {
    harness.slice("web")["metadata"]["labels"].get(HEADLESS).is_some()
}

/// The API server lets the cluster IP of a Service change only by way of an ExternalName.
async fn change_type(harness: &Harness, to_headless: bool) {
    let external = json!({"type": "ExternalName", "externalName": "example.invalid", "clusterIP": null, "clusterIPs": null,
        "ipFamilies": null, "ipFamilyPolicy": null});
    harness.patch("services", "web", json!({"spec": external})).await;
    harness.pass(seconds(1)).await;
    let (ip, ips) = if to_headless { (json!("None"), json!(["None"])) } else { (Value::Null, Value::Null) };
    let back = json!({"type": "ClusterIP", "externalName": null, "clusterIP": ip, "clusterIPs": ips});
    harness.patch("services", "web", json!({"spec": back})).await;
    harness.pass(seconds(1)).await;
    let service = harness.get("services", "web").unwrap();
    assert_eq!(service["spec"]["clusterIP"] == "None", to_headless, "{service}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_is_no_longer_headless_gets_its_slice_back() {
    for repair in [true, false] {
        let harness = started(repair, &headless("web")).await;
        assert!(is_labelled(&harness));
        change_type(&harness, false).await;
        assert_eq!(is_labelled(&harness), !repair);
        assert_eq!(harness.writes().len(), usize::from(repair));
        assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
        harness.pass(seconds(3600)).await;
        assert_eq!(harness.writes(), [""; 0]);
        harness.nothing_is_remembered().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_service_that_becomes_headless_has_its_slice_labelled() {
    for repair in [true, false] {
        let harness = started(repair, &service("web")).await;
        change_type(&harness, true).await;
        assert_eq!(is_labelled(&harness), repair);
        assert_eq!(harness.writes().len(), usize::from(repair));
        harness.pass(seconds(3600)).await;
        assert_eq!(harness.writes(), [""; 0]);
    }
}

/// Plans from changed pods rely on the labels of slices, so the user sets the label between two of
/// them.
#[tokio::test(start_paused = true)]
async fn a_label_that_is_set_by_hand_is_removed() {
    for repair in [true, false] {
        let harness = started(repair, &service("web")).await;
        harness.load([pod("a", 1, false)]);
        harness.pass(seconds(2)).await;
        assert_eq!(harness.writes(), ["update endpointslices 200"]);
        for value in ["", "true"] {
            let labels = json!({"metadata": {"labels": {HEADLESS: value}}});
            harness.patch("endpointslices", name(&harness.slice("web")), labels).await;
            harness.pass(seconds(30)).await;
            assert_eq!(is_labelled(&harness), !repair, "{value:?}");
            assert_eq!(harness.writes().len(), usize::from(repair), "{value:?}");
        }
        // A write for another reason corrects it without the gate, too.
        harness.load([pod("a", 1, true)]);
        harness.pass(seconds(3600)).await;
        assert!(!is_labelled(&harness));
        assert_eq!(harness.writes(), ["update endpointslices 200"]);
    }
}

#[tokio::test(start_paused = true)]
async fn slices_that_are_wrong_at_the_start_are_corrected_and_others_are_kept() {
    let harness = started(true, &service("web")).await;
    let (right, server) = (harness.slice("web"), harness.crash().await);
    for (repair, labelled) in [(true, false), (false, true), (true, true)] {
        let mut slice = right.clone();
        if labelled {
            slice["metadata"]["labels"][HEADLESS] = "".into();
        }
        server.load([slice]).unwrap();
        let harness = Harness::start(&server, options(repair)).await;
        assert_eq!(harness.writes().len(), usize::from(repair && labelled));
        assert_eq!(is_labelled(&harness), labelled && !repair);
        harness.crash().await;
    }
}

/// The new Service reuses the slice of the deleted one, with its labels.
#[tokio::test(start_paused = true)]
async fn a_headless_service_that_is_replaced_leaves_no_label() {
    for repair in [true, false] {
        let harness = started(repair, &headless("web")).await;
        harness.delete("services", "web").await;
        harness.create(&service("web")).await;
        harness.pass(seconds(10)).await;
        assert!(!is_labelled(&harness));
        assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    }
}

/// The manager of the slice may have other consumers in mind.
#[tokio::test(start_paused = true)]
async fn slices_of_other_managers_keep_the_label() {
    let harness = started(true, &service("web")).await;
    let mut foreign = slice("foreign", "web", "somebody.example", "192.0.2.1");
    foreign["metadata"]["labels"][HEADLESS] = "".into();
    harness.create(&foreign).await;
    harness.pass(seconds(60)).await;
    assert_eq!(harness.writes(), [""; 0]);
}
