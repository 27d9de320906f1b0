//! Encodes the answers of scripts in protobuf: lists of Endpoints, events and errors, valid or not.

use serde_json::Value;

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn number(field: u64, value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, field << 3);
    varint(&mut out, value);
    out
}

fn bytes(field: u64, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    varint(&mut out, field << 3 | 2);
    varint(&mut out, content.len() as u64);
    out.extend(content);
    out
}

/// Encodes a string field. Any other value gets the wrong wire type.
fn text(field: u64, value: &Value) -> Vec<u8> {
    match value {
        Value::Null => Vec::new(),
        Value::String(text) => bytes(field, text.as_bytes()),
        other => number(field, other.as_u64().unwrap_or(1)),
    }
}

fn map(field: u64, value: &Value) -> Vec<u8> {
    let pairs = value.as_object().into_iter().flatten();
    pairs
        .flat_map(|(key, value)| bytes(field, &[bytes(1, key.as_bytes()), text(2, value)].concat()))
        .collect()
}

fn endpoints(object: &Value) -> Vec<u8> {
    let meta = &object["metadata"];
    let meta = [
        text(1, &meta["name"]),
        text(3, &meta["namespace"]),
        text(6, &meta["resourceVersion"]),
        map(11, &meta["labels"]),
        map(12, &meta["annotations"]),
    ];
    let subsets = &object["subsets"];
    // A subset that is cut off.
    let subsets = if subsets.is_null() { Vec::new() } else { bytes(2, &[0x0a, 0x09]) };
    [bytes(1, &meta.concat()), subsets].concat()
}

fn status(status: &Value) -> Vec<u8> {
    let details = &status["details"];
    let causes = details["causes"].as_array().into_iter().flatten();
    let causes: Vec<u8> = causes.flat_map(|cause| bytes(4, &text(1, &cause["reason"]))).collect();
    let seconds = number(5, details["retryAfterSeconds"].as_u64().unwrap_or_default());
    [
        text(3, &status["message"]),
        text(4, &status["reason"]),
        bytes(5, &[causes, seconds].concat()),
        number(6, status["code"].as_u64().unwrap_or_default()),
    ]
    .concat()
}

fn list(list: &Value) -> Vec<u8> {
    let meta = &list["metadata"];
    let meta = [text(2, &meta["resourceVersion"]), text(3, &meta["continue"])].concat();
    let items = list["items"].as_array().into_iter().flatten();
    let items: Vec<u8> = items.flat_map(|item| bytes(2, &endpoints(item))).collect();
    [bytes(1, &meta), items].concat()
}

/// Encodes a body: an object in its envelope.
pub(crate) fn answer(value: &Value) -> Vec<u8> {
    let (kind, object) = match value["kind"].as_str() {
        Some("Status") => ("Status", status(value)),
        Some(kind) if kind.ends_with("List") => (kind, list(value)),
        kind => (kind.unwrap_or("Endpoints"), endpoints(value)),
    };
    let type_meta = [bytes(1, b"v1"), bytes(2, kind.as_bytes())].concat();
    [b"k8s\0".to_vec(), bytes(1, &type_meta), bytes(2, &object), bytes(3, b""), bytes(4, b"")].concat()
}

/// Encodes a frame of a watch: its length, then the event.
pub(crate) fn frame(line: &Value) -> Vec<u8> {
    let event = [text(1, &line["type"]), bytes(2, &bytes(1, &answer(&line["object"])))].concat();
    [&(event.len() as u32).to_be_bytes()[..], &event].concat()
}
