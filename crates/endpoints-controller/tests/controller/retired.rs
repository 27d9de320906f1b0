//! Tests of Services without Endpoints.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule};
use kube_endpoint_endpoints_controller::{ControllerOptions, RetirementOptions};
use kube_endpoint_testing::{USER_AGENT, server_builder};
use serde_json::{Value, json};

use crate::controller::harness::{Harness, addresses, changed, endpoints, labelled, pod, server, written_by};

const ANNOTATION: &str = "kube-endpoint-manager.github.io/endpoints";
const DELETES: [&str; 1] = ["delete endpoints 200"];

fn annotated(value: &str) -> Value {
    json!({"metadata": {"annotations": {ANNOTATION: value}}})
}

fn without_annotation() -> Value {
    json!({"metadata": {"annotations": {ANNOTATION: null}}})
}

/// Returns a Service of the application `web`, with a cluster IP that no later change gives it.
fn service(name: &str) -> Value {
    let mut service = crate::controller::harness::service(name);
    service["spec"]["clusterIP"] = format!("10.96.0.{}", name.len()).into();
    service
}

/// Starts a controller with a published Service, and forgets the requests.
async fn published(server: &EmbeddedApiServer, options: ControllerOptions) -> Harness {
    let harness = Harness::start(server, options).await;
    assert_eq!(harness.server.count("endpoints"), 1);
    harness.requests();
    harness
}

async fn started() -> Harness {
    published(&server([pod("a", 1, true), service("web")]), ControllerOptions::default()).await
}

fn gauge(harness: &Harness, name: &str) -> Option<f64> {
    harness.metrics().value(&format!("endpoints_controller_retired_services{name}"), &[])
}

#[tokio::test(start_paused = true)]
async fn a_retired_service_loses_its_endpoints_and_the_way_back_is_one_write() {
    let harness = started().await;
    assert_eq!(gauge(&harness, ""), Some(0.0));
    harness.patch("services", "web", annotated("retired")).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.writes(), DELETES);
    assert_eq!(gauge(&harness, ""), Some(1.0));
    harness.load([pod("b", 2, true)]);
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.writes(), [""; 0], "nobody writes Endpoints for its pods");
    harness.patch("services", "web", without_annotation()).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.writes(), ["create endpoints 201"]);
    assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(gauge(&harness, ""), Some(0.0));
    // The own object has not "come back".
    harness.patch("services", "web", annotated("retired")).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.writes(), DELETES);
    insta::assert_snapshot!(harness.events().join("\n"));
    harness.delete("services", "web").await;
    harness.moment().await;
    assert_eq!(gauge(&harness, ""), Some(0.0));
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_rehearsal_ends_by_itself() {
    let harness = started().await;
    let end = "2026-01-01T03:00:00Z".parse().unwrap();
    assert!(harness.server.now() < end);
    harness.patch("services", "web", annotated("retired-until=2026-01-01T03:00:00Z")).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.writes(), DELETES);
    let left = u64::try_from(end.duration_since(harness.server.now()).as_secs()).unwrap();
    harness.pass(Duration::from_secs(left - 1)).await;
    assert_eq!(harness.writes(), [""; 0]);
    harness.pass(Duration::from_secs(2)).await;
    assert_eq!(harness.writes(), ["create endpoints 201"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_is_retired_apart_from_services_that_say_otherwise() {
    let mut kept = service("kept");
    kept["metadata"]["annotations"] = json!({ANNOTATION: "published"});
    let options = changed(|options| {
        options.retirement =
            RetirementOptions { namespaces: ["default"].into_iter().collect(), is_accepted: false };
    });
    let made = labelled(endpoints("web", "192.0.2.1"), "kube-controller-manager");
    let server = server([pod("a", 1, true), service("web"), made, kept]);
    let harness = Harness::start(&server, options).await;
    assert_eq!(harness.writes(), ["create endpoints 201", "delete endpoints 200"]);
    assert!(harness.get("endpoints", "kept").is_some() && harness.get("endpoints", "web").is_none());
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_come_back_soon_stay_and_are_counted() {
    for repair in [true, false] {
        let server = server([pod("a", 1, true), service("web")]);
        let harness = published(&server, changed(|options| options.repair = repair)).await;
        harness.patch("services", "web", annotated("retired")).await;
        harness.pass(Duration::from_secs(60)).await;
        assert_eq!(harness.writes(), DELETES);
        let again = || labelled(endpoints("web", "192.0.2.1"), "kube-controller-manager");
        harness.load([again()]);
        harness.pass(Duration::from_secs(3600)).await;
        assert_eq!(harness.writes(), [""; 0], "they stay");
        assert_eq!(gauge(&harness, "_with_endpoints"), Some(1.0));
        let came_back = |event: &&String| event.contains("EndpointsCameBack");
        assert_eq!(harness.events().iter().filter(came_back).count(), 1);
        // Another one, much later, is none that came back at once.
        harness.delete("endpoints", "web").await;
        harness.pass(Duration::from_secs(1)).await;
        assert_eq!(gauge(&harness, "_with_endpoints"), Some(0.0));
        harness.load([again()]);
        harness.pass(Duration::from_secs(60)).await;
        assert_eq!(harness.writes(), DELETES);
        harness.nothing_is_remembered().await;
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_no_controller_made_and_locks_stay() {
    let mut lock = labelled(endpoints("web", "192.0.2.1"), USER_AGENT);
    lock["metadata"]["annotations"] = json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
    let mut unknown = labelled(endpoints("web", "192.0.2.1"), USER_AGENT);
    unknown["metadata"]["managedFields"] = json!([]);
    for kept in [
        lock,
        unknown,
        written_by(endpoints("web", "192.0.2.1"), "kubectl-create"),
        labelled(endpoints("web", "192.0.2.1"), "velero-server"),
    ] {
        let mut retired = service("web");
        retired["metadata"]["annotations"] = json!({ANNOTATION: "retired"});
        let server = server([pod("a", 1, true), retired, kept.clone()]);
        let harness = Harness::start(&server, ControllerOptions::default()).await;
        harness.pass(Duration::from_secs(3600)).await;
        assert_eq!(harness.writes(), [""; 0], "{kept}");
        harness.server.clear_request_log();
        for number in 2..9 {
            harness.load([pod("b", number, true)]);
            harness.pass(Duration::from_secs(1)).await;
        }
        let asked = harness.server.request_log().iter().filter(|it| it.request.verb == "get").count();
        // The runtime asks once who writes beside it.
        assert!(asked <= 1, "the server is not asked again for each change of a pod: {asked}");
        assert_eq!(gauge(&harness, "_with_endpoints"), Some(1.0));
        assert!(harness.events()[0].contains("EndpointsKept"), "{:?}", harness.events());
        harness.nothing_is_remembered().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_annotation_retires_nothing_and_is_reported_once() {
    let harness = started().await;
    harness.patch("services", "web", annotated("retired-until=tomorrow")).await;
    harness.load([pod("b", 2, true)]);
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.writes(), ["update endpoints 200"]);
    assert_eq!(harness.events().len(), 1, "{:?}", harness.events());
    harness.patch("services", "web", without_annotation()).await;
    harness.pass(Duration::from_secs(1)).await;
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_needs_endpoints_keeps_them_unless_somebody_accepts_that() {
    for is_accepted in [false, true] {
        let server = server_builder().track_managers().minor_version(33);
        let server = server.load([pod("a", 1, true), service("web")]).build().unwrap();
        let options = changed(|options| options.retirement.is_accepted = is_accepted);
        let harness = published(&server, options).await;
        harness.patch("services", "web", annotated("retired")).await;
        harness.pass(Duration::from_secs(60)).await;
        assert_eq!(harness.writes(), &DELETES[..usize::from(is_accepted)]);
        assert_eq!(gauge(&harness, "_with_endpoints"), Some(f64::from(u8::from(!is_accepted))));
        let refused = harness.events().iter().any(|event| event.contains("EndpointsNotRetired"));
        assert_eq!(refused, !is_accepted);
        harness.load([pod("b", 2, true)]);
        harness.pass(Duration::from_secs(60)).await;
        assert_eq!(harness.writes().len(), usize::from(!is_accepted), "they follow the pods");
        harness.nothing_is_remembered().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_tell_its_version_is_not_asked_at_each_sync() {
    let server = server([pod("a", 1, true), service("web")]);
    let forbidden = Fault::Refuse { status: 403, retry_after: None };
    server.add_fault(FaultRule::new(forbidden, |request| request.path == "/version"));
    let harness = published(&server, ControllerOptions::default()).await;
    harness.patch("services", "web", annotated("retired")).await;
    for number in 2..9 {
        harness.load([pod("b", number, true)]);
        harness.pass(Duration::from_secs(1)).await;
    }
    let versions = || server.request_log().iter().filter(|it| it.request.path == "/version").count();
    assert_eq!(versions(), 1);
    assert_eq!(server.count("endpoints"), 1, "they stay, and follow the pods");
    server.clear_faults();
    harness.pass(Duration::from_secs(600)).await;
    harness.load([pod("c", 20, true)]);
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(server.count("endpoints"), 0);
    harness.nothing_is_remembered().await;
}

/// The time comes while the server is asked for the Service.
#[tokio::test(start_paused = true)]
async fn a_rehearsal_that_ends_during_its_sync_ends() {
    let harness = started().await;
    let slow = Fault::Delay(Duration::from_secs(3));
    harness.server.add_fault(FaultRule::on(slow, "get", "services").times(1));
    let end = harness.server.now() + Duration::from_secs(1);
    harness.patch("services", "web", annotated(&format!("retired-until={end}"))).await;
    harness.load([pod("b", 2, true)]);
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["10.1.0.1", "10.1.0.2"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_mistyped_annotation_in_a_retired_namespace_is_reported() {
    let options = changed(|options| {
        options.retirement.namespaces = ["default"].into_iter().collect();
    });
    let mut mistyped = service("web");
    mistyped["metadata"]["annotations"] = json!({ANNOTATION: "Published"});
    let harness = Harness::start(&server([pod("a", 1, true), mistyped]), options).await;
    harness.load([pod("b", 2, true)]);
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.server.count("endpoints"), 0);
    assert_eq!(harness.events().len(), 1, "{:?}", harness.events());
    harness.nothing_is_remembered().await;
}

/// A program takes Endpoints of a controller as its lock, and the cache does not show it.
#[tokio::test(start_paused = true)]
async fn a_lock_that_the_cache_does_not_show_stays() {
    let harness = started().await;
    harness.stall_watch("endpoints", Duration::from_secs(30)).await;
    let lock = json!({"metadata": {"annotations": {"control-plane.alpha.kubernetes.io/leader": "{}"}}});
    harness.patch("endpoints", "web", lock).await;
    harness.patch("services", "web", annotated("retired")).await;
    harness.pass(Duration::from_secs(120)).await;
    assert_eq!(harness.server.count("endpoints"), 1);
    harness.nothing_is_remembered().await;
}

/// Somebody takes the annotation back, and the cache does not show it yet.
#[tokio::test(start_paused = true)]
async fn a_service_is_read_before_its_endpoints_are_deleted() {
    let harness = started().await;
    let slow = Fault::Delay(Duration::from_secs(1));
    harness.server.add_fault(FaultRule::on(slow, "get", "services").times(1));
    harness.patch("services", "web", annotated("retired")).await;
    harness.moment().await;
    harness.stall_watch("services", Duration::from_secs(20)).await;
    harness.patch("services", "web", without_annotation()).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.writes(), [""; 0]);
    assert_eq!(harness.server.count("endpoints"), 1);
    harness.nothing_is_remembered().await;
}

/// The answer to a create is lost, and the cache does not show the object when the Service is
/// retired.
#[tokio::test(start_paused = true)]
async fn a_create_without_an_answer_is_deleted_too() {
    let harness = Harness::start(&server([pod("a", 1, true)]), ControllerOptions::default()).await;
    harness.stall_watch("endpoints", Duration::from_secs(5)).await;
    harness.server.add_fault(FaultRule::on(Fault::ApplyAndLoseAnswer, "create", "endpoints").times(1));
    harness.create(&service("web")).await;
    harness.patch("services", "web", annotated("retired")).await;
    harness.pass(Duration::from_secs(120)).await;
    assert_eq!(harness.server.count("endpoints"), 0);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_delete_that_fails_is_tried_again() {
    for (fault, tries) in [
        (Fault::Refuse { status: 409, retry_after: None }, 3),
        (Fault::Refuse { status: 429, retry_after: Some(1) }, 3),
        (Fault::Refuse { status: 500, retry_after: None }, 3),
        (Fault::LoseRequest, 3),
        // The cache shows that the object is gone.
        (Fault::ApplyAndLoseAnswer, 1),
    ] {
        let harness = started().await;
        let name = format!("{fault:?}");
        harness.server.add_fault(FaultRule::on(fault, "delete", "endpoints").times(2));
        harness.patch("services", "web", annotated("retired")).await;
        harness.pass(Duration::from_secs(120)).await;
        assert_eq!(harness.server.count("endpoints"), 0, "{name}");
        let tried = harness.server.request_log().iter().filter(|it| it.request.verb == "delete").count();
        assert_eq!(tried, tries, "{name}: the fault happened");
        harness.nothing_is_remembered().await;
    }
}
