//! Writes that fail, are refused, or of which nobody knows what became.

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_endpointslice_controller::{ControllerOptions, PlanOptions};
use serde_json::json;

use crate::objects::{name, pod, service, trigger_time};
use crate::world::{World, millis, seconds, server};

fn refuse(status: u16) -> Fault {
    Fault::Refuse { status, retry_after: None }
}

/// Two pods, each in a slice of its own.
async fn two_slices() -> World {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(1);
    let options = ControllerOptions { plan, ..ControllerOptions::default() };
    let world = World::start(&server([pod("a", 1, true), pod("b", 2, true), service("web")]), options).await;
    assert_eq!(world.requests().len(), 2);
    world
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_was_lost_leaves_one_slice() {
    for fault in [Fault::ApplyAndLoseAnswer, Fault::LoseRequest] {
        let world = World::with([pod("a", 1, true)]).await;
        world.fault(fault, "create", 1);
        world.create(&service("web")).await;
        world.pass(seconds(60)).await;
        assert_eq!(world.endpoints("web"), ["10.1.0.1"]);
        world.slice("web");
        assert_eq!(world.controller.pending(), 0);
        assert_eq!(world.controller.state_counts().outstanding_writes, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_whose_answer_was_lost_is_asked_for_under_its_name_while_the_cache_lags() {
    let world = World::with([pod("a", 1, true)]).await;
    world.hold_up("endpointslices", seconds(20)).await;
    world.fault(Fault::ApplyAndLoseAnswer, "create", 1);
    world.create(&service("web")).await;
    world.pass(seconds(5)).await;
    world.load([pod("b", 2, true)]);
    world.pass(seconds(5)).await;
    assert_eq!(world.endpoints("web"), ["10.1.0.1"], "the cache does not show it yet");
    world.slice("web");
    world.pass(seconds(11)).await;
    assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    world.slice("web");
    world.pass(seconds(60)).await;
    let (requests, events) = (world.requests(), world.events());
    insta::assert_snapshot!([requests, events].concat().join("\n"), @r"
    create endpointslices 201
    create endpointslices 409
    get endpointslices 200
    update endpointslices 200
    Service default/web: FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service default/web: failed to create web-wzzqr EndpointSlice for Service default/web: POST /apis/discovery.k8s.io/v1/namespaces/default/endpointslices: ServiceError: connection closed before message completed
    ");
}

#[tokio::test(start_paused = true)]
async fn creates_whose_answers_are_lost_again_and_again_leave_one_slice_each() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(1);
    let options = ControllerOptions { plan, ..ControllerOptions::default() };
    for held_up in [0, 30] {
        let world = World::start(&server([pod("a", 1, true), pod("b", 2, true)]), options.clone()).await;
        world.hold_up("endpointslices", seconds(held_up)).await;
        world.fault(Fault::ApplyAndLoseAnswer, "create", 4);
        world.create(&service("web")).await;
        world.pass(seconds(600)).await;
        assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
        assert_eq!(world.slices("web").len(), 2, "{:?}", world.requests());
        assert_eq!(world.controller.state_counts().outstanding_writes, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_whose_answer_was_lost_makes_no_difference() {
    for fault in [Fault::ApplyAndLoseAnswer, Fault::LoseRequest] {
        let world = World::with([pod("a", 1, true), service("web")]).await;
        world.fault(fault, "update", 1);
        world.load([pod("b", 2, true)]);
        world.pass(seconds(60)).await;
        assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
        assert_eq!(world.slices("web").len(), 1);
        assert_eq!(world.controller.pending(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_whose_answer_was_lost_is_settled_when_the_cache_has_caught_up() {
    let world = World::with([pod("a", 1, true), service("web")]).await;
    world.requests();
    world.hold_up("endpointslices", seconds(10)).await;
    world.fault(Fault::ApplyAndLoseAnswer, "update", 1);
    world.load([pod("b", 2, true)]);
    world.pass(seconds(5)).await;
    world.load([pod("c", 3, true)]);
    world.pass(seconds(7)).await;
    assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2", "10.1.0.3"]);
    let requests = world.requests();
    assert_eq!(requests.last().map(String::as_str), Some("update endpointslices 200"));
}

#[tokio::test(start_paused = true)]
async fn a_delete_whose_answer_was_lost_makes_no_difference() {
    for (fault, held_up) in
        [(Fault::ApplyAndLoseAnswer, 0), (Fault::ApplyAndLoseAnswer, 10), (Fault::LoseRequest, 0)]
    {
        let world = two_slices().await;
        if held_up > 0 {
            world.hold_up("endpointslices", seconds(held_up)).await;
        }
        world.fault(fault, "delete", 1);
        world.delete("pods", "b").await;
        world.pass(seconds(60)).await;
        assert_eq!(world.endpoints("web"), ["10.1.0.1"]);
        assert!(world.requests().iter().all(|request| request.starts_with("delete endpointslices")));
        assert_eq!(world.controller.pending(), 0);
        assert_eq!(world.controller.state_counts().outstanding_writes, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_told_and_tried_again_and_keeps_its_trigger_time() {
    let world = World::with([pod("a", 1, true)]).await;
    world.fault(refuse(500), "create", 1);
    world.create(&service("web")).await;
    world.pass(seconds(2)).await;
    let created = world.slice("web");
    assert_eq!(trigger_time(&created), "2026-01-01T00:00:02Z");
    for fault in
        [refuse(500), refuse(422), Fault::LoseRequest, Fault::Refuse { status: 429, retry_after: Some(1) }]
    {
        world.load([pod("b", 2, false)]);
        world.pass(seconds(2)).await;
        world.fault(fault, "update", 1);
        world.load([pod("b", 2, true)]);
        world.pass(seconds(5)).await;
        assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
        assert_eq!(trigger_time(&world.slice("web")), "2026-01-01T00:01:02Z");
    }
}

#[tokio::test(start_paused = true)]
async fn failures_are_told_in_upstreams_words() {
    let world = World::with([pod("a", 1, true)]).await;
    world.fault(refuse(500), "create", 2);
    world.create(&service("web")).await;
    world.pass(seconds(10)).await;
    let made = world.slice("web");
    world.fault(refuse(500), "update", 1);
    world.load([pod("b", 2, true)]);
    world.pass(seconds(10)).await;
    let events = world.events().join("\n").replace(name(&made), "web-xxxxx");
    insta::assert_snapshot!([world.requests().join("\n"), events].join("\n"), @r"
    create endpointslices 500
    create endpointslices 500
    create endpointslices 201
    update endpointslices 500
    update endpointslices 200
    Service default/web: FailedToUpdateEndpointSlices (x2) Error updating Endpoint Slices for Service default/web: failed to create web-xxxxx EndpointSlice for Service default/web: an error on the server has prevented the request from succeeding
    Service default/web: FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service default/web: failed to update web-xxxxx EndpointSlice for Service default/web: an error on the server has prevented the request from succeeding
    ");
}

#[tokio::test(start_paused = true)]
async fn after_fifteen_retries_a_service_is_dropped_until_something_changes() {
    let world = World::with([pod("a", 1, true)]).await;
    world.fault(refuse(500), "create", usize::MAX);
    world.create(&service("web")).await;
    world.pass(seconds(10_000)).await;
    let attempts = world.timed_requests();
    let waits: Vec<u128> = attempts.windows(2).map(|pair| (pair[1].0 - pair[0].0) / 1000).collect();
    assert_eq!(waits, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000, 1000, 1000]);
    assert_eq!(world.metric("workqueue_dropped_total"), 1.0);
    assert_eq!(world.controller.pending(), 0);
    world.server.clear_faults();
    world.pass(seconds(10_000)).await;
    assert_eq!(world.requests(), [""; 0]);
    world.load([pod("b", 2, true)]);
    world.moment().await;
    assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(world.requests(), ["create endpointslices 201"]);
}

#[tokio::test(start_paused = true)]
async fn a_row_of_failures_is_forgotten_once_a_sync_succeeds() {
    let world = World::with([service("web")]).await;
    world.requests();
    for number in 1..4 {
        world.fault(refuse(500), "update", 3);
        world.load([pod(&format!("p{number}"), number, true)]);
        world.pass(seconds(30)).await;
        let attempts = world.timed_requests();
        let waits: Vec<u128> = attempts.windows(2).map(|pair| (pair[1].0 - pair[0].0) / 1000).collect();
        assert_eq!(waits, [1, 2, 4]);
    }
}

#[tokio::test(start_paused = true)]
async fn one_service_that_fails_holds_up_no_other() {
    let world = World::with([pod("a", 1, true)]).await;
    let refuse = FaultRule::new(refuse(500), |it| it.verb == "create" && it.namespace == "bad");
    world.server.add_fault(refuse);
    let mut bad = service("web");
    bad["metadata"]["namespace"] = "bad".into();
    let mut bad_pod = pod("a", 1, true);
    bad_pod["metadata"]["namespace"] = "bad".into();
    world.load([bad, bad_pod]);
    world.create(&service("web")).await;
    world.moment().await;
    assert_eq!(world.endpoints("web"), ["10.1.0.1"]);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_settled_when_the_cache_has_caught_up() {
    let world = World::with([pod("a", 1, true), service("web")]).await;
    let made = world.slice("web");
    world.requests();
    world.hold_up("endpointslices", seconds(3)).await;
    world.patch("endpointslices", name(&made), json!({"metadata": {"annotations": {"x": "y"}}})).await;
    world.load([pod("b", 2, true)]);
    world.pass(seconds(10)).await;
    assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(world.slice("web")["metadata"]["annotations"]["x"], "y");
    let requests = world.requests();
    assert_eq!(requests.first().map(String::as_str), Some("update endpointslices 409"));
    assert_eq!(requests.last().map(String::as_str), Some("update endpointslices 200"));
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_never_answered_is_given_up_after_a_minute() {
    let world = World::with([pod("a", 1, true), service("web")]).await;
    world.requests();
    world.fault(Fault::Delay(seconds(600)), "update", 1);
    world.load([pod("b", 2, true)]);
    world.pass(seconds(59)).await;
    assert_eq!(world.endpoints("web"), ["10.1.0.1"]);
    world.pass(seconds(2) + millis(100)).await;
    assert_eq!(world.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
}

#[tokio::test(start_paused = true)]
async fn one_address_type_that_fails_holds_up_no_other() {
    let dual = |name: &str, number: u8| {
        let mut pod = pod(name, number, true);
        pod["status"]["podIPs"] =
            json!([{"ip": format!("10.1.0.{number}")}, {"ip": format!("fd00::{number}")}]);
        pod
    };
    let mut both = service("web");
    both["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
    let world = World::with([dual("a", 1), both]).await;
    let of_type = |kind: &str| {
        let mut slices = world.slices("web");
        slices.retain(|slice| slice["addressType"] == kind);
        slices
    };
    let first = name(&of_type("IPv4")[0]).to_owned();
    world.server.add_fault(FaultRule::new(refuse(500), move |it| it.verb == "update" && it.name == first));
    world.requests();
    world.load([dual("b", 2)]);
    world.pass(millis(500)).await;
    assert_eq!(world.requests(), ["update endpointslices 500", "update endpointslices 200"]);
    assert_eq!(crate::objects::endpoints(&of_type("IPv4")), ["10.1.0.1"]);
    assert_eq!(crate::objects::endpoints(&of_type("IPv6")), ["fd00::1", "fd00::2"]);
    assert_eq!(world.metric("endpoint_slice_controller_changes"), 3.0);
    world.server.clear_faults();
    world.pass(seconds(2)).await;
    assert_eq!(crate::objects::endpoints(&of_type("IPv4")), ["10.1.0.1", "10.1.0.2"]);
}
