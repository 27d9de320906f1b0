//! Tests the explanations that begin beside Services: at a workload, at a Gateway, at an Ingress
//! whose class does not exist.

use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::references::Referrer;
use kube_endpoint_explain::text::{Colors, Layout};
use kube_endpoint_explain::{BackendsExplanation, Objects, Options, Status, WORKLOADS, explain_backends};
use serde_json::{Value, json};

fn service(name: &str, selector: &Value) -> Value {
    json!({"kind": "Service", "metadata": {"name": name}, "spec": {"selector": selector, "clusterIP": "10.96.0.10", "ports": [{"port": 80}]}})
}

fn workload(kind: &str, spec: &Value, status: &Value) -> Value {
    let mut object = json!({"kind": kind, "metadata": {"name": "web", "generation": 1}, "status": status, "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web", "tier": "front"}}}}});
    json_patch::merge(&mut object["spec"], spec);
    if kind == "CronJob" {
        object["spec"] = json!({"schedule": "0 3 * * *", "jobTemplate": {"spec": object["spec"]}});
    }
    object
}

fn ingress() -> Value {
    json!({"kind": "Ingress", "metadata": {"name": "front", "namespace": "default"}, "spec": {"ingressClassName": "nginx", "rules": [
        {"host": "example.com", "http": {"paths": [
            {"path": "/a", "backend": {"service": {"name": "web", "port": {"number": 80}}}},
            {"path": "/b", "backend": {"service": {"name": "web", "port": {"number": 81}}}}]}}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}})
}

fn scaled_by(manager: &str) -> Value {
    let fields = json!({"f:spec": {"f:replicas": {}}});
    json!({"metadata": {"managedFields": [{"manager": manager, "time": "2026-01-01T00:00:00Z", "fieldsV1": fields}]}, "spec": {"replicas": 0}})
}

fn explained(objects: &Objects, kind: &'static str, name: &str) -> BackendsExplanation {
    let of = Referrer { kind, object: ObjectKey::new("default", name) };
    let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
    explain_backends(objects, &of, now, &Options::default()).unwrap()
}

fn of_workload(kind: &'static str, spec: &Value, status: &Value) -> BackendsExplanation {
    let objects = [workload(kind, spec, status), service("web", &json!({"app": "web"}))];
    explained(&Objects::read(objects).unwrap(), kind, "web")
}

fn text(explained: &BackendsExplanation) -> String {
    explained.text(Layout::NARROW).render(Colors::Off)
}

fn scaled_to_zero() -> BackendsExplanation {
    let mut deployment = workload("Deployment", &json!({}), &json!({}));
    json_patch::merge(&mut deployment, &scaled_by("kubectl"));
    let route = json!({"kind": "HTTPRoute", "metadata": {"name": "r", "namespace": "edge"}, "spec": {"hostnames": ["example.com"],
        "rules": [{"backendRefs": [{"name": "web", "namespace": "default", "port": 80}]}]}});
    let objects = [
        deployment,
        service("web", &json!({"app": "web"})),
        service("web-metrics", &json!({"tier": "front"})),
        service("typo", &json!({"app": "wbe"})),
        ingress(),
        route,
    ];
    explained(&Objects::read(objects).unwrap(), "Deployment", "web")
}

fn not_selected() -> BackendsExplanation {
    let selector = json!({"kind": "EndpointSelector", "apiVersion": "kube-endpoint-manager.github.io/v1alpha1",
        "metadata": {"name": "stable", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]}}});
    let mut attached = service("attached", &Value::Null);
    attached["metadata"]["annotations"] =
        json!({"kube-endpoint-manager.github.io/endpoint-selector": "stable"});
    let objects = [
        workload("StatefulSet", &json!({}), &json!({})),
        service("typo", &json!({"app": "web", "tier": "frnot"})),
        service("other", &json!({"app": "db"})),
        selector,
        attached,
    ];
    explained(&Objects::read(objects).unwrap(), "StatefulSet", "web")
}

/// The explanations of workloads that make no pods, for each reason.
fn idle() -> Vec<BackendsExplanation> {
    let condition = |kind: &str, message: &str| json!({"conditions": [{"type": kind, "status": "True", "message": message}]});
    let on_ssd = json!({"template": {"spec": {"nodeSelector": {"disk": "ssd"}}}});
    let no_node = json!({"desiredNumberScheduled": 0, "observedGeneration": 1});
    vec![
        of_workload(
            "ReplicaSet",
            &json!({}),
            &condition("ReplicaFailure", "pods is forbidden: exceeded quota: q."),
        ),
        of_workload("Deployment", &json!({"paused": true}), &json!({})),
        of_workload("Job", &json!({"suspend": true}), &json!({})),
        of_workload("Job", &json!({}), &condition("Failed", "BackoffLimitExceeded")),
        of_workload("DaemonSet", &on_ssd, &no_node),
        of_workload("CronJob", &json!({}), &json!({})),
        of_workload("Rollout", &json!({"replicas": 0}), &json!({})),
    ]
}

/// Returns an explanation of each form, for the schema.
pub(crate) fn all() -> Vec<BackendsExplanation> {
    [vec![scaled_to_zero(), not_selected(), of_gateway()], idle()].concat()
}

#[test]
fn a_workload_that_is_scaled_to_zero_is_told_with_what_leads_to_it() {
    insta::assert_snapshot!(text(&scaled_to_zero()));
}

#[test]
fn a_workload_that_no_service_selects_has_those_that_nearly_do() {
    insta::assert_snapshot!(text(&not_selected()));
}

#[test]
fn the_reason_why_a_workload_makes_no_pods_comes_first() {
    let said: Vec<String> = idle().iter().map(|it| format!("{}: {}", it.of, it.message)).collect();
    insta::assert_snapshot!(said.join("\n"));
}

/// A label that the template lacks may be of pods, unless those that are known lack it, too.
#[test]
fn a_service_that_asks_for_one_more_label_is_near_if_pods_are_known() {
    let pod =
        json!({"kind": "Pod", "metadata": {"name": "web-0", "labels": {"app": "web", "tier": "front"}}});
    let more = service("more", &json!({"app": "web", "side": "left"}));
    let objects = [workload("Deployment", &json!({}), &json!({})), more];
    let nearly =
        |objects: Vec<Value>| explained(&Objects::read(objects).unwrap(), "Deployment", "web").nearly.len();
    assert_eq!(nearly(objects.to_vec()), 0);
    assert_eq!(nearly(objects.into_iter().chain([pod]).collect()), 1);
}

/// A Service may ask for a label that only some pods have.
#[test]
fn pods_count_as_well_as_the_template() {
    let pod = |labels: Value| json!({"kind": "Pod", "metadata": {"name": "web-0", "labels": labels}});
    let one = service("one", &json!({"app": "web", "pod": "0"}));
    let of = |pod| {
        let objects = [workload("StatefulSet", &json!({}), &json!({})), one.clone(), pod];
        explained(&Objects::read(objects).unwrap(), "StatefulSet", "web").backends.len()
    };
    assert_eq!(of(pod(json!({"app": "web", "pod": "0"}))), 1);
    assert_eq!(of(pod(json!({"app": "web"}))), 0);
    // This is a pod of somebody else.
    assert_eq!(of(pod(json!({"app": "other", "pod": "0"}))), 0);
}

/// A Service that serves is not down because one of the ways to it is wrong.
#[test]
fn a_wrong_way_to_a_service_that_serves_is_told() {
    let pod = json!({"kind": "Pod", "metadata": {"name": "web-0", "uid": "u", "labels": {"app": "web"}},
        "spec": {"nodeName": "a", "containers": [{"name": "app"}]},
        "status": {"phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}], "conditions": [{"type": "Ready", "status": "True"}]}});
    let slice = json!({"kind": "EndpointSlice", "addressType": "IPv4", "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true}, "targetRef": {"kind": "Pod", "name": "web-0", "namespace": "default", "uid": "u"}}]});
    let node = json!({"kind": "Node", "metadata": {"name": "a"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let objects = [
        workload("Deployment", &json!({}), &json!({})),
        service("web", &json!({"app": "web"})),
        pod,
        slice,
        node,
        ingress(),
    ];
    let says = explained(&Objects::read(objects).unwrap(), "Deployment", "web");
    assert_eq!(
        says.message,
        "its Service receives traffic, but not from Ingress default/front: example.com/b"
    );
    assert_eq!(says.status, Status::Degraded);
}

#[test]
fn each_kind_of_workload_is_explained() {
    for kind in WORKLOADS {
        let says =
            of_workload(kind, &json!({}), &json!({"active": [{"name": "web-1"}], "observedGeneration": 1}));
        assert_eq!((says.backends.len(), &*says.message), (1, "its Service receives no traffic"), "{kind}");
    }
}

fn of_gateway() -> BackendsExplanation {
    let gateway = json!({"kind": "Gateway", "metadata": {"name": "edge", "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"gatewayClassName": "c"},
        "status": {"conditions": [{"type": "Accepted", "status": "True"}],
            "listeners": [{"name": "https", "conditions": [{"type": "ResolvedRefs", "status": "False", "reason": "InvalidCertificateRef", "message": "there is no Secret tls"}]}]}});
    let route = |name: &str, gateway: &str, service: &str| {
        let parents = json!([{"parentRef": {"name": gateway}, "conditions": [{"type": "Accepted", "status": "False", "reason": "NoMatchingListenerHostname"}]}]);
        json!({"kind": "HTTPRoute", "metadata": {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z"}, "status": {"parents": parents}, "spec": {
            "hostnames": ["example.com"], "parentRefs": [{"name": gateway}], "rules": [{"backendRefs": [{"name": service, "port": 80}]}]}})
    };
    let objects = [
        gateway,
        route("a", "edge", "web"),
        route("b", "edge", "gone"),
        route("c", "other", "none"),
        service("web", &json!({"app": "web"})),
    ];
    explained(&Objects::read(objects).unwrap(), "Gateway", "edge")
}

#[test]
fn a_gateway_is_explained_by_its_routes() {
    insta::assert_snapshot!(text(&of_gateway()));
}

#[test]
fn a_gateway_without_routes_is_told_from_one_without_services() {
    let gateway = json!({"kind": "Gateway", "metadata": {"name": "edge", "namespace": "default"}});
    let redirect = json!({"kind": "HTTPRoute", "metadata": {"name": "a", "namespace": "default"}, "spec": {
        "parentRefs": [{"name": "edge"}], "rules": [{"filters": [{"type": "RequestRedirect"}]}]}});
    let message =
        |objects: Vec<Value>| explained(&Objects::read(objects).unwrap(), "Gateway", "edge").message;
    assert_eq!(message(vec![gateway.clone()]), "no route names it");
    assert_eq!(message(vec![gateway, redirect]), "its routes send clients to no Service");
}

#[test]
fn an_ingress_without_its_class_is_told() {
    let mut unserved = ingress();
    unserved["status"] = json!({});
    let mut objects = Objects::read([unserved, service("web", &json!({"app": "web"}))]).unwrap();
    let absent = Referrer { kind: "IngressClass", object: ObjectKey::new("", "nginx") };
    objects.note_absent(absent);
    insta::assert_snapshot!(text(&explained(&objects, "Ingress", "front")));
}

/// Nobody knows anything about a Service that was left out.
#[test]
fn a_service_that_was_left_out_is_not_judged() {
    let mut objects = Objects::read([ingress()]).unwrap();
    objects.note_unread_service(ObjectKey::new("default", "web"));
    assert!(explained(&objects, "Ingress", "front").backends.is_empty());
}
