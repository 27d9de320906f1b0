//! Tests with writes that fail, that the server refuses, or whose result is unknown.

use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_endpointslice_controller::PlanOptions;
use serde_json::json;

use crate::controller::harness::{Harness, changed, millis, seconds, server};
use crate::controller::objects::{name, pod, service, trigger_time};

fn refuse(status: u16) -> Fault {
    Fault::Refuse { status, retry_after: None }
}

/// Two pods, each in a slice of its own.
async fn two_slices() -> Harness {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(1);
    let options = changed(|options| options.plan = plan);
    let harness =
        Harness::start(&server([pod("a", 1, true), pod("b", 2, true), service("web")]), options).await;
    assert_eq!(harness.requests().len(), 2);
    harness
}

#[tokio::test(start_paused = true)]
async fn a_create_with_a_lost_answer_makes_one_slice() {
    for fault in [Fault::ApplyAndLoseAnswer, Fault::LoseRequest] {
        let harness = Harness::with([pod("a", 1, true)]).await;
        harness.fault(fault, "create", 1);
        harness.create(&service("web")).await;
        harness.pass(seconds(60)).await;
        assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
        harness.slice("web");
        assert_eq!(harness.controller.pending(), 0);
        assert_eq!(harness.controller.state_counts().outstanding_writes, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_with_a_lost_answer_is_repeated_under_its_name_while_the_cache_lags() {
    let harness = Harness::with([pod("a", 1, true)]).await;
    harness.stall_watch("endpointslices", seconds(20)).await;
    harness.fault(Fault::ApplyAndLoseAnswer, "create", 1);
    harness.create(&service("web")).await;
    harness.pass(seconds(5)).await;
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(5)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"], "the cache does not show it yet");
    harness.slice("web");
    harness.pass(seconds(11)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    harness.slice("web");
    harness.pass(seconds(60)).await;
    let (requests, events) = (harness.requests(), harness.events());
    insta::assert_snapshot!([requests, events].concat().join("\n"), @r"
    create endpointslices 201
    create endpointslices 409
    get endpointslices 200
    update endpointslices 200
    Service default/web: FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service default/web: failed to create web-sn9dh EndpointSlice for Service default/web: POST /apis/discovery.k8s.io/v1/namespaces/default/endpointslices: connection closed before message completed
    ");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn creates_that_repeatedly_lose_their_answers_make_one_slice_each() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(1);
    let options = changed(|options| options.plan = plan);
    for held_up in [0, 30] {
        let harness = Harness::start(&server([pod("a", 1, true), pod("b", 2, true)]), options.clone()).await;
        harness.stall_watch("endpointslices", seconds(held_up)).await;
        harness.fault(Fault::ApplyAndLoseAnswer, "create", 4);
        harness.create(&service("web")).await;
        harness.pass(seconds(600)).await;
        assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
        assert_eq!(harness.slices("web").len(), 2, "{:?}", harness.requests());
        assert_eq!(harness.controller.state_counts().outstanding_writes, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn an_update_whose_answer_was_lost_is_settled_when_the_cache_has_caught_up() {
    let harness = Harness::with([pod("a", 1, true), service("web")]).await;
    harness.requests();
    harness.stall_watch("endpointslices", seconds(10)).await;
    harness.fault(Fault::ApplyAndLoseAnswer, "update", 1);
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(5)).await;
    harness.load([pod("c", 3, true)]);
    harness.pass(seconds(7)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2", "10.1.0.3"]);
    let requests = harness.requests();
    assert_eq!(requests.last().map(String::as_str), Some("update endpointslices 200"));
    harness.nothing_is_remembered().await;
}

/// Related to kubernetes#125638: the retry of the lost update finds that the cache, which does not
/// show the update yet, has what is wanted.
#[tokio::test(start_paused = true)]
async fn an_update_whose_answer_was_lost_is_undone_as_soon_as_the_cache_shows_it() {
    // The event of the update would start a sync after the batch period, as a write of another
    // client does.
    let options = changed(|options| options.batch_period = millis(20_000));
    let harness = Harness::start(&server([pod("a", 1, true), service("web")]), options).await;
    let name = name(&harness.slice("web")).to_owned();
    harness.stall_watch("endpointslices", seconds(5)).await;
    harness.requests();
    harness.fault(Fault::ApplyAndLoseAnswer, "update", 1);
    harness.patch("services", "web", json!({"metadata": {"labels": {"x": "y"}}})).await;
    harness.moment().await;
    harness.patch("services", "web", json!({"metadata": {"labels": {"x": null}}})).await;
    let has_label = || harness.get("endpointslices", &name).unwrap()["metadata"]["labels"].get("x").is_some();
    harness.pass(seconds(3)).await;
    assert!(has_label(), "the cache is behind, so nothing is written");
    harness.pass(seconds(2)).await;
    assert!(!has_label());
    let requests = ["update endpointslices 200", "get endpointslices 200", "update endpointslices 200"];
    assert_eq!(harness.requests(), requests);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_is_reported_and_retried_with_its_trigger_time() {
    let harness = Harness::with([pod("a", 1, true)]).await;
    harness.fault(refuse(500), "create", 1);
    harness.create(&service("web")).await;
    harness.pass(seconds(2)).await;
    let created = harness.slice("web");
    assert_eq!(trigger_time(&created), "2026-01-01T00:00:02Z");
    for fault in
        [refuse(500), refuse(422), Fault::LoseRequest, Fault::Refuse { status: 429, retry_after: Some(1) }]
    {
        harness.load([pod("b", 2, false)]);
        harness.pass(seconds(2)).await;
        harness.fault(fault, "update", 1);
        harness.load([pod("b", 2, true)]);
        harness.pass(seconds(5)).await;
        assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
        assert_eq!(trigger_time(&harness.slice("web")), "2026-01-01T00:01:02Z");
    }
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_reported_with_upstreams_texts() {
    let harness = Harness::with([pod("a", 1, true)]).await;
    harness.fault(refuse(500), "create", 2);
    harness.create(&service("web")).await;
    harness.pass(seconds(10)).await;
    let made = harness.slice("web");
    harness.fault(refuse(500), "update", 1);
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(10)).await;
    let events = harness.events().join("\n").replace(name(&made), "web-xxxxx");
    insta::assert_snapshot!([harness.requests().join("\n"), events].join("\n"), @r"
    create endpointslices 500
    create endpointslices 500
    create endpointslices 201
    update endpointslices 500
    update endpointslices 200
    Service default/web: FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service default/web: failed to create web-xxxxx EndpointSlice for Service default/web: an error on the server has prevented the request from succeeding
    Service default/web: FailedToUpdateEndpointSlices Error updating Endpoint Slices for Service default/web: failed to update web-xxxxx EndpointSlice for Service default/web: an error on the server has prevented the request from succeeding
    ");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_service_delays_no_other() {
    let harness = Harness::with([pod("a", 1, true)]).await;
    let refuse = FaultRule::new(refuse(500), |it| it.verb == "create" && it.namespace == "bad");
    harness.server.add_fault(refuse);
    let mut bad = service("web");
    bad["metadata"]["namespace"] = "bad".into();
    let mut bad_pod = pod("a", 1, true);
    bad_pod["metadata"]["namespace"] = "bad".into();
    harness.load([bad, bad_pod]);
    harness.create(&service("web")).await;
    harness.moment().await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_resolved_once_the_cache_has_caught_up() {
    let harness = Harness::with([pod("a", 1, true), service("web")]).await;
    let made = harness.slice("web");
    harness.requests();
    harness.stall_watch("endpointslices", seconds(3)).await;
    harness.patch("endpointslices", name(&made), json!({"metadata": {"annotations": {"x": "y"}}})).await;
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(10)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(harness.slice("web")["metadata"]["annotations"]["x"], "y");
    let requests = harness.requests();
    assert_eq!(requests.first().map(String::as_str), Some("update endpointslices 409"));
    assert_eq!(requests.last().map(String::as_str), Some("update endpointslices 200"));
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_write_times_out_after_a_minute() {
    let harness = Harness::with([pod("a", 1, true), service("web")]).await;
    harness.requests();
    harness.fault(Fault::Delay(seconds(600)), "update", 1);
    harness.load([pod("b", 2, true)]);
    harness.pass(seconds(59)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    harness.pass(seconds(2) + millis(100)).await;
    assert_eq!(harness.endpoints("web"), ["10.1.0.1", "10.1.0.2"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_failing_address_type_delays_no_other() {
    let dual = |name: &str, number: u8| {
        let mut pod = pod(name, number, true);
        pod["status"]["podIPs"] =
            json!([{"ip": format!("10.1.0.{number}")}, {"ip": format!("fd00::{number}")}]);
        pod
    };
    let mut both = service("web");
    both["spec"]["ipFamilies"] = json!(["IPv4", "IPv6"]);
    let harness = Harness::with([dual("a", 1), both]).await;
    let of_type = |kind: &str| {
        let mut slices = harness.slices("web");
        slices.retain(|slice| slice["addressType"] == kind);
        slices
    };
    let first = name(&of_type("IPv4")[0]).to_owned();
    harness.server.add_fault(FaultRule::new(refuse(500), move |it| it.verb == "update" && it.name == first));
    harness.requests();
    harness.load([dual("b", 2)]);
    harness.pass(millis(500)).await;
    assert_eq!(harness.requests(), ["update endpointslices 500", "update endpointslices 200"]);
    assert_eq!(crate::controller::objects::endpoints(&of_type("IPv4")), ["10.1.0.1"]);
    assert_eq!(crate::controller::objects::endpoints(&of_type("IPv6")), ["fd00::1", "fd00::2"]);
    assert_eq!(harness.metric("endpoint_slice_controller_changes"), 3.0);
    harness.server.clear_faults();
    harness.pass(seconds(2)).await;
    assert_eq!(crate::controller::objects::endpoints(&of_type("IPv4")), ["10.1.0.1", "10.1.0.2"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_404_for_a_slice_that_exists_is_an_error_and_tried_again() {
    for verb in ["update", "delete"] {
        let harness = two_slices().await;
        harness.fault(refuse(404), verb, 2);
        match verb {
            "update" => harness.load([pod("b", 2, false)]),
            _ => harness.delete("pods", "b").await,
        }
        harness.pass(seconds(20)).await;
        let [first, asked] = [format!("{verb} endpointslices 404"), "get endpointslices 200".to_owned()];
        let done = format!("{verb} endpointslices 200");
        let requests = harness.requests();
        assert_eq!(requests, [&first, &asked, &first, &asked, &done].map(String::as_str), "{verb}");
        assert_eq!(harness.endpoints("web").len(), if verb == "update" { 2 } else { 1 });
        assert_eq!(harness.events().len(), 1, "{:?}", harness.events());
        assert_eq!(harness.controller.pending(), 0);
        assert_eq!(harness.controller.state_counts().outstanding_writes, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_404_for_a_slice_that_is_gone_the_sync_waits_until_the_cache_shows_that() {
    for verb in ["update", "delete"] {
        let harness = two_slices().await;
        let of_b =
            harness.slices("web").into_iter().find(|it| it["endpoints"][0]["targetRef"]["name"] == "b");
        let gone = name(&of_b.unwrap()).to_owned();
        harness.stall_watch("endpointslices", seconds(20)).await;
        harness.delete_now("endpointslices", &gone).await;
        match verb {
            "update" => harness.load([pod("b", 3, true)]),
            _ => harness.delete("pods", "b").await,
        }
        harness.pass(seconds(10)).await;
        assert_eq!(
            harness.requests(),
            [format!("{verb} endpointslices 404"), "get endpointslices 404".to_owned()],
            "{verb}"
        );
        harness.pass(seconds(20)).await;
        let want: &[&str] = if verb == "update" { &["10.1.0.1", "10.1.0.3"] } else { &["10.1.0.1"] };
        assert_eq!(harness.endpoints("web"), want);
        assert_eq!(harness.events(), [""; 0], "a cache that lags is no error");
        assert_eq!(harness.controller.pending(), 0);
        assert_eq!(harness.controller.state_counts().outstanding_writes, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_wrong_about_a_404_is_asked_again_after_a_minute() {
    let harness = two_slices().await;
    harness.fault(refuse(404), "delete", 1);
    harness.fault(refuse(404), "get", 1);
    harness.delete("pods", "b").await;
    harness.pass(seconds(50)).await;
    assert_eq!(harness.requests(), ["delete endpointslices 404", "get endpointslices 404"]);
    assert_eq!(harness.endpoints("web").len(), 2);
    harness.pass(seconds(20)).await;
    assert_eq!(harness.requests(), ["delete endpointslices 200"]);
    assert_eq!(harness.endpoints("web"), ["10.1.0.1"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_delete_does_not_keep_other_slices_from_being_deleted() {
    let plan = PlanOptions::default().with_max_endpoints_per_slice(1);
    let options = changed(|options| options.plan = plan);
    let pods = [("a", 1), ("b", 2), ("c", 3)].map(|(name, number)| pod(name, number, true));
    let harness = Harness::start(&server(pods.into_iter().chain([service("web")])), options).await;
    harness.requests();
    // The first slice stays, empty.
    let kept = name(&harness.slices("web")[1]).to_owned();
    harness.server.add_fault(FaultRule::new(refuse(403), move |it| it.verb == "delete" && it.name == kept));
    harness.patch("services", "web", json!({"spec": {"selector": {"app": "none"}}})).await;
    harness.pass(millis(500)).await;
    let requests = harness.requests();
    let mut sorted = requests.clone();
    sorted.sort();
    assert_eq!(
        sorted,
        ["delete endpointslices 200", "delete endpointslices 403", "update endpointslices 200"],
        "{requests:?}"
    );
    harness.nothing_is_remembered().await;
}
