//! OpenAPI v2 in protobuf: the messages of gnostic's `openapiv2/OpenAPIv2.proto` that our documents
//! use, encoded from the JSON form.

use serde_json::{Map, Value};

/// A message being encoded.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            // The low seven bits and the continuation bit.
            self.0.push((value as u8) | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Appends a field of length-delimited wire type: a string or a message.
    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, message: Message) {
        self.bytes(field, &message.0);
    }

    /// Appends a string, unless it is absent.
    fn text(&mut self, field: u64, value: Option<&Value>) {
        if let Some(text) = value.and_then(Value::as_str) {
            self.bytes(field, text.as_bytes());
        }
    }
}

/// Encodes a `Document`.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut message = Message::default();
    message.text(1, document.get("swagger"));
    let mut info = Message::default();
    info.text(1, document.pointer("/info/title"));
    info.text(2, document.pointer("/info/version"));
    message.message(2, info);
    message.message(8, named(2, document.get("paths"), path_item));
    message.message(9, named(1, document.get("definitions"), schema));
    message.0
}

/// Encodes a map as a message whose `field` repeats pairs of a name (1) and a value (2).
fn named(field: u64, map: Option<&Value>, write: fn(&Value) -> Message) -> Message {
    let mut message = Message::default();
    for (name, value) in map.and_then(Value::as_object).into_iter().flatten() {
        let mut pair = Message::default();
        pair.bytes(1, name.as_bytes());
        pair.message(2, write(value));
        message.message(field, pair);
    }
    message
}

/// Encodes a `Schema`.
fn schema(schema: &Value) -> Message {
    let mut message = Message::default();
    message.text(1, schema.get("$ref"));
    message.text(2, schema.get("format"));
    message.text(4, schema.get("description"));
    if let Some(properties) = schema.get("additionalProperties") {
        let mut item = Message::default();
        item.message(1, self::schema(properties));
        message.message(21, item);
    }
    if let Some(schema_type) = schema.get("type") {
        let mut item = Message::default();
        item.text(1, Some(schema_type));
        message.message(22, item);
    }
    if let Some(items) = schema.get("items") {
        let mut item = Message::default();
        item.message(1, self::schema(items));
        message.message(23, item);
    }
    if schema.get("properties").is_some() {
        message.message(25, named(1, schema.get("properties"), self::schema));
    }
    extensions(&mut message, 31, schema);
    message
}

/// Encodes a `PathItem`.
fn path_item(item: &Value) -> Message {
    let mut message = Message::default();
    for (field, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(one) = item.get(method) {
            message.message(field, operation(one));
        }
    }
    message
}

/// Encodes an `Operation`.
fn operation(operation: &Value) -> Message {
    let mut message = Message::default();
    message.text(5, operation.get("operationId"));
    for parameter in operation.get("parameters").and_then(Value::as_array).into_iter().flatten() {
        message.message(8, query_parameter(parameter));
    }
    message.message(9, named(1, operation.get("responses"), response));
    extensions(&mut message, 13, operation);
    message
}

/// Encodes a `ParametersItem` of a `Parameter` of a `NonBodyParameter` of a
/// `QueryParameterSubSchema`.
fn query_parameter(parameter: &Value) -> Message {
    let mut query = Message::default();
    query.text(2, parameter.get("in"));
    query.text(4, parameter.get("name"));
    query.text(6, parameter.get("type"));
    [3, 2, 1].into_iter().fold(query, |inner, field| {
        let mut outer = Message::default();
        outer.message(field, inner);
        outer
    })
}

/// Encodes a `ResponseValue` of a `Response`.
fn response(response: &Value) -> Message {
    let mut inner = Message::default();
    inner.text(1, response.get("description"));
    let mut message = Message::default();
    message.message(1, inner);
    message
}

/// Appends the `x-` fields, as `NamedAny` whose `Any` contains YAML. JSON is valid YAML.
fn extensions(message: &mut Message, field: u64, value: &Value) {
    let empty = Map::new();
    let object = value.as_object().unwrap_or(&empty);
    for (name, value) in object.iter().filter(|(name, _)| name.starts_with("x-")) {
        let mut any = Message::default();
        any.bytes(2, value.to_string().as_bytes());
        let mut pair = Message::default();
        pair.bytes(1, name.as_bytes());
        pair.message(2, any);
        message.message(field, pair);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn varints_are_little_endian_in_groups_of_seven_bits() {
        let check = |value: u64, expected: &[u8]| {
            let mut message = Message::default();
            message.varint(value);
            assert_eq!(message.0, expected);
        };
        check(0, &[0]);
        check(127, &[0x7f]);
        check(300, &[0xac, 0x02]);
    }

    #[test]
    fn a_schema_is_written_field_by_field() {
        let written = schema(&json!({"type": "array", "items": {"$ref": "a"}, "x-k": "v"}));
        let expected = [
            &[0xb2, 0x01, 7, 0x0a, 5][..],
            b"array",
            &[0xba, 0x01, 5, 0x0a, 3, 0x0a, 1],
            b"a",
            &[0xfa, 0x01, 12, 0x0a, 3],
            b"x-k",
            &[0x12, 5, 0x12, 3],
            b"\"v\"",
        ]
        .concat();
        assert_eq!(written.0, expected);
    }
}
