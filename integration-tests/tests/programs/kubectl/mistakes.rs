//! Tests kubectl's output for invalid input and unsupported operations.

use serde_json::{Value, json};

use crate::kubectl::common::*;

/// Runs a command that must fail, and checks its error.
#[track_caller]
fn check(kubectl: &Kubectl, arguments: &str, expected: &str) {
    contains(&kubectl.fails(arguments), &[expected]);
}

/// Sends an invalid manifest without kubectl's own validation.
#[track_caller]
fn refused(kubectl: &Kubectl, manifest: &Value, expected: &str) {
    let (success, text) = kubectl.run("create --validate=false -f -", &manifest.to_string());
    assert!(!success, "{text}");
    contains(&text, &[expected]);
}

pub(crate) fn common_mistakes() {
    let kubectl = Kubectl::start();
    kubectl.with("create -f -", &service(80));
    kubectl.with("create -f -", &pod());
    check(&kubectl, "get pod nope", "Error from server (NotFound): pods \"nope\" not found");
    check(&kubectl, "get pod web-1 -n nope", "Error from server (NotFound): namespaces \"nope\" not found");
    check(&kubectl, "create namespace default", "(AlreadyExists): namespaces \"default\" already exists");
    check(&kubectl, "delete namespace default", "this namespace may not be deleted");
    check(&kubectl, "get pods --field-selector spec.colour=red", "field label not supported: spec.colour");
    check(&kubectl, "get deployments", "the server doesn't have a resource type \"deployments\"");
    check(
        &kubectl,
        "patch service web --type=merge -p {\"spec\":{\"clusterIP\":\"10.96.5.5\"}}",
        "spec.clusterIPs[0]: Invalid value: [\"10.96.5.5\"]: may not change once set",
    );
    check(
        &kubectl,
        "patch service web --type=merge -p {\"spec\":{\"ports\":[{\"port\":80},{\"port\":81}]}}",
        "* spec.ports[1].name: Required value",
    );
    check(
        &kubectl,
        "patch pod web-1 --type=merge -p {\"spec\":{\"nodeName\":\"n\"}}",
        "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`",
    );
    check(
        &kubectl,
        "patch service web --type=merge -p {\"metadata\":{\"name\":\"other\"}}",
        "the name of the object (other) does not match the name on the URL (web)",
    );
    check(
        &kubectl,
        "patch service web --type=json -p [{\"op\":\"remove\",\"path\":\"/spec/colour\"}]",
        "The request is invalid",
    );
}

pub(crate) fn invalid_manifests() {
    let kubectl = Kubectl::start();
    let mut other = service(80);
    other["metadata"]["namespace"] = "nope".into();
    refused(&kubectl, &other, "namespaces \"nope\" not found");
    other = service(80);
    other["metadata"]["name"] = "Web".into();
    refused(
        &kubectl,
        &other,
        "The Service \"Web\" is invalid: metadata.name: Invalid value: \"Web\": a lowercase RFC 1123",
    );
    other = service(80);
    other["spec"]["ports"][0]["port"] = "eighty".into();
    refused(
        &kubectl,
        &other,
        "cannot unmarshal string into Go struct field ServicePort.spec.ports.port of type int32",
    );
    other = service(80);
    other["spec"]["clusterIP"] = "192.0.2.1".into();
    refused(
        &kubectl,
        &other,
        "the provided IP (192.0.2.1) is not in the valid range. The range of valid IPs is 10.96.0.0/16",
    );
    let mut other = pod();
    other["spec"]["containers"] = json!([]);
    refused(&kubectl, &other, "The Pod \"web-1\" is invalid: spec.containers: Required value");
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "s"}, "addressType": "IPv4",
        "endpoints": [{"addresses": ["fd00::1"]}],
    });
    refused(&kubectl, &slice, "endpoints[0].addresses: Invalid value: \"fd00::1\": must be an IPv4 address");
}

/// The response names the unsupported operation.
pub(crate) fn unsupported_operations() {
    let kubectl = Kubectl::start();
    kubectl.with("create -f -", &pod());
    check(&kubectl, "logs web-1", "this server has no pods/log");
    check(&kubectl, "exec web-1 -- ls", "this server has no pods/exec");
    let (success, text) = kubectl.run("apply --server-side -f -", &service(80).to_string());
    assert!(!success);
    contains(&text, &["this server does not support server-side apply"]);
}
