//! Converts recorded answers of a real server, in protobuf and in JSON, to the other form, and
//! compares them.

use std::path::Path;

use kube_endpoint_apiserver_rules::{resource, strategy};

use super::super::*;

const KINDS: [&str; 5] = ["endpoints", "endpointslices", "nodes", "pods", "services"];

fn read(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../integration-tests/fixtures/protobuf");
    std::fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn read_json(name: &str) -> Value {
    serde_json::from_slice(&read(name)).unwrap()
}

/// Adds the zero values that Go prints in JSON, as the server does after it has decoded a body.
fn complete(object: Value) -> Value {
    let of = Type::of(&object);
    if let Some(resource) = resource::by_kind(&of.api_version, &of.kind) {
        return strategy::decode(resource, object).unwrap().object;
    }
    object
}

fn decoded(body: &[u8]) -> Value {
    to_json(body, &resource::PODS).unwrap()
}

fn encoded(object: &Value) -> Vec<u8> {
    encode(object).unwrap()
}

/// [`complete`]s the items of a list, which have no type of their own.
fn completed_items(mut list: Value) -> Value {
    let of = (list["apiVersion"].clone(), list["kind"].as_str().unwrap().trim_end_matches("List").to_owned());
    for item in list["items"].as_array_mut().unwrap() {
        let mut typed = item.take();
        (typed["apiVersion"], typed["kind"]) = (of.0.clone(), of.1.clone().into());
        *item = complete(typed);
    }
    list
}

/// Returns the events of a watch: type and enveloped object.
fn events(mut stream: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut events = Vec::new();
    while let Some((length, rest)) = stream.split_first_chunk::<4>() {
        let (frame, rest) = rest.split_at(u32::from_be_bytes(*length) as usize);
        stream = rest;
        let fields: Vec<_> = wire::Reader(frame).collect::<Result<_, _>>().unwrap();
        let [(1, wire::Payload::Bytes(kind)), (2, wire::Payload::Bytes(object))] = fields[..] else {
            panic!("{fields:?}")
        };
        let raw: Vec<_> = wire::Reader(object).collect::<Result<_, _>>().unwrap();
        let [(1, wire::Payload::Bytes(raw))] = raw[..] else { panic!("{raw:?}") };
        events.push((String::from_utf8(kind.to_vec()).unwrap(), raw.to_vec()));
    }
    assert!(stream.is_empty());
    events
}

#[test]
fn objects_convert_to_the_recorded_other_form() {
    for kind in KINDS {
        let (json, protobuf) = (read_json(&format!("{kind}.one.json")), read(&format!("{kind}.one.pb")));
        assert_eq!(complete(decoded(&protobuf)), json, "{kind}");
        assert!(encoded(&json) == protobuf, "{kind}");
        let text = read(&format!("{kind}.one.json"));
        let mut json = serde_json::Deserializer::from_slice(&text);
        let found = Type::of(&decoded(&protobuf)).encode(&mut json).unwrap();
        assert!(found == protobuf, "{kind} from text");
    }
}

#[test]
fn lists_convert_to_the_recorded_other_form() {
    for kind in KINDS {
        let (json, protobuf) = (read_json(&format!("{kind}.list.json")), read(&format!("{kind}.list.pb")));
        assert_eq!(completed_items(decoded(&protobuf)), completed_items(json.clone()), "{kind}");
        assert!(encoded(&json) == protobuf, "{kind}");
        let mut items = Vec::new();
        let list = Type::of(&json);
        let of = Type::new(list.api_version.clone(), list.kind.trim_end_matches("List").to_owned());
        for item in json["items"].as_array().unwrap() {
            of.item(item, &mut items).unwrap();
        }
        let (start, end) = list.list(&json["metadata"], items.len()).unwrap();
        assert!([&start[..], &items, &end].concat() == protobuf, "{kind} in pieces");
    }
}

#[test]
fn pages_have_a_continue_token() {
    for kind in KINDS {
        let protobuf = read(&format!("{kind}.page.pb"));
        let page = decoded(&protobuf);
        assert_eq!(page["items"].as_array().unwrap().len(), 2, "{kind}");
        assert!(!page["metadata"]["continue"].as_str().unwrap().is_empty(), "{kind}");
        assert!(encoded(&page) == protobuf, "{kind}");
    }
}

#[test]
fn watches_convert_to_the_recorded_other_form() {
    for kind in KINDS {
        let text = String::from_utf8(read(&format!("{kind}.watch.json"))).unwrap();
        let mut expected: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let stream = read(&format!("{kind}.watch.pb"));
        let found: Vec<Value> = events(&stream)
            .into_iter()
            .map(|(event, raw)| json!({"type": event, "object": complete(decoded(&raw))}))
            .collect();
        let (last, bookmark) = (expected.last_mut().unwrap(), found.last().unwrap());
        assert_eq!(bookmark["type"], "BOOKMARK", "{kind}");
        // The two watches began at different times.
        let version = &bookmark["object"]["metadata"]["resourceVersion"];
        last["object"]["metadata"]["resourceVersion"] = version.clone();
        assert_eq!(found, expected, "{kind}");
        let mut out = Vec::new();
        for event in &expected {
            let object = &event["object"];
            out.extend(Type::of(object).event(event["type"].as_str().unwrap(), object).unwrap());
        }
        assert!(out == stream, "{kind}");
    }
}

#[test]
fn every_recorded_change_encodes_to_the_same_bytes() {
    for kind in KINDS {
        let stream = read(&format!("{kind}.history.pb"));
        let changes = events(&stream);
        assert!(changes.len() >= 5, "{kind}: {}", changes.len());
        for (event, raw) in changes {
            assert!(encoded(&decoded(&raw)) == raw, "{kind} {event}");
        }
    }
}

#[test]
fn errors_and_metadata_convert_to_the_recorded_other_form() {
    for name in ["status-404", "put-metadata-only"] {
        let (json, protobuf) = (read_json(&format!("{name}.json")), read(&format!("{name}.pb")));
        let mut found = decoded(&protobuf);
        if name == "status-404" {
            found["metadata"] = json!({});
        }
        assert_eq!(found, json, "{name}");
        assert!(encoded(&json) == protobuf, "{name}");
    }
}

#[test]
fn partial_object_metadata_is_encoded_from_a_whole_object() {
    let text = read("pods.one.json");
    let of = Type::new("meta.k8s.io/v1", "PartialObjectMetadata");
    let out = of.encode(&mut serde_json::Deserializer::from_slice(&text)).unwrap();
    let pod = read_json("pods.one.json");
    let expected =
        json!({"apiVersion": of.api_version, "kind": of.kind, "metadata": pod["metadata"].clone()});
    assert_eq!(decoded(&out), expected);
}
