//! Tests of Services whose Endpoints are retired.

use kube_endpoint_core_model::retirement::RetiredNamespaces;
use kube_endpoint_core_model::{ObjectKey, Timestamp};
use kube_endpoint_explain::text::{Colors, Layout};
use kube_endpoint_explain::{Code, Explanation, Objects, Options, explain, render};
use serde_json::{Value, json};

const NOW: &str = "2026-01-01T01:00:00Z";

/// A Service with a ready pod and its slice.
fn objects(annotation: Option<&str>, endpoints: Option<Value>) -> Objects {
    let annotations = annotation.map(|value| json!({"kube-endpoint-manager.github.io/endpoints": value}));
    let service = json!({
        "kind": "Service",
        "metadata": {"name": "web", "uid": "u", "resourceVersion": "1", "annotations": annotations,
            "creationTimestamp": "2026-01-01T00:00:00Z"},
        "spec": {"clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"], "selector": {"app": "web"},
            "ports": [{"port": 80, "targetPort": 80, "protocol": "TCP"}]},
    });
    let pod = json!({
        "kind": "Pod", "metadata": {"name": "web-1", "uid": "p", "labels": {"app": "web"}},
        "spec": {"nodeName": "node-a"},
        "status": {"phase": "Running", "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:05Z"}]},
    });
    let node = json!({"kind": "Node", "metadata": {"name": "node-a"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    let slice = json!({
        "kind": "EndpointSlice",
        "metadata": {"name": "web-x", "generateName": "web-", "resourceVersion": "2",
            "labels": {"kubernetes.io/service-name": "web",
                "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": "web", "uid": "u",
                "controller": true, "blockOwnerDeletion": true}]},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.1.0.1"], "nodeName": "node-a",
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "targetRef": {"kind": "Pod", "name": "web-1", "namespace": "default", "uid": "p"}}],
    });
    Objects::read([service, pod, node, slice].into_iter().chain(endpoints)).unwrap()
}

fn explained(objects: &Objects, options: &Options) -> Explanation {
    let now: Timestamp = NOW.parse().unwrap();
    let topology = objects.topology();
    explain(objects, &ObjectKey::new("default", "web"), &topology, now, None, options).unwrap()
}

fn is_behind(explanation: &Explanation) -> bool {
    explanation.codes().into_iter().any(|code| code == Code::EndpointsBehind)
}

#[test]
fn endpoints_that_are_retired_are_not_missing() {
    let check = |annotation: Option<&str>, options: &Options, retired: bool| {
        let explanation = explained(&objects(annotation, None), options);
        assert_eq!(explanation.endpoints_retired, retired, "{annotation:?}");
        assert_eq!(is_behind(&explanation), !retired, "{annotation:?}");
        let json = serde_json::to_value(&explanation).unwrap();
        assert_eq!(json.get("endpointsRetired").is_some(), retired);
    };
    let default = Options::default();
    check(None, &default, false);
    check(Some("published"), &default, false);
    check(Some("retired"), &default, true);
    check(Some("retired-until=2026-01-01T01:00:01Z"), &default, true);
    check(Some("retired-until=2026-01-01T00:59:59Z"), &default, false);
    check(Some("retried"), &default, false);
    let mut by_flag = Options::default();
    by_flag.retired = Some(RetiredNamespaces::all());
    check(None, &by_flag, true);
    check(Some("published"), &by_flag, true);
    // kube-controller-manager does not know the annotation.
    check(Some("retired"), &Options::upstream(), false);
}

#[test]
fn an_explanation_says_that_endpoints_are_retired() {
    let now: Timestamp = NOW.parse().unwrap();
    let endpoints = json!({"kind": "Endpoints", "metadata": {"name": "web", "resourceVersion": "3",
        "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}}});
    let text = |endpoints: Option<Value>| {
        let explanation = explained(&objects(Some("retired"), endpoints), &Options::default());
        explanation.text(Layout::NARROW, now).render(Colors::Off)
    };
    insta::assert_snapshot!([text(None), text(Some(endpoints))].join("\n----\n"));
}

#[test]
fn no_endpoints_are_rendered_for_a_retired_service() {
    let count = |annotation: Option<&str>| {
        let rendered = render(&objects(annotation, None), &Options::default());
        rendered.iter().filter(|service| !service.endpoints.is_empty()).count()
    };
    assert_eq!([count(None), count(Some("retired"))], [1, 0]);
}
