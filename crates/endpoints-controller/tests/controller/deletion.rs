//! Tests of the deletion of Endpoints: with their Service, and at the start if somebody deleted the
//! Service while no controller ran.

use std::time::Duration;

use kube_endpoint_controller_runtime::StateCounts;
use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_endpoints_controller::ControllerOptions;
use kube_endpoint_testing::USER_AGENT;
use serde_json::{Value, json};

use crate::controller::harness::{
    Harness, MANAGED_BY, addresses, changed, endpoints, labelled, pod, server, service, written_by,
};

/// Returns the options that `--compatibility=upstream` sets.
fn upstream() -> ControllerOptions {
    changed(|options| options.repair = false)
}

async fn started(objects: impl IntoIterator<Item = Value>) -> Harness {
    Harness::start(&server(objects), ControllerOptions::default()).await
}

/// The API server deletes both; the cache shows one of the two deletions later.
#[tokio::test(start_paused = true)]
async fn endpoints_are_deleted_with_their_service_in_either_order() {
    let service_first = ["delete endpoints 404"].as_slice();
    let endpoints_first = ["create endpoints 201", "delete endpoints 200"].as_slice();
    for (late, writes) in [("endpoints", service_first), ("services", endpoints_first)] {
        let harness = started([pod("a", 1, true)]).await;
        harness.create(&service("web")).await;
        harness.moment().await;
        assert_eq!(harness.writes(), ["create endpoints 201"]);
        harness.stall_watch(late, Duration::from_secs(2)).await;
        harness.delete("services", "web").await;
        harness.pass(Duration::from_secs(60)).await;
        assert_eq!(harness.writes(), writes, "{late}");
        assert_eq!(harness.server.count("endpoints"), 0);
        assert_eq!(harness.events(), [""; 0]);
        harness.nothing_is_remembered().await;
    }
}

/// Starts a controller whose cache shows neither the deletion of the Service and its Endpoints,
/// nor, later, the new Endpoints.
async fn made_anew(again: Value) -> Harness {
    let harness = started([pod("a", 1, true), service("web")]).await;
    harness.requests();
    for plural in ["services", "endpoints"] {
        harness.stall_watch(plural, Duration::from_secs(10)).await;
    }
    harness.delete("services", "web").await;
    harness.moment().await;
    assert_eq!(harness.server.count("endpoints"), 0);
    harness.load([again]);
    harness.pass(Duration::from_secs(60)).await;
    harness
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_an_old_cache_made_anew_are_deleted() {
    for manager in [USER_AGENT, "kube-endpoint-manager", "kube-controller-manager"] {
        let harness = made_anew(labelled(endpoints("web", "192.0.2.1"), manager)).await;
        assert_eq!(harness.server.count("endpoints"), 0, "{manager}");
        harness.nothing_is_remembered().await;
    }
}

/// The event of the other Endpoints comes while the delete has no answer.
#[tokio::test(start_paused = true)]
async fn endpoints_that_are_made_anew_before_the_answer_to_their_delete_are_deleted_too() {
    let left_over = || [labelled(endpoints("web", "192.0.2.1"), USER_AGENT)];
    let server = server(left_over());
    let slow = Fault::DelayAnswer(Duration::from_secs(5));
    server.add_fault(FaultRule::on(slow, "delete", "endpoints").times(1));
    let harness = Harness::start(&server, ControllerOptions::default()).await;
    assert_eq!(harness.server.count("endpoints"), 0);
    harness.load(left_over());
    harness.pass(Duration::from_secs(1)).await;
    assert_eq!(harness.server.count("endpoints"), 1, "the delete has no answer yet");
    harness.pass(Duration::from_secs(30)).await;
    assert_eq!(harness.server.count("endpoints"), 0);
    assert_eq!(harness.writes(), ["delete endpoints 200"; 2]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_a_user_made_after_their_service_was_deleted_stay() {
    for manager in ["velero-server", "kubectl-create"] {
        let made = written_by(endpoints("web", "192.0.2.1"), manager);
        for again in [labelled(made.clone(), manager), made] {
            let harness = made_anew(again.clone()).await;
            assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["192.0.2.1"], "{again}");
            harness.nothing_is_remembered().await;
        }
    }
}

/// Upstream's controller deletes the Endpoints of a Service that it saw deleted, whoever made them.
#[tokio::test(start_paused = true)]
async fn endpoints_that_do_not_tell_their_maker_go_if_their_service_was_seen_to_be_deleted() {
    let unknown = |mut endpoints: Value| {
        endpoints["metadata"]["managedFields"] = json!([]);
        endpoints
    };
    let old = || endpoints("web", "192.0.2.1");
    for again in [
        unknown(old()),
        unknown(labelled(old(), "")),
        // Before Kubernetes 1.33 there was no label.
        written_by(old(), "kube-controller-manager"),
    ] {
        let harness = made_anew(again.clone()).await;
        assert_eq!(harness.server.count("endpoints"), 0, "{again}");
        harness.nothing_is_remembered().await;
    }
}

/// Somebody restores a backup: Endpoints come before Services.
#[tokio::test(start_paused = true)]
async fn endpoints_with_the_label_stay_if_their_service_does_not_exist_yet() {
    for options in [ControllerOptions::default(), upstream()] {
        let harness = Harness::start(&server([pod("a", 1, true)]), options).await;
        let mut restored = endpoints("web", "192.0.2.1");
        restored["metadata"]["labels"] = json!({MANAGED_BY: "endpoint-controller"});
        harness.create(&restored).await;
        harness.load([
            labelled(endpoints("by-velero", "192.0.2.2"), "velero-server"),
            labelled(endpoints("moved", "192.0.2.3"), "kube-controller-manager"),
            labelled(endpoints("ours", "192.0.2.4"), USER_AGENT),
        ]);
        harness.pass(Duration::from_secs(600)).await;
        assert_eq!(harness.writes(), [""; 0]);
        assert_eq!(harness.server.count("endpoints"), 4);
        // Without a selector, the Endpoints are the user's; with one, the controller writes them,
        // as upstream does.
        let mut manual = service("web");
        manual["spec"]["selector"] = Value::Null;
        harness.create(&manual).await;
        harness.create(&service("moved")).await;
        harness.pass(Duration::from_secs(60)).await;
        assert_eq!(harness.writes(), ["update endpoints 200"]);
        assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["192.0.2.1"]);
        assert_eq!(addresses(&harness.get("endpoints", "moved").unwrap()), ["10.1.0.1"]);
        harness.nothing_is_remembered().await;
    }
}

#[tokio::test(start_paused = true)]
async fn at_the_start_only_what_a_controller_made_is_deleted() {
    let mut unknown = labelled(endpoints("unknown", "192.0.2.9"), "");
    unknown["metadata"]["managedFields"] = json!([]);
    let mut both = labelled(endpoints("both", "192.0.2.9"), "kubectl");
    let other = labelled(endpoints("both", "192.0.2.9"), "kube-controller-manager");
    let entry = other["metadata"]["managedFields"][0].clone();
    both["metadata"]["managedFields"].as_array_mut().unwrap().push(entry);
    for options in [ControllerOptions::default(), upstream()] {
        let server = server([
            labelled(endpoints("kubectl", "192.0.2.1"), "kubectl-create"),
            labelled(endpoints("velero", "192.0.2.1"), "velero-server"),
            written_by(endpoints("by-hand", "192.0.2.1"), "kubectl-create"),
            unknown.clone(),
            both.clone(),
            labelled(endpoints("upstream", "192.0.2.1"), "kube-controller-manager"),
            // Before Kubernetes 1.33 there was no label.
            written_by(endpoints("upstream-old", "192.0.2.1"), "kube-controller-manager"),
            labelled(endpoints("ours", "192.0.2.1"), "kube-endpoint-manager"),
            labelled(endpoints("own", "192.0.2.1"), USER_AGENT),
        ]);
        let harness = Harness::start(&server, options).await;
        assert_eq!(harness.writes(), ["delete endpoints 200"; 4]);
        let left = harness.server.list("endpoints");
        let names: Vec<&Value> = left.iter().map(|it| &it["metadata"]["name"]).collect();
        assert_eq!(names, ["both", "by-hand", "kubectl", "unknown", "velero"]);
        harness.nothing_is_remembered().await;
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_are_kept_until_the_server_tells_who_made_them() {
    let server = server([labelled(endpoints("left", "192.0.2.1"), USER_AGENT)]);
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    server.add_fault(FaultRule::on(refuse, "get", "endpoints").times(3));
    let harness = Harness::start(&server, ControllerOptions::default()).await;
    let log = harness.server.request_log();
    let reads: Vec<u16> = log
        .iter()
        .filter(|it| it.request.verb == "get" && it.request.plural() == "endpoints")
        .map(|it| it.status)
        .collect();
    assert_eq!(reads, [403, 403, 403, 200]);
    assert_eq!(harness.writes(), ["delete endpoints 200"]);
    harness.nothing_is_remembered().await;
}

/// A user edits the Endpoints between the read and the delete.
#[tokio::test(start_paused = true)]
async fn endpoints_that_changed_after_the_read_are_judged_again() {
    let server = server([labelled(endpoints("left", "192.0.2.1"), USER_AGENT)]);
    let late = Fault::Delay(Duration::from_secs(1));
    server.add_fault(FaultRule::on(late, "delete", "endpoints").times(1));
    let begin = Harness::start(&server, ControllerOptions::default());
    let edit = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        server.load([labelled(endpoints("left", "192.0.2.7"), "kubectl-edit")]).unwrap();
    };
    let (harness, ()) = tokio::join!(begin, edit);
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.writes(), ["delete endpoints 409"]);
    assert_eq!(addresses(&harness.get("endpoints", "left").unwrap()), ["192.0.2.7"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_deletion_is_retried() {
    let harness = started([]).await;
    let server = harness.crash().await;
    server.load([labelled(endpoints("left", "192.0.2.1"), USER_AGENT)]).unwrap();
    let refuse = Fault::Refuse { status: 500, retry_after: None };
    server.add_fault(FaultRule::on(refuse, "delete", "endpoints").times(3));
    let harness = Harness::start(&server, ControllerOptions::default()).await;
    assert_eq!(
        harness.writes(),
        ["delete endpoints 500", "delete endpoints 500", "delete endpoints 500", "delete endpoints 200"]
    );
}

#[tokio::test(start_paused = true)]
async fn endpoints_of_services_deleted_while_stopped_are_deleted_at_the_start() {
    let mut lock = endpoints("lock", "192.0.2.1");
    lock["metadata"]["annotations"] = json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
    let mut manual = service("manual");
    manual["spec"]["selector"] = Value::Null;
    let left = labelled(endpoints("left", "192.0.2.1"), USER_AGENT);
    let objects = [left, endpoints("manual", "192.0.2.2"), lock, manual];
    let harness = started(objects).await;
    assert_eq!(harness.writes(), ["delete endpoints 200"]);
    // Endpoints that another client creates later without a Service are kept.
    harness.create(&endpoints("left", "192.0.2.3")).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(harness.writes(), [""; 0]);
    let names: Vec<Value> =
        harness.server.list("endpoints").iter().map(|it| it["metadata"]["name"].clone()).collect();
    assert_eq!(names, ["left", "lock", "manual"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_created_without_a_service_survive_a_late_sync() {
    let options = changed(|options| options.batch_period = Duration::from_secs(10));
    let harness = Harness::start(&server([pod("a", 1, true)]), options).await;
    harness.create(&service("web")).await;
    harness.moment().await;
    harness.load([pod("b", 2, true)]);
    harness.pass(Duration::from_secs(1)).await;
    harness.delete("services", "web").await;
    harness.pass(Duration::from_secs(1)).await;
    harness.create(&endpoints("web", "192.0.2.1")).await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["192.0.2.1"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_recreated_service_gets_new_endpoints() {
    let harness = started([pod("a", 1, true)]).await;
    for _ in 0..3 {
        harness.create(&service("web")).await;
        harness.moment().await;
        assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["10.1.0.1"]);
        harness.delete("services", "web").await;
    }
    harness.create(&service("web")).await;
    harness.pass(Duration::from_secs(5)).await;
    assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["10.1.0.1"]);
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn endpoints_whose_create_was_not_answered_are_looked_for_when_their_service_is_deleted() {
    let harness = started([pod("a", 1, true)]).await;
    harness.fault(Fault::LoseRequest, "create", usize::MAX);
    harness.create(&service("web")).await;
    harness.moment().await;
    assert!(harness.requests().iter().any(|request| request.starts_with("create endpoints")));
    harness.delete("services", "web").await;
    harness.pass(Duration::from_secs(5)).await;
    let requests = harness.requests();
    assert!(requests.contains(&"get endpoints 404".to_owned()), "{requests:?}");
    assert!(!requests.iter().any(|request| request.starts_with("delete")), "{requests:?}");
    harness.pass(Duration::from_secs(600)).await;
    assert_eq!(harness.writes(), [""; 0]);
    harness.nothing_is_remembered().await;
}

/// The stores of Services and of Endpoints fill one after the other, and their versions may not be
/// comparable.
#[tokio::test(start_paused = true)]
async fn nothing_is_deleted_until_the_server_confirms_that_the_service_is_gone() {
    let mut manual = service("manual");
    manual["spec"]["selector"] = Value::Null;
    let server = server([labelled(endpoints("left", "192.0.2.1"), USER_AGENT)]);
    let seconds = Duration::from_secs;
    // The controller lists Endpoints later than Services, and the watch of Services is silent from
    // then on.
    server.add_fault(FaultRule::on(Fault::StallWatch(seconds(1)), "watch", "endpoints").times(2));
    server.add_fault(FaultRule::on(Fault::StallWatch(seconds(60)), "watch", "services").after(1).times(1));
    let refuse = Fault::Refuse { status: 403, retry_after: None };
    server.add_fault(FaultRule::on(refuse, "get", "services").times(4));
    let between = async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.close_watches();
        tokio::time::sleep(Duration::from_millis(100)).await;
        server.load([manual, labelled(endpoints("manual", "192.0.2.1"), USER_AGENT)]).unwrap();
    };
    let (harness, ()) = tokio::join!(Harness::start(&server, ControllerOptions::default()), between);
    assert!(server.request_log().iter().any(|it| it.request.verb == "get" && it.status == 200));
    assert_eq!(harness.writes(), ["delete endpoints 200"]);
    assert!(harness.get("endpoints", "manual").is_some());
    assert!(harness.get("endpoints", "left").is_none());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_remembered_of_endpoints_that_the_server_removed_first() {
    let harness = started([pod("a", 1, true)]).await;
    harness.create(&service("web")).await;
    harness.pass(Duration::from_secs(1)).await;
    // While the controller asks for the Service, the cache shows that the server has removed the
    // Endpoints.
    let late = Fault::DelayAnswer(Duration::from_millis(500));
    harness.server.add_fault(FaultRule::on(late, "get", "services").times(1));
    harness.stall_watch("endpoints", Duration::from_millis(200)).await;
    harness.delete("services", "web").await;
    harness.pass(Duration::from_secs(10)).await;
    assert_eq!(harness.writes(), ["create endpoints 201", "delete endpoints 404"]);
    assert_eq!(harness.server.count("endpoints"), 0);
    assert_eq!(harness.controller.pending(), 0);
    assert_eq!(harness.controller.state_counts(), StateCounts::default());
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_404_for_endpoints_that_exist_is_an_error_and_tried_again() {
    let harness = started([endpoints("left", "192.0.2.1"), pod("a", 1, true), service("web")]).await;
    harness.writes();
    let not_found = Fault::Refuse { status: 404, retry_after: None };
    harness.fault(not_found, "update", 1);
    harness.load([pod("b", 2, true)]);
    harness.pass(Duration::from_secs(5)).await;
    assert_eq!(harness.writes(), ["update endpoints 404", "update endpoints 200"]);
    assert_eq!(addresses(&harness.get("endpoints", "web").unwrap()), ["10.1.0.1", "10.1.0.2"]);
    assert_eq!(harness.events().len(), 1);
    harness.nothing_is_remembered().await;
}
