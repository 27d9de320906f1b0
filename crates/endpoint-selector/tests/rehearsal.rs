//! Services that have a selector and name an EndpointSelector: the status says if they can be
//! attached, and nothing is written for them.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::{Fault, FaultRule, RequestInfo, refusals};
use serde_json::{Value, json};

use crate::harness::{ADDON, Harness, pod, selector, service};

const ANNOTATION: &str = "kube-endpoint-manager.github.io/endpoint-selector";

/// A Service that rehearses, with a ready pod, a canary and one that is not ready.
async fn rehearsing() -> Harness {
    let pods = [pod("a", 1, "stable", true), pod("c", 9, "canary", true), pod("u", 8, "stable", false)];
    let mut service = service();
    service["metadata"]["annotations"] = json!({ANNOTATION: "stable"});
    Harness::start(pods.into_iter().chain([service, selector("canary")])).await
}

fn own(request: &RequestInfo, verb: &str, plural: &str) -> bool {
    request.user_agent == ADDON && request.verb == verb && request.plural() == plural
}

impl Harness {
    /// Returns status, reason and message of the condition, or nothing if there is none.
    fn rehearsed(&self) -> String {
        let status = &self.get("endpointselectors", "stable").unwrap()["status"];
        let conditions = status["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|condition| condition["type"] == "ReadyToAttach");
        let text = |condition: &Value, field: &str| condition[field].as_str().unwrap().to_owned();
        found.map_or(String::new(), |it| {
            ["status", "reason", "message"].map(|field| text(it, field)).join(" ")
        })
    }

    /// Lets the server refuse a request of the controller.
    fn refuse(&self, status: Fault, verb: &'static str, plural: &'static str) {
        self.server.add_fault(FaultRule::new(status, move |request| own(request, verb, plural)));
    }

    /// Returns how often the controller has asked if it may create a slice.
    fn asked(&self) -> usize {
        let log = self.server.request_log();
        log.iter().filter(|it| own(&it.request, "create", "endpointslices")).count()
    }

    /// Changes the Service, so that it is looked at.
    async fn look_again(&self, change: &str) {
        self.patch("services", "web", json!({"metadata": {"labels": {"change": change}}})).await;
        self.pass(Duration::from_secs(3)).await;
    }

    async fn select(&self, app: &str) {
        let spec = json!({"selector": {"matchLabels": {"app": app}}});
        self.patch("endpointselectors", "stable", json!({"spec": spec})).await;
        self.pass(Duration::from_secs(3)).await;
    }
}

fn forbidden() -> Fault {
    Fault::Refuse { status: 403, retry_after: None }
}

#[tokio::test(start_paused = true)]
async fn a_service_can_be_attached_and_nothing_is_written_before() {
    let harness = rehearsing().await;
    let ready = "True Rehearsed take spec.selector out of Service web";
    assert_eq!(harness.rehearsed(), ready);
    let objects = || ["endpointslices", "endpoints"].map(|plural| harness.list(plural));
    let before = objects();
    harness.pass(Duration::from_secs(24 * 3600)).await;
    assert_eq!(objects(), before);
    assert_eq!(harness.rehearsed(), ready);
    assert_eq!(harness.reasons(), [""; 0]);
    let log = harness.server.request_log();
    let own = log.iter().filter(|it| it.request.user_agent == ADDON);
    let writes = own.filter(|it| ["create", "update", "patch", "delete"].contains(&it.request.verb));
    let (dry, others): (Vec<_>, Vec<_>) = writes.partition(|it| it.request.query == "dryRun=All");
    assert!(others.iter().all(|it| it.request.subresource == "status"), "{others:?}");
    assert_eq!(others.len(), 2, "accepted, and ready");
    assert!((90..=110).contains(&dry.len()), "twice each half hour: {}", dry.len());
    // It works as the status says.
    harness.patch("services", "web", json!({"spec": {"selector": null}})).await;
    harness.pass_with(10, &["10.1.0.1"]).await;
    assert_eq!(harness.slices(), ["own: 1 8!"]);
    assert_eq!(harness.rehearsed(), "");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_mistyped_selector_is_found_before_it_matters() {
    let harness = rehearsing().await;
    harness.select("typo").await;
    assert_eq!(harness.rehearsed(), "False NoPod Service web: EndpointSelector stable selects no pod");
    assert_eq!(harness.reasons(), ["NotReadyToAttach"]);
    let asked = harness.asked();
    harness.pass(Duration::from_secs(3600)).await;
    assert_eq!(harness.asked(), asked, "the caches tell it");
    harness.select("web").await;
    assert_eq!(harness.rehearsed(), "True Rehearsed take spec.selector out of Service web");
    assert_eq!(harness.reasons(), ["NotReadyToAttach", "ReadyToAttach"]);
    harness.delete("endpointselectors", "stable").await;
    harness.pass(Duration::from_secs(3)).await;
    let events = harness.list("events");
    let last = events.iter().any(|it| it["message"] == "EndpointSelector stable does not exist");
    assert!(last, "{events:?}");
    harness.nothing_is_remembered().await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_has_to_be_ready() {
    let harness = rehearsing().await;
    harness.set_ready("a", false).await;
    harness.pass(Duration::from_secs(301)).await;
    let unready = "False NoReadyPod Service web: EndpointSelector stable selects no pod that is ready";
    assert_eq!(harness.rehearsed(), unready);
    harness.set_ready("u", true).await;
    harness.pass(Duration::from_secs(61)).await;
    assert_eq!(harness.rehearsed(), "True Rehearsed take spec.selector out of Service web");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_the_api_server_is_found_and_seldom_asked_for() {
    let harness = rehearsing().await;
    let [requested, used, limited] =
        [1, 3, 3].map(|count| format!("count/endpointslices.discovery.k8s.io={count}"));
    let quantities = [&*requested, &used, &limited];
    let quota = refusals::quota_exceeded("endpointslices", "web-rehearsal", "objects", quantities);
    harness.refuse(Fault::RefuseWith(quota), "create", "endpointslices");
    harness.look_again("first").await;
    insta::assert_snapshot!(harness.rehearsed());
    harness.server.clear_request_log();
    harness.pass(Duration::from_secs(3600)).await;
    assert!((5..=12).contains(&harness.asked()), "{}", harness.asked());
    assert_eq!(harness.sent("get", "endpoints"), 0, "the first refusal is enough");
    harness.server.clear_faults();
    harness.pass(Duration::from_secs(601)).await;
    assert_eq!(harness.rehearsed(), "True Rehearsed take spec.selector out of Service web");
    assert_eq!(harness.reasons(), ["NotReadyToAttach", "ReadyToAttach"]);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_without_dry_run_leaves_it_unknown_unless_something_is_wrong() {
    let harness = rehearsing().await;
    let mut no_dry_run = refusals::webhook_denied("a.example", 400, "BadRequest", "");
    no_dry_run.message = "admission webhook \"a.example\" does not support dry run".to_owned();
    harness.refuse(Fault::RefuseWith(no_dry_run), "create", "endpointslices");
    harness.look_again("first").await;
    let unknown = harness.rehearsed();
    assert!(unknown.starts_with("Unknown DryRunUnsupported Service web: nobody knows"), "{unknown}");
    harness.refuse(forbidden(), "get", "endpoints");
    harness.look_again("second").await;
    let refused = harness.rehearsed();
    assert!(
        refused.starts_with("False EndpointsForbidden Service web: the controller may not read"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_rights_to_the_endpoints_are_tried() {
    let harness = rehearsing().await;
    harness.refuse(forbidden(), "delete", "endpoints");
    harness.look_again("first").await;
    let refused = harness.rehearsed();
    assert!(
        refused.starts_with("False EndpointsForbidden Service web: the controller may not delete"),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_wrote_is_named() {
    let harness = rehearsing().await;
    // kube-controller-manager would write it again.
    let late = Fault::Refuse { status: 500, retry_after: None };
    let of_controllers = |request: &RequestInfo| {
        request.user_agent.starts_with("kube-controller-manager") && request.verb != "watch"
    };
    harness.server.add_fault(FaultRule::new(late, of_controllers));
    let path = "/api/v1/namespaces/default/endpoints/web";
    let edit = json!({"subsets": [{"addresses": [{"ip": "10.7.7.7"}]}]});
    harness.send("PATCH", path, "application/merge-patch+json", &edit).await;
    harness.look_again("first").await;
    let refused = harness.rehearsed();
    assert!(refused.starts_with("False WrittenByOthers Service web: "), "{refused}");
    assert!(
        refused.ends_with(" wrote the Endpoints of this name, and clients would go on using their addresses")
    );
    harness.send("DELETE", path, "application/json", &json!({})).await;
    let uid = &harness.get("services", "web").unwrap()["metadata"]["uid"];
    let by_hand = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {
            "name": "by-hand",
            "labels": {
                "kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
            },
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": uid}],
        },
        "endpoints": [{"addresses": ["10.7.7.7"]}],
    });
    harness.create(&by_hand).await;
    harness.look_again("second").await;
    let refused = harness.rehearsed();
    assert!(refused.starts_with("False WrittenByOthers Service web: "), "{refused}");
    assert!(refused.ends_with(" wrote EndpointSlice by-hand, and clients would go on using it"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_will_follow_a_leader_needs_one() {
    let harness = rehearsing().await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "web"},
        "spec": {"holderIdentity": "a_1", "leaseDurationSeconds": 600, "leaseTransitions": 0},
    });
    harness.create(&lease).await;
    let readiness = json!({"spec": {"readiness": {"lease": {"name": "web"}}}});
    harness.patch("endpointselectors", "stable", readiness).await;
    harness.pass(Duration::from_secs(3)).await;
    let waits = "Unknown LeaderAwaited Service web: no holder of Lease web has renewed it yet";
    assert_eq!(harness.rehearsed(), waits);
    let renew = |holder: &str| json!({"spec": {"holderIdentity": holder, "leaseTransitions": 1}});
    harness.patch("leases", "web", renew("x_1")).await;
    harness.pass(Duration::from_secs(61)).await;
    let stranger =
        "False NobodyLeads Service web: \"x_1\", the holder of Lease web, names none of the selected pods";
    assert_eq!(harness.rehearsed(), stranger);
    harness.patch("leases", "web", renew("u_1")).await;
    harness.pass(Duration::from_secs(121)).await;
    assert_eq!(harness.rehearsed(), "False NoReadyPod Service web: Pod u, which leads, is not ready");
    harness.patch("leases", "web", renew("a_1")).await;
    harness.pass(Duration::from_secs(241)).await;
    assert_eq!(harness.rehearsed(), "True Rehearsed take spec.selector out of Service web");
    // Its followers need any ready pod but the leader, and no leader.
    let followers = json!({"spec": {"readiness": {"lease": {"role": "Follower"}}}});
    harness.patch("endpointselectors", "stable", followers).await;
    harness.pass(Duration::from_secs(3)).await;
    let alone =
        "False NoReadyPod Service web: EndpointSelector stable selects no ready pod beside a, which leads";
    assert_eq!(harness.rehearsed(), alone);
    harness.patch("leases", "web", renew("x_1")).await;
    harness.pass(Duration::from_secs(31)).await;
    assert_eq!(harness.rehearsed(), "True Rehearsed take spec.selector out of Service web");
}

#[tokio::test(start_paused = true)]
async fn the_first_service_that_is_not_ready_is_named_and_a_restart_writes_nothing() {
    let harness = rehearsing().await;
    for name in ["api", "cache"] {
        let mut other = service();
        other["metadata"] = json!({"name": name, "annotations": {ANNOTATION: "stable"}});
        other["spec"] = json!({"selector": {"app": "web"}, "ports": service()["spec"]["ports"]});
        harness.create(&other).await;
    }
    harness.pass(Duration::from_secs(10)).await;
    assert_eq!(harness.rehearsed(), "True Rehearsed take spec.selector out of Service api, cache, web");
    harness.refuse(forbidden(), "get", "endpoints");
    let spec = json!({"selector": {"matchLabels": {"track": "stable"}}});
    harness.patch("endpointselectors", "stable", json!({"spec": spec})).await;
    harness.pass(Duration::from_secs(10)).await;
    let refused = harness.rehearsed();
    assert!(refused.starts_with("False EndpointsForbidden Service api: "), "{refused}");
    assert!(refused.ends_with("; 2 more are not ready either"), "{refused}");
    harness.server.clear_faults();
    harness.pass(Duration::from_secs(31)).await;
    assert_eq!(harness.rehearsed(), "True Rehearsed take spec.selector out of Service api, cache, web");
    let version = |harness: &Harness| {
        harness.get("endpointselectors", "stable").unwrap()["metadata"]["resourceVersion"].clone()
    };
    let before = version(&harness);
    let harness = harness.restart().await;
    harness.pass(Duration::from_secs(60)).await;
    assert_eq!(version(&harness), before);
    harness.nothing_is_remembered().await;
}
