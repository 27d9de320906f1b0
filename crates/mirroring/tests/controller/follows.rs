//! Tests that mirrored slices follow their Endpoints and Service.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_mirroring::{ControllerOptions, PlanOptions};
use serde_json::{Value, json};

use crate::controller::harness::{Harness, changed, endpoints, of_the_endpoints_controller, server, service};

async fn started(objects: impl IntoIterator<Item = Value>) -> Harness {
    Harness::start(&server(objects), ControllerOptions::default()).await
}

const MIRROR: &str = "endpointslicemirroring";

fn mirrored(addresses: &str) -> Vec<String> {
    vec![format!("{MIRROR} [{addresses}]")]
}

const NOTHING: [&str; 0] = [];

#[tokio::test(start_paused = true)]
async fn edits_of_endpoints_are_mirrored_at_once() {
    let options = changed(|options| options.batch_period = Duration::from_secs(30));
    let harness = Harness::start(&server([]), options).await;
    harness.create(&endpoints("web", &["192.0.2.1"])).await;
    harness.moment().await;
    assert_eq!(harness.slices(), NOTHING, "no Service");
    harness.create(&service("web")).await;
    harness.moment().await;
    assert_eq!(harness.slices(), mirrored("192.0.2.1"));
    harness.put("endpoints", &endpoints("web", &["192.0.2.1", "192.0.2.2"])).await;
    harness.moment().await;
    assert_eq!(harness.slices(), mirrored("192.0.2.1 192.0.2.2"));
    harness.put("endpoints", &endpoints("web", &[])).await;
    harness.moment().await;
    assert_eq!(harness.slices(), NOTHING);
    harness.put("endpoints", &endpoints("web", &["192.0.2.3"])).await;
    harness.moment().await;
    assert_eq!(harness.slices(), mirrored("192.0.2.3"));
    harness.pass(Duration::from_secs(3600)).await;
    let expected = ["create 201", "update 200", "delete 200", "create 201"];
    assert_eq!(harness.writes(), expected.map(|it| it.replacen(' ', " endpointslices ", 1)));
    assert_eq!(harness.controller.pending(), 0);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn slices_of_recreated_endpoints_have_the_new_owner() {
    for between in [0, 5] {
        let harness = started([service("web")]).await;
        harness.create(&endpoints("web", &["192.0.2.1"])).await;
        harness.pass(Duration::from_secs(1)).await;
        harness.delete("endpoints", "web").await;
        harness.pass(Duration::from_secs(between)).await;
        if between > 0 {
            assert_eq!(harness.slices(), NOTHING);
        }
        let again = harness.create(&endpoints("web", &["192.0.2.1"])).await;
        harness.pass(Duration::from_secs(10)).await;
        assert_eq!(harness.slices(), mirrored("192.0.2.1"));
        let slice = harness.get("endpointslices", &harness.slice()).unwrap();
        assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], again["metadata"]["uid"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_skip_mirror_label_and_the_leader_annotation_turn_mirroring_off() {
    let on_and_off = [
        ("labels", "endpointslice.kubernetes.io/skip-mirror", "true"),
        ("annotations", "control-plane.alpha.kubernetes.io/leader", "{}"),
    ];
    for (field, name, value) in on_and_off {
        let mut skipped = endpoints("web", &["192.0.2.1"]);
        skipped["metadata"][field] = json!({name: value});
        let harness = started([service("web"), skipped]).await;
        assert_eq!(harness.slices(), NOTHING, "{name}");
        harness.patch("endpoints", "web", json!({"metadata": {field: {name: null}}})).await;
        harness.moment().await;
        assert_eq!(harness.slices(), mirrored("192.0.2.1"), "{name}");
        harness.patch("endpoints", "web", json!({"metadata": {field: {name: value}}})).await;
        harness.moment().await;
        assert_eq!(harness.slices(), NOTHING, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn slices_follow_the_service_and_its_selector() {
    let harness = started([endpoints("web", &["192.0.2.1"])]).await;
    assert_eq!(harness.slices(), NOTHING);
    harness.create(&service("web")).await;
    harness.moment().await;
    assert_eq!(harness.slices(), mirrored("192.0.2.1"));
    harness.patch("services", "web", json!({"spec": {"selector": {"app": "web"}}})).await;
    harness.moment().await;
    assert_eq!(harness.slices(), NOTHING);
    harness.patch("services", "web", json!({"spec": {"selector": null}})).await;
    harness.moment().await;
    assert_eq!(harness.slices(), mirrored("192.0.2.1"));
    // The API server deletes the Endpoints with the Service; the controller deletes the slices
    // without waiting for the garbage collector.
    harness.delete("services", "web").await;
    harness.moment().await;
    assert_eq!(harness.slices(), NOTHING);
    harness.nothing_is_remembered().await;
}

/// As upstream, mirroring looks at the selector, not at the type of a Service.
#[tokio::test(start_paused = true)]
async fn a_service_that_was_an_external_name_for_a_while_keeps_no_mirrored_slices() {
    let mut selecting = service("web");
    selecting["spec"]["selector"] = json!({"app": "web"});
    let made = of_the_endpoints_controller(endpoints("web", &["192.0.2.1"]));
    let of_a_user = [service("db"), endpoints("db", &["192.0.2.9"])];
    let harness = started([selecting, made].into_iter().chain(of_a_user)).await;
    assert_eq!(harness.slices(), mirrored("192.0.2.9"));
    let of_db = harness.server.list("endpointslices");
    harness.writes();
    let alias = json!({
        "type": "ExternalName", "externalName": "example.invalid", "selector": null,
        "clusterIP": null, "clusterIPs": null,
    });
    let back = json!({"type": "ClusterIP", "externalName": null});
    harness.patch("services", "db", json!({"spec": alias})).await;
    harness.patch("services", "web", json!({"spec": alias})).await;
    harness.moment().await;
    assert_eq!(harness.get("services", "web").unwrap()["spec"]["type"], "ExternalName");
    assert_eq!(harness.slices(), [mirrored("192.0.2.1"), mirrored("192.0.2.9")].concat());
    let mut selecting = back.clone();
    selecting["selector"] = json!({"app": "web"});
    harness.patch("services", "db", json!({"spec": back})).await;
    harness.patch("services", "web", json!({"spec": selecting})).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.get("services", "web").unwrap()["spec"]["type"], "ClusterIP");
    assert_eq!(harness.server.list("endpointslices"), of_db, "only the slice of the user's Endpoints stays");
    assert_eq!(harness.writes(), ["create endpointslices 201", "delete endpointslices 200"]);
    harness.nothing_is_remembered().await;
}

/// The cache holds only a summary of them.
#[tokio::test(start_paused = true)]
async fn what_the_endpoints_controller_wrote_is_read_once_if_it_has_to_be_mirrored() {
    let mut selecting = service("web");
    selecting["spec"]["selector"] = json!({"app": "web"});
    let left = of_the_endpoints_controller(endpoints("web", &["192.0.2.1"]));
    let harness = started([selecting, left]).await;
    assert_eq!((harness.slices(), harness.requests()), (Vec::<String>::new(), Vec::<String>::new()));
    let reads = || harness.requests().iter().filter(|it| *it == "get endpoints 200").count();
    harness.patch("services", "web", json!({"spec": {"selector": null}})).await;
    harness.moment().await;
    assert_eq!(harness.slices(), mirrored("192.0.2.1"));
    assert_eq!(reads(), 1);
    // This starts another sync of the same version.
    harness.delete("endpointslices", &harness.slice()).await;
    harness.pass(Duration::from_secs(10)).await;
    assert_eq!(harness.slices(), mirrored("192.0.2.1"));
    assert_eq!(reads(), 0);
    // This is another version.
    let subsets = json!([{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"port": 9376, "protocol": "TCP"}]}]);
    harness.patch("endpoints", "web", json!({"subsets": subsets})).await;
    harness.moment().await;
    assert_eq!(harness.slices(), mirrored("192.0.2.7"));
    assert_eq!(reads(), 1);
    // The controller repeats a failed read.
    harness.fault(Fault::Refuse { status: 503, retry_after: None }, "get", 1);
    let subsets = json!([{"addresses": [{"ip": "192.0.2.8"}], "ports": [{"port": 9376, "protocol": "TCP"}]}]);
    harness.patch("endpoints", "web", json!({"subsets": subsets})).await;
    harness.pass(Duration::from_secs(10)).await;
    assert_eq!(harness.slices(), mirrored("192.0.2.8"));
    let gets: Vec<String> = harness.requests().into_iter().filter(|it| it.starts_with("get ")).collect();
    assert_eq!(gets, ["get endpoints 503", "get endpoints 200"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn irrelevant_changes_start_no_sync() {
    let mut selecting = service("pods");
    selecting["spec"]["selector"] = json!({"app": "web"});
    let mut addressed = service("web");
    addressed["spec"]["clusterIP"] = "10.96.1.1".into();
    addressed["spec"]["clusterIPs"] = json!(["10.96.1.1"]);
    let harness = started([addressed, selecting, endpoints("web", &["192.0.2.1"])]).await;
    harness.writes();
    harness.patch("services", "web", json!({"metadata": {"labels": {"a": "b"}}})).await;
    let added = || harness.metrics().sum("workqueue_adds_total", &[]);
    let before = added();
    harness.create(&endpoints("pods", &["192.0.2.2"])).await;
    harness.put("endpoints", &endpoints("pods", &["192.0.2.3"])).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.writes(), NOTHING);
    assert_eq!(added(), before);
    // Nothing else starts a sync of the Endpoints that have changed meanwhile.
    harness.patch("services", "pods", json!({"spec": {"selector": null}})).await;
    harness.moment().await;
    assert_eq!(harness.slices(), [mirrored("192.0.2.1"), mirrored("192.0.2.3")].concat());
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn no_slice_is_created_for_endpoints_being_deleted() {
    let mut held = endpoints("web", &["192.0.2.1"]);
    held["metadata"]["finalizers"] = json!(["example.invalid/hold"]);
    let harness = started([service("web"), held]).await;
    assert_eq!(harness.slices(), mirrored("192.0.2.1"));
    harness.delete("endpoints", "web").await;
    harness.moment().await;
    harness.writes();
    harness.delete("endpointslices", &harness.slice()).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!((harness.slices(), harness.writes()), (vec![], vec![]));
    harness.patch("endpoints", "web", json!({"metadata": {"finalizers": null}})).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.get("endpoints", "web"), None);
    assert_eq!(harness.writes(), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn changes_made_while_stopped_are_mirrored_at_the_start() {
    let skip = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    for change in ["gone", "skipped", "selector", "edited"] {
        let objects = [service("web"), endpoints("web", &["192.0.2.1"])];
        let builder = kube_endpoint_testing::server_builder();
        let server = builder.without_garbage_collector().load(objects).build().unwrap();
        let harness = Harness::start(&server, ControllerOptions::default()).await;
        assert_eq!(harness.slices(), mirrored("192.0.2.1"));
        harness.controller.shut_down();
        let _ = match change {
            "gone" => harness.delete("endpoints", "web").await,
            "skipped" => harness.patch("endpoints", "web", json!({"metadata": {"labels": skip}})).await,
            "selector" => harness.patch("services", "web", json!({"spec": {"selector": {"a": "b"}}})).await,
            _ => harness.put("endpoints", &endpoints("web", &["192.0.2.2"])).await,
        };
        let server = harness.crash().await;
        let harness = Harness::start(&server, ControllerOptions::default()).await;
        let expected = if change == "edited" { mirrored("192.0.2.2") } else { vec![] };
        assert_eq!(harness.slices(), expected, "{change}");
    }
}

#[tokio::test(start_paused = true)]
async fn skipped_addresses_are_reported_as_events_about_the_endpoints() {
    let plan = PlanOptions::default().with_max_endpoints_per_subset(2);
    let options = changed(|options| options.plan = plan);
    let invalid = endpoints("web", &["0.0.0.256", "192.0.2.1", "192.0.2.2", "192.0.2.3"]);
    let harness = Harness::start(&server([service("web"), invalid]), options).await;
    assert_eq!(harness.slices(), mirrored("192.0.2.1 192.0.2.2"));
    insta::assert_snapshot!(harness.events().join("\n"), @r"
    Endpoints default/web: InvalidIPAddress Skipped 1 invalid IP addresses when mirroring to EndpointSlices
    Endpoints default/web: TooManyAddressesToMirror A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 2 addresses were skipped
    ");
    harness.nothing_is_remembered().await;
}
