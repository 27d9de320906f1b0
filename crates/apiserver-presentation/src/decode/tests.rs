//! Bodies as kubectl sends them, and broken ones.

use proptest::prelude::*;

use super::*;

/// A field of counted bytes.
fn bytes(number: u8, value: &[u8]) -> Vec<u8> {
    // All that is written here is short enough for lengths of two bytes.
    let mut field = vec![number << 3 | 2];
    if value.len() > 0x7f {
        field.push((value.len() & 0x7f) as u8 | 0x80);
        field.push((value.len() >> 7) as u8);
    } else {
        field.push(value.len() as u8);
    }
    field.extend_from_slice(value);
    field
}

fn varint(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

fn body(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
    [MAGIC, &bytes(1, &type_meta), &bytes(2, raw), &bytes(3, b""), &bytes(4, b"")].concat()
}

fn metadata() -> Vec<u8> {
    let label = [bytes(1, b"app"), bytes(2, b"web")].concat();
    let creation = bytes(8, b"");
    bytes(
        1,
        &[bytes(1, b"web"), bytes(2, b""), bytes(3, b"default"), varint(7, 0), creation, bytes(11, &label)]
            .concat(),
    )
}

#[test]
fn a_namespace_is_read() {
    let raw = [metadata(), bytes(2, b""), bytes(3, &bytes(1, b""))].concat();
    assert_eq!(
        protobuf(&body("v1", "Namespace", &raw)),
        Ok(json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}},
            "spec": {}, "status": {},
        }))
    );
}

#[test]
fn a_service_is_read() {
    let number = [varint(1, 0), varint(2, 90), bytes(3, b"")].concat();
    let named = [varint(1, 1), varint(2, 0), bytes(3, b"http")].concat();
    let port = |name: &[u8], target: &[u8]| {
        bytes(1, &[bytes(1, name), bytes(2, b"TCP"), varint(3, 80), bytes(4, target), varint(5, 0)].concat())
    };
    let selector = bytes(2, &[bytes(1, b"app"), bytes(2, b"web")].concat());
    let spec =
        [port(b"a", &number), port(b"b", &named), selector, bytes(4, b"ClusterIP"), varint(13, 0)].concat();
    let raw = [metadata(), bytes(2, &spec), bytes(3, b"")].concat();
    insta::assert_json_snapshot!(protobuf(&body("v1", "Service", &raw)).unwrap(), @r#"
    {
      "apiVersion": "v1",
      "kind": "Service",
      "metadata": {
        "labels": {
          "app": "web"
        },
        "name": "web",
        "namespace": "default"
      },
      "spec": {
        "ports": [
          {
            "name": "a",
            "port": 80,
            "protocol": "TCP",
            "targetPort": 90
          },
          {
            "name": "b",
            "port": 80,
            "protocol": "TCP",
            "targetPort": "http"
          }
        ],
        "selector": {
          "app": "web"
        },
        "type": "ClusterIP"
      }
    }
    "#);
}

#[test]
fn delete_options_keep_a_grace_period_of_zero() {
    let raw = [varint(1, 0), bytes(2, &bytes(1, b"u-1")), bytes(5, b"All")].concat();
    assert_eq!(
        protobuf(&body("v1", "DeleteOptions", &raw)),
        Ok(json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
            "preconditions": {"uid": "u-1"}, "dryRun": ["All"],
        }))
    );
}

#[test]
fn other_kinds_and_broken_bodies_are_refused() {
    let code = |body: &[u8]| protobuf(body).unwrap_err().code;
    assert_eq!(code(&body("v1", "Pod", b"")), 415);
    assert_eq!(code(&body("apps/v1", "Namespace", b"")), 415);
    assert_eq!(code(b""), 400);
    assert_eq!(code(b"{}"), 400);
    assert_eq!(code(&body("v1", "Namespace", &[0x0a, 9])), 400);
    assert_eq!(code(&body("v1", "Namespace", &varint(1, 1))), 400);
    assert_eq!(code(&body("v1", "Namespace", &bytes(1, &bytes(1, &[0xff])))), 400);
}

proptest! {
    /// Whatever is sent is answered.
    #[test]
    fn nothing_panics(raw in proptest::collection::vec(any::<u8>(), 0..64)) {
        let _ = protobuf(&body("v1", "Service", &raw));
        let _ = protobuf(&[MAGIC, &raw].concat());
    }
}
