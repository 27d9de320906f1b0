//! Tests what is said of a Service that has a selector and names an EndpointSelector: if it is
//! ready to attach.
#![expect(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use kube_endpoint_core_model::well_known::ENDPOINTSLICE_CONTROLLER;
use kube_endpoint_explain::{Code, Known, Objects, Options, Status, explain};
use serde_json::{Value, json};

use crate::faults::now;
use crate::selectors::{key, own_with, pod, service};

/// Returns the EndpointSelector, with these fields in place of its own.
fn selector(fields: &Value) -> Value {
    let mut selector = json!({"apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
        "metadata": {"name": "web-stable", "generation": 1},
        "spec": {"selector": {"matchLabels": {"tier": "front"}}},
        "status": {"observedGeneration": 1, "conditions": [
            {"type": "Accepted", "status": "True", "reason": "Accepted"},
            {"type": "ReadyToAttach", "status": "True", "reason": "Rehearsed", "message": "take spec.selector out of Service web"}]}});
    selector.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    selector
}

fn conditions(conditions: Value) -> Value {
    json!({"status": {"observedGeneration": 1, "conditions": conditions}})
}

/// The Service selects the pods 1 and 2, and the EndpointSelector 2 and 3.
fn cluster(others: &[Value]) -> Objects {
    let node = json!({"kind": "Node", "metadata": {"name": "node-a"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let objects = [
        node,
        service(&json!({"selector": {"app": "web"}})),
        pod(1, &json!({"app": "web"}), true),
        pod(2, &json!({"app": "web", "tier": "front"}), true),
        pod(3, &json!({"tier": "front"}), false),
    ];
    Objects::read(objects.into_iter().chain(others.iter().cloned())).unwrap()
}

/// Returns what EP092 says, and the commands of its remedy that change something.
fn told(objects: &Objects, known: Known) -> String {
    let options = Options::default().with_known(known);
    let found = explain(objects, &key(), &objects.topology(), now(), None, &options).unwrap();
    let advice = found.to_do.iter().find(|advice| advice.code == Code::EndpointSelectorOverridden).unwrap();
    assert_ne!(found.verdict.code, Code::EndpointSelectorOverridden, "it is information");
    let changes = advice.remedy.steps.iter().filter(|step| step.changes());
    let changes: Vec<String> = changes.filter_map(|step| step.command()).collect();
    [vec![advice.message.clone()], changes].concat().join("\n  ")
}

#[test]
fn a_service_is_ready_to_attach_or_it_is_said_why_not() {
    let with = |others: &[Value]| told(&cluster(others), Known::ALL);
    let many: Vec<Value> = (4..13)
        .map(|number| pod(number, &json!({"tier": "front"}), true))
        .chain([selector(&json!({}))])
        .collect();
    let lease =
        json!({"selector": {"matchLabels": {"tier": "front"}}, "readiness": {"lease": {"name": "l"}}});
    let mut followers = lease.clone();
    followers["readiness"]["lease"]["role"] = json!("Follower");
    let held = |holder: &str| {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": now().to_string()}})
    };
    let written = |by: &str, kind: &str| {
        let mut slice = own_with(ENDPOINTSLICE_CONTROLLER, &[1], &[1]);
        let mut endpoints = json!({"kind": "Endpoints", "metadata": {"name": "web"},
            "subsets": [{"addresses": [{"ip": "10.9.0.1"}], "ports": [{"port": 8080}]}]});
        let (object, field) = match kind {
            "EndpointSlice" => (&mut slice, "f:endpoints"),
            _ => (&mut endpoints, "f:subsets"),
        };
        object["metadata"]["managedFields"] = json!([{"manager": by, "operation": "Update", "time": "2026-01-01T00:00:00Z", "fieldsV1": {field: {}}}]);
        object.clone()
    };
    let mut other = selector(&json!({}));
    other["metadata"]["name"] = json!("web-stabel");
    let none = |says: &str| {
        let mut none = selector(&json!({"spec": {"selector": {"matchLabels": {"app": "x"}}}}));
        none["status"]["conditions"] = json!([{"type": "ReadyToAttach", "status": "False", "reason": "NoPod",
            "message": format!("Service web: {says}")}]);
        none
    };
    let mut of_hyperkube = written("hyperkube", "Endpoints");
    of_hyperkube["metadata"]["labels"] = json!({"endpoints.kubernetes.io/managed-by": "endpoint-controller"});
    let says_ready = |services: &str| {
        let message = format!("take spec.selector out of Service {services}");
        selector(&conditions(
            json!([{"type": "ReadyToAttach", "status": "True", "reason": "Rehearsed", "message": message}]),
        ))
    };
    let unknown = Known { selectors: false, ..Known::ALL };
    let no_pods = Known { pods: false, ..Known::ALL };
    let cases = [
        ("ready", with(&[selector(&json!({}))])),
        ("many pods", with(&many)),
        ("the same pods", with(&[selector(&json!({"spec": {"selector": {"matchLabels": {"app": "web"}}}}))])),
        ("missing", with(&[])),
        ("mistyped", with(&[other])),
        ("invalid", with(&[selector(&json!({"spec": {"selector": {"matchLabels": {"the app": "x"}}}}))])),
        ("no controller", with(&[selector(&json!({"status": {}}))])),
        ("no rehearsal", with(&[selector(&conditions(json!([{"type": "Accepted", "status": "True"}])))])),
        ("an old status", with(&[selector(&json!({"status": {"observedGeneration": 0}}))])),
        ("no pod", with(&[selector(&json!({"spec": {"selector": {"matchLabels": {"app": "x"}}}}))])),
        (
            "no ready pod",
            with(&[selector(&json!({})), pod(2, &json!({"app": "web", "tier": "front"}), false)]),
        ),
        ("the leader", with(&[selector(&json!({"spec": lease})), held("web-2_x")])),
        ("nobody leads", with(&[selector(&json!({"spec": lease})), held("web-9_x")])),
        ("its followers", with(&[selector(&json!({"spec": followers})), held("web-9_x")])),
        ("only the leader", with(&[selector(&json!({"spec": followers})), held("web-2_x")])),
        (
            "a write is refused",
            with(&[selector(&conditions(json!([
                {"type": "Published", "status": "False", "reason": "TakeOverHeld", "message": "Service api: no endpoint is ready"},
                {"type": "ReadyToAttach", "status": "False", "reason": "EndpointSlicesRefused",
                    "message": "Service web: exceeded quota: slices."}])))]),
        ),
        (
            "another Service is refused",
            with(&[selector(&conditions(json!([
                {"type": "ReadyToAttach", "status": "False", "reason": "EndpointSlicesRefused",
                    "message": "Service web-api: exceeded quota: slices."}])))]),
        ),
        (
            "others are refused",
            with(&[selector(&conditions(json!([
                {"type": "ReadyToAttach", "status": "False", "reason": "EndpointSlicesRefused",
                    "message": "Service api: exceeded quota: slices; 1 more are not ready either"}])))]),
        ),
        ("another Service is ready", with(&[says_ready("web-api")])),
        ("many Services are ready", with(&[says_ready("a, b, c, d, e and 9 more")])),
        (
            "another Service is refused, and this one is ready",
            with(&[selector(&conditions(json!([
                {"type": "ReadyToAttach", "status": "False", "reason": "EndpointSlicesRefused",
                    "message": "Service api: exceeded quota: slices; ready to attach: web"}])))]),
        ),
        ("no pod, as the status says", with(&[none("EndpointSelector web-stable selects no pod")])),
        (
            "the status says something else",
            with(&[none("EndpointSelector web-stable selects no pod that is ready")]),
        ),
        (
            "only unknown",
            with(&[selector(&conditions(
                json!([{"type": "ReadyToAttach", "status": "Unknown", "reason": "DryRunUnsupported"}]),
            ))]),
        ),
        ("a foreign slice", with(&[selector(&json!({})), written("somebody", "EndpointSlice")])),
        ("foreign Endpoints", with(&[selector(&json!({})), written("somebody", "Endpoints")])),
        (
            "the controllers' own",
            with(&[selector(&json!({})), written("kube-controller-manager", "EndpointSlice")]),
        ),
        ("an unknown manager", with(&[says_ready("a, b, c, d, e and 9 more"), of_hyperkube.clone()])),
        ("a manager that the controller knows", with(&[says_ready("api, web"), of_hyperkube.clone()])),
        ("the same for another Service", with(&[says_ready("web-api"), of_hyperkube])),
        ("selectors not read", told(&cluster(&[]), unknown)),
        ("pods not read", told(&cluster(&[selector(&json!({}))]), no_pods)),
    ];
    let texts = cases.map(|(what, text)| format!("--- {what}\n{text}\n"));
    insta::assert_snapshot!(texts.concat());
}

/// Nothing is wrong with a Service whose every pod gets traffic.
#[test]
fn a_service_with_the_annotation_is_ok() {
    let node = json!({"kind": "Node", "metadata": {"name": "node-a"}});
    let published = own_with(ENDPOINTSLICE_CONTROLLER, &[1], &[1]);
    let service = service(&json!({"selector": {"app": "web"}}));
    let objects = [node, service, pod(1, &json!({"app": "web"}), true), published, selector(&json!({}))];
    let objects = Objects::read(objects).unwrap();
    let options = Options::default().with_known(Known { endpoints: false, nodes: false, ..Known::ALL });
    let found = explain(&objects, &key(), &objects.topology(), now(), None, &options).unwrap();
    assert_eq!(found.verdict.status, Status::Ok, "{:#?}", found.verdict);
}
