//! Tests bodies as Go clients write them, built field by field.

use kube_endpoint_apiserver_rules::resource;
use serde_json::json;

use super::super::*;

fn pods() -> &'static Resource {
    resource::by_kind("v1", "Pod").unwrap()
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

fn number(field: u64, number: u64) -> Vec<u8> {
    [varint(field << 3), varint(number)].concat()
}

fn bytes(field: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

fn body(api_version: &str, kind: &str, object: &[Vec<u8>]) -> Vec<u8> {
    let meta = [bytes(1, api_version), bytes(2, kind)].concat();
    [MAGIC.to_vec(), bytes(1, meta), bytes(2, object.concat()), bytes(3, ""), bytes(4, "")].concat()
}

#[test]
fn a_namespace_from_kubectl_is_decoded() {
    // Go encodes zero values of fields that are not pointers.
    let metadata = [bytes(1, "shop"), bytes(2, ""), bytes(3, ""), number(7, 0), bytes(8, "")].concat();
    let text = body("v1", "Namespace", &[bytes(1, metadata), bytes(2, ""), bytes(3, bytes(1, ""))]);
    let expected = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    assert_eq!(to_json(&text, pods()), Ok(expected));
}

#[test]
fn values_of_every_kind_are_decoded() {
    let label = [bytes(1, "app"), bytes(2, "web")].concat();
    let time = [number(1, 1_767_225_600), number(2, 123_456_000)].concat();
    let metadata =
        [bytes(1, "web"), bytes(8, &time), bytes(11, label), bytes(14, "a"), bytes(14, "b")].concat();
    let by_number = [number(1, 0), number(2, 8080), bytes(3, "")].concat();
    let by_name = [number(1, 1), number(2, 0), bytes(3, "http")].concat();
    let port = |target: &[u8]| [bytes(1, ""), number(3, 80), bytes(4, target), bytes(6, "")].concat();
    let spec =
        [bytes(1, port(&by_number)), bytes(1, port(&by_name)), number(13, 1), bytes(17, "SingleStack")]
            .concat();
    let text = body("v1", "Service", &[bytes(1, metadata), bytes(2, spec), bytes(99, "unknown")]);
    let expected = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "web", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"},
            "finalizers": ["a", "b"],
        },
        "spec": {
            "ports": [
                {"port": 80, "targetPort": 8080, "appProtocol": ""},
                {"port": 80, "targetPort": "http", "appProtocol": ""},
            ],
            "publishNotReadyAddresses": true, "ipFamilyPolicy": "SingleStack",
        },
    });
    assert_eq!(to_json(&text, pods()), Ok(expected));
    let lease = bytes(2, [bytes(1, "me"), number(2, 0), bytes(4, time)].concat());
    let expected = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 0, "renewTime": "2026-01-01T00:00:00.123456Z"},
    });
    assert_eq!(to_json(&body("coordination.k8s.io/v1", "Lease", &[lease]), pods()), Ok(expected));
}

#[test]
fn malformed_bodies_are_refused() {
    let namespace = body("v1", "Namespace", &[bytes(1, bytes(1, "shop"))]);
    for length in 0..namespace.len() {
        // The decoder refuses a truncated body or decodes a part of it, but never panics.
        let _ = to_json(&namespace[..length], pods());
    }
    assert_eq!(to_json(b"{}", pods()).unwrap_err().code, 400);
    assert_eq!(to_json(&body("v1", "Secret", &[]), pods()).unwrap_err().code, 400);
    assert_eq!(to_json(&body("v1", "Namespace", &[number(1, 5)]), pods()).unwrap_err().code, 400);
    assert_eq!(
        to_json(&body("v1", "Namespace", &[bytes(1, bytes(1, [0xff]))]), pods()).unwrap_err().code,
        400
    );
}
