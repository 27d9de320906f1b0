//! Decodes recorded answers of a kube-apiserver 1.36.2, in protobuf and in JSON.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::wire::{Fields, Payload};
use super::super::*;
use crate::{EndpointSlice, Endpoints, Lease, Node, ObjectMeta, Pod, ResourceVersion, Service};

pub(super) fn read(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../integration-tests/fixtures/protobuf");
    std::fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&read(name)).unwrap()
}

/// Returns the metadata and the items of a list.
pub(super) fn list(body: &[u8]) -> (ListMeta, Vec<&[u8]>) {
    let (mut metadata, mut items) = (ListMeta::default(), Vec::new());
    let mut fields = Fields::new(Envelope::read(body).unwrap().object, "list");
    while let Some((number, payload)) = fields.next().unwrap() {
        match (number, payload) {
            (1, Payload::Bytes(bytes)) => metadata = ListMeta::read(bytes).unwrap(),
            (2, Payload::Bytes(bytes)) => items.push(bytes),
            other => panic!("{other:?}"),
        }
    }
    (metadata, items)
}

/// Returns the frames of a watch, without their lengths.
pub(super) fn frames(mut stream: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        frames.push(frame);
        stream = rest;
    }
    frames
}

fn decoded<T: FromProtobuf>(object: &[u8]) -> T {
    T::from_protobuf(object, &mut Interner::default()).unwrap()
}

fn check_kind<T: FromProtobuf + DeserializeOwned + PartialEq + std::fmt::Debug>(plural: &str, kind: &str) {
    let one = read(&format!("{plural}.one.pb"));
    let envelope = Envelope::read(&one).unwrap();
    assert_eq!(envelope.kind, kind);
    assert_eq!(
        decoded::<T>(envelope.object),
        serde_json::from_value(json(&format!("{plural}.one.json"))).unwrap()
    );

    let body = read(&format!("{plural}.list.pb"));
    let (metadata, items) = list(&body);
    let want = json(&format!("{plural}.list.json"));
    assert_eq!(metadata.resource_version.to_string(), want["metadata"]["resourceVersion"]);
    assert_eq!(metadata.continue_token, "");
    let want: Vec<T> = serde_json::from_value(want["items"].clone()).unwrap();
    assert!(want.len() > 1);
    // One interner for all, as in a watch.
    let mut interner = Interner::default();
    let got: Vec<T> = items.iter().map(|item| T::from_protobuf(item, &mut interner).unwrap()).collect();
    assert_eq!(got, want);

    let page = read(&format!("{plural}.page.pb"));
    let (metadata, items) = list(&page);
    assert!(items.len() == 2 && !metadata.continue_token.is_empty() && !metadata.resource_version.is_none());

    let stream = read(&format!("{plural}.watch.pb"));
    let lines = String::from_utf8(read(&format!("{plural}.watch.json"))).unwrap();
    let events: Vec<WatchEvent<'_>> =
        frames(&stream).into_iter().map(|it| WatchEvent::read(it).unwrap()).collect();
    assert_eq!(events.len(), lines.lines().count());
    for (event, line) in events.iter().zip(lines.lines()) {
        let want: Value = serde_json::from_str(line).unwrap();
        assert_eq!(event.event_type, want["type"]);
        if event.event_type == "BOOKMARK" {
            let (version, ends_initial_events) = bookmark(event.object).unwrap();
            assert!(ends_initial_events && version > ResourceVersion(1));
        } else {
            assert_eq!(decoded::<T>(event.object), serde_json::from_value(want["object"].clone()).unwrap());
        }
    }
}

#[test]
fn views_equal_those_from_json() {
    check_kind::<Pod>("pods", "Pod");
    check_kind::<Service>("services", "Service");
    check_kind::<Node>("nodes", "Node");
    check_kind::<Lease>("leases", "Lease");
    check_kind::<EndpointSlice>("endpointslices", "EndpointSlice");
    check_kind::<Endpoints>("endpoints", "Endpoints");
}

fn check_encoding<T: FromProtobuf + ObjectToWrite + PartialEq + std::fmt::Debug>(
    plural: &str,
    type_meta: (&str, &str),
) {
    let stream = read(&format!("{plural}.history.pb"));
    let mut count = 0;
    for frame in frames(&stream) {
        let event = WatchEvent::read(frame).unwrap();
        if event.event_type == "BOOKMARK" {
            continue;
        }
        let object: T = decoded(event.object);
        let Encoded { body, content: at } = object.to_protobuf();
        assert_eq!(body[at], *fields_after_metadata(event.object).unwrap(), "{object:?}");
        let envelope = Envelope::read(&body).unwrap();
        assert_eq!((envelope.api_version, envelope.kind), type_meta);
        assert_eq!(decoded::<T>(envelope.object), object);
        count += 1;
    }
    assert!(count >= 5, "{count}");
}

#[test]
fn what_is_encoded_equals_what_the_server_stores() {
    check_encoding::<EndpointSlice>("endpointslices", ("discovery.k8s.io/v1", "EndpointSlice"));
    check_encoding::<Endpoints>("endpoints", ("v1", "Endpoints"));
}

/// Field 1000 in each wire type but groups, as a later version of Kubernetes may add fields.
const LATER_FIELDS: &[u8] =
    b"\xc0\x3e\x01\xc1\x3e\x01\x02\x03\x04\x05\x06\x07\x08\xc2\x3e\x03new\xc5\x3e\x01\x02\x03\x04";

fn push_field(message: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    message.push(number << 3 | 2);
    let mut length = bytes.len();
    while length >= 0x80 {
        message.push(length as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend_from_slice(bytes);
}

/// Returns the object with [`LATER_FIELDS`] in it and in its metadata, spec, status, endpoints,
/// ports and subsets, and how many of them it has.
fn with_later_fields(object: &[u8]) -> (Vec<u8>, usize) {
    let (mut changed, mut messages) = (LATER_FIELDS.to_vec(), 0);
    let mut fields = Fields::new(object, "object");
    while let Some((number, payload)) = fields.next().unwrap() {
        match (u8::try_from(number).unwrap(), payload) {
            (number @ 1..=3, Payload::Bytes(bytes)) => {
                push_field(&mut changed, number, &[bytes, LATER_FIELDS].concat());
                messages += 1;
            }
            (number, Payload::Bytes(bytes)) => push_field(&mut changed, number, bytes),
            other => panic!("{other:?}"),
        }
    }
    (changed, messages)
}

/// `most` is the number of messages of the object that has most.
fn check_later_fields<T: FromProtobuf + PartialEq + std::fmt::Debug>(plural: &str, most: usize) {
    let body = read(&format!("{plural}.list.pb"));
    let messages = list(&body).1.into_iter().map(|object| {
        let (later, messages) = with_later_fields(object);
        assert_eq!(decoded::<T>(object), decoded::<T>(&later));
        messages
    });
    assert_eq!(messages.max(), Some(most), "{plural}");
}

/// Views ignore them, so an update writes the object without them, as one of client-go's typed
/// clients does.
#[test]
fn fields_of_a_later_version_are_ignored() {
    check_later_fields::<Pod>("pods", 3);
    check_later_fields::<Service>("services", 3);
    check_later_fields::<Node>("nodes", 3);
    check_later_fields::<EndpointSlice>("endpointslices", 9);
    check_later_fields::<Endpoints>("endpoints", 2);
}

#[test]
fn a_status_is_read() {
    let got = Status::of_answer(&read("status-404.pb")).unwrap();
    let want = json("status-404.json");
    assert_eq!(got.code, 404);
    assert_eq!((got.reason.into(), got.message.into()), (want["reason"].clone(), want["message"].clone()));
    assert_eq!(Status::of_answer(&read("pods.one.pb")), None);
    assert_eq!(Status::of_answer(b"<html>"), None);
}

#[test]
fn an_answer_with_metadata_only_is_read() {
    let body = read("put-metadata-only.pb");
    let envelope = Envelope::read(&body).unwrap();
    assert_eq!((envelope.api_version, envelope.kind), ("meta.k8s.io/v1", "PartialObjectMetadata"));
    let got = object_meta(envelope.object, &mut Interner::default()).unwrap();
    let want: ObjectMeta =
        serde_json::from_value(json("put-metadata-only.json")["metadata"].clone()).unwrap();
    assert_eq!(got, want);
}
