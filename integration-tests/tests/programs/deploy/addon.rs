//! Runs two replicas of the add-on as in the manifests, beside the three controllers in
//! kube-controller-manager's place, and tests that the permissions of the add-on are those that it
//! uses.

use std::collections::BTreeSet;

use clap::Parser;
use http::Request;
use http::header::CONTENT_TYPE;
use http::request::Builder;
use kube::client::Body;
use kube_endpoint_api_client::ApiClient;
use kube_endpoint_controllers::{Manager, Options, PageSources, Settings};
use kube_endpoint_embedded_apiserver::{EmbeddedApiServer, Fault, FaultRule, RequestInfo};
use kube_endpoint_integration_tests::conformance::{Parts, upstream_settings};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::deploy::cluster_role::differences;
use crate::deploy::manifests::{ADDONS, only, rendered};
use crate::deploy::rbac::{Attributes, Granted, Rule, allowed, granted};
use crate::deploy::replicas::{self, REPLICAS, lease_watches, requests, scrape, start, until};

const ANNOTATION: &str = "kube-endpoint-manager.github.io/endpoint-selector";
const LEASE: (&str, &str) = ("kube-endpoint-manager", "kube-endpoint-manager-addon");

/// The requests and the page of the add-on.
pub(crate) struct AddOn {
    /// The requests with the arguments of each kustomization.
    requests: Vec<(&'static str, BTreeSet<Attributes>)>,
    /// The metrics page of a replica that leads.
    pub(crate) leading: String,
}

/// Returns the settings that a kustomization's arguments make.
fn settings(kustomization: &str) -> Settings {
    let objects = rendered(kustomization);
    let container = &only(&objects, "Deployment", "")["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap());
    let options = Options::try_parse_from(["kube-endpoint-manager"].into_iter().chain(arguments)).unwrap();
    Settings::try_from(&options).unwrap()
}

/// Runs the add-on with the arguments for all namespaces, and for one.
pub(crate) async fn run(sources: PageSources) -> AddOn {
    let [all, some, _] = ADDONS;
    // One after the other: the replicas of a process share the page.
    let every = Box::pin(run_one(all, sources.clone())).await;
    let of_some = Box::pin(run_one(some, sources)).await;
    AddOn { requests: vec![(all, every.0), (some, of_some.0)], leading: every.1 }
}

/// Takes a Service over and hands it back, while selectors come and go. Returns the requests of
/// the add-on, and its metrics page.
async fn run_one(kustomization: &str, sources: PageSources) -> (BTreeSet<Attributes>, String) {
    let server = replicas::server();
    server.load([only(&rendered(kustomization), "Namespace", LEASE.0).clone()]).unwrap();
    let (client, now) = (ApiClient::for_tests(server.service()), server.now());
    let others = Manager::new(client, &upstream_settings(Parts::ALL), now, 9).unwrap();
    let others = tokio::spawn(others.run(std::future::pending()));
    let managers = || managers(&server);
    until(|| managers().contains("endpointslice-controller.k8s.io")).await;
    until(|| server.get("endpoints", "shop", "frontend").is_some()).await;

    let settings = settings(kustomization);
    let first = Box::pin(start(&server, &settings, sources.clone(), 11)).await;
    until(|| server.get("leases", LEASE.0, LEASE.1).is_some()).await;
    let second = Box::pin(start(&server, &settings, sources, 12)).await;
    until(|| lease_watches(&server) >= 2).await;

    let has_event = |reason: &str| server.list("events").iter().any(|event| event["reason"] == reason);
    let selector = |app: &str| {
        json!({"apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
            "metadata": {"name": "stable", "namespace": "shop"},
            "spec": {"selector": {"matchLabels": {"app": app}}}})
    };
    let service = "/api/v1/namespaces/shop/services/frontend";
    // The rehearsal.
    server.load([selector("frontend")]).unwrap();
    patch(&server, service, &json!({"metadata": {"annotations": {ANNOTATION: "stable"}}})).await;
    let is_ready = |condition: &Value| condition["type"] == "ReadyToAttach" && condition["status"] == "True";
    let conditions = || {
        let selector = server.get("endpointselectors", "shop", "stable").unwrap();
        selector["status"]["conditions"].as_array().cloned().unwrap_or_default()
    };
    until(|| conditions().iter().any(is_ready)).await;
    server.load([selector("nobody")]).unwrap();
    let attached = json!({"metadata": {"annotations": {ANNOTATION: "stable"}}, "spec": {"selector": null}});
    patch(&server, service, &attached).await;
    until(|| has_event("TakeOverHeld")).await;
    // The objects that stay follow their pods, the Endpoints too.
    let of_app = |pod: &Value| pod["metadata"]["labels"]["app"] == "frontend";
    let ready = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "True")
    };
    let was_ready = server.list("pods").into_iter().find(|pod| of_app(pod) && ready(pod)).unwrap();
    let is_listed = |list: &str| {
        let endpoints = server.get("endpoints", "shop", "frontend").unwrap();
        let subsets = endpoints["subsets"].as_array().unwrap().iter();
        let mut addresses = subsets.flat_map(|it| it[list].as_array().into_iter().flatten());
        addresses.any(|it| it["targetRef"]["uid"] == was_ready["metadata"]["uid"])
    };
    let mut unready = was_ready.clone();
    unready["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    for (pod, list) in [(&unready, "notReadyAddresses"), (&was_ready, "addresses")] {
        server.load([pod.clone()]).unwrap();
        until(|| is_listed(list)).await;
    }
    server.load([selector("frontend")]).unwrap();
    until(|| has_event("EndpointsTakenOver")).await;
    until(|| managers() == BTreeSet::from(["endpoint-selector.kube-endpoint-manager.github.io".into()]))
        .await;
    assert_eq!(server.get("endpoints", "shop", "frontend"), None);

    // A Lease whose holder names no pod, and does not renew it. The server has no streaming list of
    // it.
    let streams = |it: &RequestInfo| {
        it.verb == "watch" && it.plural() == "leases" && it.query.contains("sendInitialEvents")
    };
    let refused = Fault::Refuse { status: 422, retry_after: None };
    server.add_fault(FaultRule::new(refused, streams).times(1));
    let kind = |kind: &str, version: &str, spec: Value| json!({"apiVersion": version, "kind": kind, "metadata": {"name": "leader", "namespace": "shop"}, "spec": spec});
    let lease = json!({"holderIdentity": "nobody", "leaseDurationSeconds": 1});
    let readiness =
        json!({"selector": {"matchLabels": {"app": "frontend"}}, "readiness": {"lease": {"name": "leader"}}});
    let mut follower = kind("Service", "v1", json!({"ports": [{"port": 80, "protocol": "TCP"}]}));
    follower["metadata"]["annotations"] = json!({ANNOTATION: "leader"});
    server
        .load([
            kind("Lease", "coordination.k8s.io/v1", lease),
            kind("EndpointSelector", "kube-endpoint-manager.github.io/v1alpha1", readiness),
            follower,
        ])
        .unwrap();
    let is_read = |it: &RequestInfo| it.verb == "get" && it.plural() == "leases" && it.name == "leader";
    until(|| server.request_log().iter().any(|it| is_read(&it.request))).await;
    let status = || server.get("endpointselectors", "shop", "leader").unwrap()["status"].clone();
    until(|| status()["conditions"][0]["reason"] == "HolderNotRecognised").await;
    delete_selector(&server, "leader").await;
    send(&server, Request::delete("/api/v1/namespaces/shop/services/leader"), Body::empty()).await;

    // A pod leaves, and the selector is deleted twice: the second event repeats the first.
    let mut pod = server.list("pods").into_iter().find(of_app).unwrap();
    pod["status"]["conditions"] = json!([{"type": "Ready", "status": "False"}]);
    server.load([pod]).unwrap();
    for count in [1, 2] {
        delete_selector(&server, "stable").await;
        let is_counted = |event: &Value| {
            event["reason"] == "EndpointSelectorNotFound" && event["count"].as_u64() == Some(count)
        };
        until(|| server.list("events").iter().any(is_counted)).await;
        server.load([selector("frontend")]).unwrap();
        until(|| server.get("endpointselectors", "shop", "stable").unwrap()["status"]["services"] == 1).await;
    }
    let leading = scrape(first.address).await;

    patch(&server, service, &json!({"spec": {"selector": {"app": "frontend"}}})).await;
    until(|| has_event("EndpointsHandedBack")).await;
    until(|| managers() == BTreeSet::from(["endpointslice-controller.k8s.io".into()])).await;
    first.end().await;
    second.end().await;
    others.abort();
    (requests(&server), leading)
}

async fn delete_selector(server: &EmbeddedApiServer, name: &str) {
    let selectors = "/apis/kube-endpoint-manager.github.io/v1alpha1/namespaces/shop/endpointselectors";
    send(server, Request::delete(format!("{selectors}/{name}")), Body::empty()).await;
}

async fn patch(server: &EmbeddedApiServer, path: &str, patch: &Value) {
    let request = Request::patch(path).header(CONTENT_TYPE, "application/merge-patch+json");
    send(server, request, patch.to_string().into_bytes().into()).await;
}

async fn send(server: &EmbeddedApiServer, request: Builder, body: Body) {
    let answer = server.service().oneshot(request.body(body).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 200);
}

/// Returns who manages the slices of the Service.
fn managers(server: &EmbeddedApiServer) -> BTreeSet<String> {
    let labels = server.list("endpointslices").into_iter().map(|slice| slice["metadata"]["labels"].clone());
    let of_service = labels.filter(|labels| labels["kubernetes.io/service-name"] == "frontend");
    of_service
        .filter_map(|labels| labels["endpointslice.kubernetes.io/managed-by"].as_str().map(str::to_owned))
        .collect()
}

/// Returns the permissions that a kustomization grants to the add-on.
pub(crate) fn permissions(kustomization: &str) -> Vec<Granted> {
    let subject = ("ServiceAccount", "kube-endpoint-manager", Some("kube-endpoint-manager"));
    granted(&rendered(kustomization), &[], subject)
}

pub(crate) fn every_request_is_allowed_and_every_permission_is_used() {
    for (kustomization, requests) in &REPLICAS.addon.requests {
        assert!(requests.len() > 20, "{requests:?}");
        let (forbidden, unused) = differences(&permissions(kustomization), requests);
        assert!(forbidden.is_empty(), "{kustomization} does not allow:\n{}", forbidden.join("\n"));
        assert!(unused.is_empty(), "{kustomization} allows what is never requested:\n{}", unused.join("\n"));
    }
}

/// The add-on for some namespaces may not even read objects of others.
pub(crate) fn rights_in_other_namespaces_are_not_granted() {
    let [all, some, _] = ADDONS.map(permissions);
    let request = |path: &str| Attributes::of("GET", path, "");
    for (path, in_some) in [
        ("/api/v1/namespaces/shop/pods", true),
        ("/api/v1/nodes", true),
        ("/api/v1/namespaces/other/pods", false),
        ("/api/v1/pods", false),
    ] {
        assert!(allowed(&all, &request(path)), "{path}");
        assert_eq!(allowed(&some, &request(path)), in_some, "{path}");
    }
    let kube_system = all.iter().chain(&some).filter(|(of, _)| of.as_deref() == Some("kube-system"));
    assert_eq!(kube_system.count(), 0, "some clusters let nobody write in kube-system");
}

/// The Endpoints are a rule of their own, and so is each other one that can be left out.
pub(crate) fn the_rule_for_endpoints_can_be_left_out() {
    let objects = rendered(ADDONS[0]);
    let rules = &only(&objects, "ClusterRole", "kube-endpoint-manager-addon")["rules"];
    let rules: Vec<Rule> = serde_json::from_value(rules.clone()).unwrap();
    let endpoints: Vec<&Rule> =
        rules.iter().filter(|rule| rule.resources.contains(&"endpoints".to_owned())).collect();
    assert_eq!(endpoints.len(), 1);
    assert_eq!(
        (&*endpoints[0].resources, &*endpoints[0].verbs),
        (&["endpoints".into()][..], &["get".into(), "update".into(), "delete".into()][..])
    );
}

/// Everybody may read selectors who may read Services, and write them who may write Services.
pub(crate) fn users_of_view_and_edit_have_the_selectors() {
    let objects = rendered(ADDONS[0]);
    for (role, verbs) in [
        ("view", &["get", "list", "watch"][..]),
        ("edit", &["create", "update", "patch", "delete", "deletecollection"]),
    ] {
        let role_object = only(&objects, "ClusterRole", &format!("kube-endpoint-manager-addon-{role}"));
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{role}");
        assert_eq!(role_object["metadata"]["labels"][&label], "true");
        let rule = json!([{"apiGroups": ["kube-endpoint-manager.github.io"],
            "resources": ["endpointselectors"], "verbs": verbs}]);
        assert_eq!(role_object["rules"], rule);
    }
}

/// It has a lease of its own, and reads nothing in kube-system.
pub(crate) fn the_arguments_are_those_of_an_add_on() {
    for kustomization in ADDONS {
        let settings = settings(kustomization);
        let names: Vec<String> = settings.controllers.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["endpoint-selector-controller"], "{kustomization}");
        let lease = settings.leader_election.unwrap();
        assert_eq!((lease.namespace.as_str(), lease.name.as_str()), LEASE, "{kustomization}");
        assert!(settings.serving.unwrap().authentication_skip_lookup, "{kustomization}");
        let some = kustomization.ends_with("-namespaces");
        assert_eq!(settings.namespaces.len(), usize::from(some), "{kustomization}");
    }
}
