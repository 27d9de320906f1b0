//! Services that nobody maintains: no address stays ready whose pod is gone, whatever holds a
//! hand-over, and no pod is lost.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::{Fault, FaultRule, RequestInfo};
use serde_json::{Value, json};

use crate::harness::{ADDON, Harness, pod, selector, service};

/// A minute of retries and of delays of the mirroring controller.
const SETTLED: Duration = Duration::from_secs(60);

/// Three ready pods of one application, which the Service selects.
async fn cluster(change: impl FnOnce(&mut Value, &mut Value)) -> Harness {
    let pods = [("a", 1), ("b", 2), ("c", 3)].map(|(name, number)| pod(name, number, "stable", true));
    let (mut service, mut selector) = (service(), selector("canary"));
    change(&mut service, &mut selector);
    let harness = Harness::start(pods.into_iter().chain([service, selector])).await;
    harness.pass(SETTLED).await;
    harness
}

/// A take-over that a mistyped label holds.
async fn held() -> Harness {
    let mistyped = json!({"selector": {"matchLabels": {"app": "wbe"}}});
    let harness = cluster(|_, selector| selector["spec"] = mistyped).await;
    harness.attach().await;
    harness.pass(SETTLED).await;
    assert_eq!(harness.slices(), ["endpointslice: 1 2 3", "endpointslicemirroring: 1 2 3", "own: "]);
    harness
}

/// The controller may not send such requests.
fn refused(status: u16, verb: &'static str, plural: &'static str) -> FaultRule {
    FaultRule::new(Fault::Refuse { status, retry_after: None }, move |request: &RequestInfo| {
        request.user_agent == ADDON && request.verb == verb && request.plural() == plural
    })
}

impl Harness {
    /// The pods `a` and `b` end, `d` and `e` come.
    async fn replace_pods(&self) {
        for pod in ["a", "b"] {
            self.delete_now("pods", pod).await;
        }
        self.load([pod("d", 4, "stable", true), pod("e", 5, "stable", true)]);
    }

    async fn correct_the_label(&self) {
        let right = json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}});
        self.patch("endpointselectors", "stable", right).await;
        self.pass(SETTLED).await;
    }

    async fn annotate(&self, selector: &str) {
        let annotations = json!({"kube-endpoint-manager.github.io/endpoint-selector": selector});
        let patch = json!({"metadata": {"annotations": annotations}, "spec": {"selector": null}});
        self.patch("services", "web", patch).await;
    }

    /// No slice and no Endpoints of others are left, and the controller has nothing to report.
    fn is_taken_over(&self, own: &str) {
        assert_eq!(self.slices(), [own]);
        assert_eq!(self.get("endpoints", "web"), None);
        for gauge in ["held_hand_overs", "services_with_refused_writes", "services_with_leftovers"] {
            assert_eq!(self.gauge(gauge), 0.0, "{gauge}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_dead_leave_all_slices_while_a_mistyped_label_holds_a_take_over() {
    let harness = held().await;
    harness.replace_pods().await;
    harness.pass(Duration::from_secs(5)).await;
    assert_eq!(harness.slices(), ["endpointslice: 3", "endpointslicemirroring: 3", "own: "]);
    assert_eq!(harness.gauge("held_hand_overs"), 1.0);
    // Nothing is written while nothing changes.
    harness.writes();
    harness.pass(Duration::from_secs(700)).await;
    assert_eq!(harness.writes(), [""; 0]);
    harness.delete_now("pods", "c").await;
    harness.pass(Duration::from_secs(5)).await;
    assert_eq!(harness.slices(), ["own: "]);
    harness.correct_the_label().await;
    harness.is_taken_over("own: 4 5");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn the_dead_leave_all_slices_while_a_mistyped_name_leads_to_no_selector() {
    let harness = cluster(|_, _| ()).await;
    harness.annotate("stabel").await;
    harness.pass(SETTLED).await;
    assert_eq!(harness.slices(), ["endpointslice: 1 2 3", "endpointslicemirroring: 1 2 3"]);
    harness.replace_pods().await;
    harness.pass(Duration::from_secs(5)).await;
    assert_eq!(harness.slices(), ["endpointslice: 3", "endpointslicemirroring: 3"]);
    assert_eq!(harness.reasons(), ["EndpointSelectorNotFound"]);
    assert_eq!(harness.gauge("services_without_selector"), 1.0);
    harness.annotate("stable").await;
    harness.pass(SETTLED).await;
    harness.is_taken_over("own: 3 4 5");
    harness.nothing_is_remembered().await;
}

/// `kubectl delete service --cascade=orphan`, and the Service again without a selector.
#[tokio::test(start_paused = true)]
async fn the_dead_leave_slices_that_an_earlier_service_of_the_name_left() {
    let harness = cluster(|_, _| ()).await;
    harness.delete_with("services", "web", json!({"propagationPolicy": "Orphan"})).await;
    harness.pass(Duration::from_secs(5)).await;
    let mut again = service();
    again["metadata"]["annotations"] =
        json!({"kube-endpoint-manager.github.io/endpoint-selector": "mistyped"});
    again["spec"].as_object_mut().unwrap().remove("selector");
    harness.create(&again).await;
    harness.pass(SETTLED).await;
    assert_eq!(harness.slices(), ["endpointslice: 1 2 3"]);
    harness.replace_pods().await;
    harness.pass(Duration::from_secs(5)).await;
    assert_eq!(harness.slices(), ["endpointslice: 3"]);
    assert_eq!(harness.gauge("services_without_selector"), 1.0);
}

#[tokio::test(start_paused = true)]
async fn the_dead_leave_the_slices_of_others_while_own_slices_are_refused() {
    // A quota says 403, an admission policy 422.
    for status in [403, 422] {
        let harness = cluster(|_, _| ()).await;
        harness.server.add_fault(refused(status, "create", "endpointslices"));
        harness.attach().await;
        harness.pass(SETTLED).await;
        harness.replace_pods().await;
        harness.pass(Duration::from_secs(5)).await;
        assert_eq!(harness.slices(), ["endpointslice: 3", "endpointslicemirroring: 3"]);
        assert_eq!(harness.gauge("held_hand_overs"), 1.0);
        assert_eq!(harness.gauge("services_with_refused_writes"), 1.0);
        let refusals = harness.reasons().into_iter().filter(|reason| *reason == "EndpointSlicesRefused");
        assert_eq!(refusals.count(), 1, "each attempt has another name");
        harness.server.clear_faults();
        harness.pass(Duration::from_secs(700)).await;
        harness.is_taken_over("own: 3 4 5");
        harness.nothing_is_remembered().await;
    }
}

/// Pods that give the port other numbers are in a slice of their own.
#[tokio::test(start_paused = true)]
async fn a_refused_update_keeps_no_other_slice_dead() {
    let on_port = |name: &str, number, port| {
        let mut pod = pod(name, number, "stable", true);
        pod["spec"]["containers"][0]["ports"] = json!([{"name": "http", "containerPort": port}]);
        pod
    };
    for refused_number in ["3", "4"] {
        let pods = [on_port("a", 1, 80), on_port("b", 2, 90), on_port("c", 3, 80), on_port("d", 4, 90)];
        let (mut service, mut selector) = (service(), selector("canary"));
        service["spec"]["ports"][0]["targetPort"] = "http".into();
        selector["spec"]["selector"] = json!({"matchLabels": {"app": "wbe"}});
        let harness = Harness::start(pods.into_iter().chain([service, selector])).await;
        harness.pass(SETTLED).await;
        let of_pods = harness.server_slices();
        let address = format!("10.1.0.{refused_number}");
        let has_it = |slice: &&Value| {
            slice["endpoints"].as_array().unwrap().iter().any(|it| it["addresses"][0] == *address)
        };
        let name = of_pods.iter().find(has_it).unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
        harness.server.add_fault(FaultRule::new(
            Fault::Refuse { status: 422, retry_after: None },
            move |request: &RequestInfo| {
                request.user_agent == ADDON && request.verb == "update" && request.name == name
            },
        ));
        harness.attach().await;
        harness.pass(SETTLED).await;
        for pod in ["a", "b"] {
            harness.delete_now("pods", pod).await;
        }
        harness.pass(Duration::from_secs(5)).await;
        let slices = harness.slices();
        let (refused, written) = if refused_number == "3" { ("1 3", "4") } else { ("2 4", "3") };
        for left in [refused, written] {
            assert!(slices.contains(&format!("endpointslice: {left}")), "{slices:?}");
        }
        assert_eq!(harness.gauge("services_with_refused_writes"), 1.0);
    }
}

/// The own slices have all pods, and the requests of the take-over follow the own write.
#[tokio::test(start_paused = true)]
async fn own_slices_are_written_while_the_slices_of_others_may_not_be_deleted() {
    let harness = cluster(|_, _| ()).await;
    harness.server.add_fault(refused(422, "delete", "endpointslices"));
    harness.attach().await;
    harness.pass(SETTLED).await;
    harness.replace_pods().await;
    harness.pass(Duration::from_secs(5)).await;
    assert_eq!(harness.slices(), ["endpointslice: 3", "own: 3 4 5"]);
    assert_eq!(harness.gauge("services_with_refused_writes"), 1.0);
    harness.server.clear_faults();
    harness.pass(Duration::from_secs(700)).await;
    harness.is_taken_over("own: 3 4 5");
}

#[tokio::test(start_paused = true)]
async fn the_dead_leave_both_sides_after_a_hand_back_that_was_not_finished() {
    let harness = cluster(|_, _| ()).await;
    harness.attach().await;
    harness.pass(SETTLED).await;
    harness.is_taken_over("own: 1 2 3");
    let late = Fault::Delay(Duration::from_secs(2));
    harness.server.add_fault(FaultRule::on(late, "delete", "endpointslices"));
    harness.detach().await;
    harness.pass(Duration::from_secs(1)).await;
    harness.annotate("stabel").await;
    harness.pass(SETTLED).await;
    let mut sides = harness.slices();
    sides.retain(|slice| slice.contains(": 1 2 3"));
    assert!(sides.len() > 1 && sides[0].starts_with("endpointslice"), "{:?}", harness.slices());
    harness.replace_pods().await;
    harness.set_ready("c", false).await;
    harness.pass(Duration::from_secs(10)).await;
    let endpoints = |slice: &String| slice.split_once(": ").unwrap().1.to_owned();
    assert!(harness.slices().iter().all(|slice| endpoints(slice) == "3!"), "{:?}", harness.slices());
    harness.set_ready("c", true).await;
    harness.pass(Duration::from_secs(10)).await;
    assert!(harness.slices().iter().all(|slice| endpoints(slice) == "3"), "{:?}", harness.slices());
    harness.server.clear_faults();
    harness.annotate("stable").await;
    harness.pass(SETTLED).await;
    harness.is_taken_over("own: 3 4 5");
}

#[tokio::test(start_paused = true)]
async fn pods_that_are_unready_for_two_seconds_come_back_without_a_selector() {
    let harness = cluster(|_, _| ()).await;
    harness.attach().await;
    harness.pass(SETTLED).await;
    harness.delete("endpointselectors", "stable").await;
    harness.pass(Duration::from_secs(1)).await;
    for (ready, want) in [(false, "own: 1! 2! 3!"), (true, "own: 1 2 3")] {
        for pod in ["a", "b", "c"] {
            harness.set_ready(pod, ready).await;
        }
        harness.pass(Duration::from_secs(2)).await;
        assert_eq!(harness.slices(), [want]);
    }
    // The next process finds them so, too.
    harness.set_ready("a", false).await;
    harness.pass(Duration::from_secs(2)).await;
    let harness = harness.restart().await;
    harness.set_ready("a", true).await;
    harness.pass(Duration::from_secs(2)).await;
    assert_eq!(harness.slices(), ["own: 1 2 3"]);
}

#[tokio::test(start_paused = true)]
async fn followers_do_not_become_ready_when_the_selector_goes() {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "web"},
        "spec": {"holderIdentity": "a_1", "leaseDurationSeconds": 3600, "leaseTransitions": 0},
    });
    let harness =
        cluster(|_, selector| selector["spec"]["readiness"] = json!({"lease": {"name": "web"}})).await;
    harness.create(&lease).await;
    let renewal = json!({"spec": {"renewTime": "2026-01-01T00:00:00.000001Z"}});
    harness.patch("leases", "web", renewal).await;
    harness.attach().await;
    harness.pass(SETTLED).await;
    harness.is_taken_over("own: 1 2! 3!");
    harness.delete("endpointselectors", "stable").await;
    harness.pass(Duration::from_secs(1)).await;
    for (ready, want) in [(false, "own: 1! 2! 3!"), (true, "own: 1 2! 3!")] {
        for pod in ["a", "b"] {
            harness.set_ready(pod, ready).await;
        }
        harness.pass(Duration::from_secs(2)).await;
        assert_eq!(harness.slices(), [want]);
    }
    let harness = harness.restart().await;
    harness.set_ready("c", false).await;
    harness.set_ready("c", true).await;
    harness.pass(Duration::from_secs(2)).await;
    assert_eq!(harness.slices(), ["own: 1 2! 3!"]);
}

#[tokio::test(start_paused = true)]
async fn a_readiness_blip_of_all_pods_deletes_no_slice() {
    let harness = held().await;
    for (ready, marked) in [(false, "1! 2! 3!"), (true, "1 2 3")] {
        for pod in ["a", "b", "c"] {
            harness.set_ready(pod, ready).await;
        }
        harness.pass(Duration::from_secs(5)).await;
        let [pods, mirrored] =
            ["endpointslice", "endpointslicemirroring"].map(|by| format!("{by}: {marked}"));
        assert_eq!(harness.slices(), [pods, mirrored, "own: ".to_owned()]);
    }
}

#[tokio::test(start_paused = true)]
async fn endpoints_go_when_the_right_is_granted() {
    for verb in ["get", "delete"] {
        let harness = cluster(|_, _| ()).await;
        harness.server.add_fault(refused(403, verb, "endpoints"));
        harness.attach().await;
        harness.pass(SETTLED).await;
        assert_eq!(harness.slices(), ["endpointslicemirroring: 1 2 3", "own: 1 2 3"]);
        assert_eq!(harness.reasons(), ["EndpointsNotDeleted", "EndpointsTakenOver"]);
        assert_eq!(harness.gauge("services_with_leftovers"), 1.0);
        harness.replace_pods().await;
        harness.pass(Duration::from_secs(10)).await;
        // The add-on may update what it may not delete.
        let left = if verb == "get" { "1 2 3" } else { "3" };
        assert_eq!(harness.slices(), [format!("endpointslicemirroring: {left}"), "own: 3 4 5".to_owned()]);
        harness.delete_now("pods", "c").await;
        harness.pass(Duration::from_secs(10)).await;
        // Endpoints without addresses are mirrored into no slice.
        let left: &[&str] = if verb == "get" { &["endpointslicemirroring: 1 2 3"] } else { &[] };
        assert_eq!(harness.slices(), [left, &["own: 4 5"]].concat());
        harness.server.clear_faults();
        harness.pass(Duration::from_secs(700)).await;
        harness.load([pod("f", 6, "stable", true)]);
        harness.pass(SETTLED).await;
        harness.is_taken_over("own: 4 5 6");
        harness.nothing_is_remembered().await;
    }
}

#[tokio::test(start_paused = true)]
async fn dead_addresses_leave_when_the_right_to_update_endpoints_is_granted() {
    let harness = held().await;
    harness.server.add_fault(refused(403, "update", "endpoints"));
    harness.replace_pods().await;
    harness.pass(Duration::from_secs(10)).await;
    assert_eq!(harness.slices(), ["endpointslice: 3", "endpointslicemirroring: 1 2 3", "own: "]);
    assert_eq!(harness.gauge("services_with_leftovers"), 1.0);
    assert!(harness.reasons().contains(&"EndpointsNotDeleted".to_owned()), "{:?}", harness.reasons());
    harness.server.clear_faults();
    harness.pass(Duration::from_secs(700)).await;
    assert_eq!(harness.slices(), ["endpointslice: 3", "endpointslicemirroring: 3", "own: "]);
    assert_eq!(harness.gauge("services_with_leftovers"), 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_leader_election_lock_stays() {
    let harness = held().await;
    let annotations = json!({"control-plane.alpha.kubernetes.io/leader": "{}"});
    harness.patch("endpoints", "web", json!({"metadata": {"annotations": annotations}})).await;
    harness.replace_pods().await;
    harness.pass(SETTLED).await;
    assert_eq!(harness.slices(), ["endpointslice: 3", "own: "]);
    let lock = harness.get("endpoints", "web");
    assert_eq!(lock.as_ref().unwrap()["subsets"][0]["addresses"].as_array().unwrap().len(), 3);
    harness.correct_the_label().await;
    assert_eq!(harness.slices(), ["own: 3 4 5"]);
    assert_eq!(harness.get("endpoints", "web"), lock);
}

#[tokio::test(start_paused = true)]
async fn endpoints_that_are_not_mirrored_go_too() {
    let skip = |service: &mut Value, _: &mut Value| {
        service["metadata"]["labels"] = json!({"endpointslice.kubernetes.io/skip-mirror": "true"});
    };
    let harness = cluster(skip).await;
    harness.server.add_fault(refused(403, "delete", "endpoints"));
    harness.attach().await;
    harness.pass(SETTLED).await;
    assert_eq!(harness.slices(), ["own: 1 2 3"]);
    assert_eq!(harness.gauge("services_with_leftovers"), 1.0);
    assert!(harness.get("endpoints", "web").is_some());
    // Nothing else tells the next process about them.
    let harness = harness.restart().await;
    harness.server.clear_faults();
    harness.pass(Duration::from_secs(700)).await;
    harness.is_taken_over("own: 1 2 3");
    harness.nothing_is_remembered().await;
}

/// The cache does not show the latest pods of kube-controller-manager's slice.
#[tokio::test(start_paused = true)]
async fn pods_that_the_cache_does_not_show_yet_are_not_gone() {
    let mistyped = json!({"selector": {"matchLabels": {"app": "wbe"}}});
    let harness = cluster(|_, selector| selector["spec"] = mistyped).await;
    let is_own = |request: &RequestInfo| request.verb == "watch" && request.plural() == "pods";
    let stall = FaultRule::new(Fault::StallWatch(Duration::from_secs(40)), is_own);
    harness.server.add_fault(stall.after(1).times(1));
    harness.server.break_watches(is_own);
    harness.pass(Duration::from_secs(2)).await;
    harness.load([pod("d", 4, "stable", true)]);
    harness.pass(Duration::from_secs(2)).await;
    harness.attach().await;
    harness.pass_with(SETTLED.as_secs(), &["10.1.0.1", "10.1.0.2", "10.1.0.3"]).await;
    assert_eq!(harness.slices()[0], "endpointslice: 1 2 3 4");
}
