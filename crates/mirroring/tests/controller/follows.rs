//! Mirrored slices follow their Endpoints and Service.

use std::time::Duration;

use kube_endpoint_mirroring::{ControllerOptions, PlanOptions};
use serde_json::{Value, json};

use crate::world::{World, endpoints, server, service};

async fn started(objects: impl IntoIterator<Item = Value>) -> World {
    World::start(&server(objects), ControllerOptions::default()).await
}

const MIRROR: &str = "endpointslicemirroring";

fn mirrored(addresses: &str) -> Vec<String> {
    vec![format!("{MIRROR} [{addresses}]")]
}

const NOTHING: [&str; 0] = [];

#[tokio::test(start_paused = true)]
async fn edits_of_endpoints_are_mirrored_at_once() {
    let options = ControllerOptions { batch_period: Duration::from_secs(30), ..ControllerOptions::default() };
    let world = World::start(&server([]), options).await;
    world.create(&endpoints("web", &["192.0.2.1"])).await;
    world.moment().await;
    assert_eq!(world.slices(), NOTHING, "no Service");
    world.create(&service("web")).await;
    world.moment().await;
    assert_eq!(world.slices(), mirrored("192.0.2.1"));
    world.put("endpoints", &endpoints("web", &["192.0.2.1", "192.0.2.2"])).await;
    world.moment().await;
    assert_eq!(world.slices(), mirrored("192.0.2.1 192.0.2.2"));
    world.put("endpoints", &endpoints("web", &[])).await;
    world.moment().await;
    assert_eq!(world.slices(), NOTHING);
    world.put("endpoints", &endpoints("web", &["192.0.2.3"])).await;
    world.moment().await;
    assert_eq!(world.slices(), mirrored("192.0.2.3"));
    world.pass(Duration::from_secs(3600)).await;
    let expected = ["create 201", "update 200", "delete 200", "create 201"];
    assert_eq!(world.writes(), expected.map(|it| it.replacen(' ', " endpointslices ", 1)));
    assert_eq!(world.controller.pending(), 0);
}

#[tokio::test(start_paused = true)]
async fn deleted_and_made_anew_the_slices_belong_to_the_new_endpoints() {
    for between in [0, 5] {
        let world = started([service("web")]).await;
        world.create(&endpoints("web", &["192.0.2.1"])).await;
        world.pass(Duration::from_secs(1)).await;
        world.delete("endpoints", "web").await;
        world.pass(Duration::from_secs(between)).await;
        if between > 0 {
            assert_eq!(world.slices(), NOTHING);
        }
        let again = world.create(&endpoints("web", &["192.0.2.1"])).await;
        world.pass(Duration::from_secs(10)).await;
        assert_eq!(world.slices(), mirrored("192.0.2.1"));
        let slice = world.get("endpointslices", &world.slice()).unwrap();
        assert_eq!(slice["metadata"]["ownerReferences"][0]["uid"], again["metadata"]["uid"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_label_and_the_mark_of_a_lock_switch_mirroring_off_and_on() {
    let on_and_off = [
        ("labels", "endpointslice.kubernetes.io/skip-mirror", "true"),
        ("annotations", "control-plane.alpha.kubernetes.io/leader", "{}"),
    ];
    for (field, name, value) in on_and_off {
        let mut skipped = endpoints("web", &["192.0.2.1"]);
        skipped["metadata"][field] = json!({name: value});
        let world = started([service("web"), skipped]).await;
        assert_eq!(world.slices(), NOTHING, "{name}");
        world.patch("endpoints", "web", json!({"metadata": {field: {name: null}}})).await;
        world.moment().await;
        assert_eq!(world.slices(), mirrored("192.0.2.1"), "{name}");
        world.patch("endpoints", "web", json!({"metadata": {field: {name: value}}})).await;
        world.moment().await;
        assert_eq!(world.slices(), NOTHING, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn services_come_and_go_and_gain_and_lose_selectors() {
    let world = started([endpoints("web", &["192.0.2.1"])]).await;
    assert_eq!(world.slices(), NOTHING);
    world.create(&service("web")).await;
    world.moment().await;
    assert_eq!(world.slices(), mirrored("192.0.2.1"));
    world.patch("services", "web", json!({"spec": {"selector": {"app": "web"}}})).await;
    world.moment().await;
    assert_eq!(world.slices(), NOTHING);
    world.patch("services", "web", json!({"spec": {"selector": null}})).await;
    world.moment().await;
    assert_eq!(world.slices(), mirrored("192.0.2.1"));
    // The API server deletes the Endpoints with it; the slices do not wait for the garbage collector.
    world.delete("services", "web").await;
    world.moment().await;
    assert_eq!(world.slices(), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn other_changes_of_a_service_and_of_what_is_not_mirrored_start_nothing() {
    let mut selecting = service("pods");
    selecting["spec"]["selector"] = json!({"app": "web"});
    let world = started([service("web"), selecting, endpoints("web", &["192.0.2.1"])]).await;
    world.writes();
    world.patch("services", "web", json!({"metadata": {"labels": {"a": "b"}}})).await;
    world.create(&endpoints("pods", &["192.0.2.2"])).await;
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(world.writes(), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn while_endpoints_are_being_deleted_no_slice_is_made() {
    let mut held = endpoints("web", &["192.0.2.1"]);
    held["metadata"]["finalizers"] = json!(["example.invalid/hold"]);
    let world = started([service("web"), held]).await;
    assert_eq!(world.slices(), mirrored("192.0.2.1"));
    world.delete("endpoints", "web").await;
    world.moment().await;
    world.writes();
    world.delete("endpointslices", &world.slice()).await;
    world.pass(Duration::from_secs(60)).await;
    assert_eq!((world.slices(), world.writes()), (vec![], vec![]));
    world.patch("endpoints", "web", json!({"metadata": {"finalizers": null}})).await;
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(world.get("endpoints", "web"), None);
    assert_eq!(world.writes(), NOTHING);
}

#[tokio::test(start_paused = true)]
async fn what_happened_while_nobody_watched_is_made_up_for_at_the_start() {
    let skip = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    for change in ["gone", "skipped", "selector", "edited"] {
        let server = crate::world::build(
            kube_endpoint_embedded_apiserver::EmbeddedApiServer::builder()
                .without_garbage_collector()
                .load([service("web"), endpoints("web", &["192.0.2.1"])]),
        );
        let world = World::start(&server, ControllerOptions::default()).await;
        assert_eq!(world.slices(), mirrored("192.0.2.1"));
        world.controller.shut_down();
        let _ = match change {
            "gone" => world.delete("endpoints", "web").await,
            "skipped" => world.patch("endpoints", "web", json!({"metadata": {"labels": skip}})).await,
            "selector" => world.patch("services", "web", json!({"spec": {"selector": {"a": "b"}}})).await,
            _ => world.put("endpoints", &endpoints("web", &["192.0.2.2"])).await,
        };
        let server = world.crash().await;
        let world = World::start(&server, ControllerOptions::default()).await;
        let expected = if change == "edited" { mirrored("192.0.2.2") } else { vec![] };
        assert_eq!(world.slices(), expected, "{change}");
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_that_are_skipped_are_told_of_as_events_about_the_endpoints() {
    let plan = PlanOptions::default().with_max_endpoints_per_subset(2);
    let options = ControllerOptions { plan, ..ControllerOptions::default() };
    let invalid = endpoints("web", &["0.0.0.256", "192.0.2.1", "192.0.2.2", "192.0.2.3"]);
    let world = World::start(&server([service("web"), invalid]), options).await;
    assert_eq!(world.slices(), mirrored("192.0.2.1 192.0.2.2"));
    insta::assert_snapshot!(world.events().join("\n"), @r"
    Endpoints default/web: InvalidIPAddress Skipped 1 invalid IP addresses when mirroring to EndpointSlices
    Endpoints default/web: TooManyAddressesToMirror A max of 2 addresses can be mirrored to EndpointSlices per Endpoints subset. 2 addresses were skipped
    ");
}
