//! Request bodies in protobuf, which Go's typed clients send where they are not told otherwise (`kubectl create
//! namespace` among them). They are turned into JSON; answers are always JSON, which those clients take as well.
//!
//! `messages.txt` says for each message which field number has which JSON name and type, as the `protobuf` and `json`
//! tags of the Go types of `k8s.io/api` and `k8s.io/apimachinery` have it. A type is `s`tring, `i`nteger, `b`oolean,
//! `T`ime, `M`icroTime, `Q`uantity, `I`ntOrString, `F`ieldsV1 or the name of a message; `*` marks what may be absent
//! apart from being zero, `[]` a list, `{}` a map. A field named `.` lends its own fields to the message around it.

mod table;
mod wire;

use jiff::Timestamp;
use kube_endpoint_apiserver_rules::status::Status;
use serde_json::{Map, Value};

use table::{Field, Kind, Shape};
use wire::{Payload, Reader};

/// The content type of these bodies.
pub(crate) const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// What each body begins with.
const MAGIC: &[u8] = b"k8s\0";

/// No object is nested deeper than this.
const DEPTH: usize = 32;

/// The body is not what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Malformed;

/// The JSON form of a body.
pub(crate) fn to_json(body: &[u8]) -> Result<Value, Status> {
    let malformed = |_| Status::bad_request("the protobuf body of the request cannot be read");
    let unknown = body.strip_prefix(MAGIC).ok_or(Malformed).map_err(malformed)?;
    let (api_version, kind, raw) = envelope(unknown).map_err(malformed)?;
    let group = api_version.split_once('/').map_or("core", |(group, _)| group);
    let package = if kind == "DeleteOptions" { "meta" } else { group.split('.').next().unwrap_or_default() };
    let Some(fields) = table::message(&format!("{package}.{kind}")) else {
        return Err(Status::bad_request(format!(
            "no kind {kind:?} is registered for version {api_version:?}"
        )));
    };
    let mut object = message(fields, raw, DEPTH).map_err(malformed)?;
    object.insert("apiVersion".to_owned(), api_version.into());
    object.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(object))
}

/// The parts of a `runtime.Unknown`: apiVersion, kind and the object's own bytes.
fn envelope(bytes: &[u8]) -> Result<(&str, &str, &[u8]), Malformed> {
    let (mut api_version, mut kind, mut raw) = ("", "", &[] as &[u8]);
    for field in Reader(bytes) {
        match field? {
            (1, Payload::Bytes(meta)) => {
                for field in Reader(meta) {
                    match field? {
                        (1, Payload::Bytes(text)) => api_version = utf8(text)?,
                        (2, Payload::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Payload::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    Ok((api_version, kind, raw))
}

fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed)
}

fn message(fields: &[Field], bytes: &[u8], depth: usize) -> Result<Map<String, Value>, Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed)?;
    let mut object = Map::new();
    for entry in Reader(bytes) {
        let (number, payload) = entry?;
        // Fields that this server does not know are dropped, as unknown fields of JSON are.
        let Some(field) = fields.iter().find(|field| field.number == number) else { continue };
        match field.shape {
            Shape::List => {
                let list = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
                if let Value::Array(list) = list {
                    list.push(value(&field.kind, payload, depth)?.unwrap_or_else(|| zero(&field.kind)));
                }
            }
            Shape::Map => {
                let (key, value) = map_entry(&field.kind, payload, depth)?;
                if let Value::Object(map) = object.entry(field.name).or_insert_with(|| Map::new().into()) {
                    map.insert(key, value);
                }
            }
            Shape::One if field.name == "." => {
                if let Some(Value::Object(inline)) = value(&field.kind, payload, depth)? {
                    object.extend(inline);
                }
            }
            Shape::One => {
                if let Some(value) = value(&field.kind, payload, depth)? {
                    object.insert(field.name.to_owned(), value);
                }
            }
            Shape::Optional => {
                let value = value(&field.kind, payload, depth)?.unwrap_or_else(|| zero(&field.kind));
                object.insert(field.name.to_owned(), value);
            }
        }
    }
    Ok(object)
}

fn map_entry(kind: &Kind, payload: Payload<'_>, depth: usize) -> Result<(String, Value), Malformed> {
    let Payload::Bytes(bytes) = payload else { return Err(Malformed) };
    let (mut key, mut found) = (String::new(), zero(kind));
    for field in Reader(bytes) {
        match field? {
            (1, Payload::Bytes(text)) => key = utf8(text)?.to_owned(),
            (2, payload) => found = value(kind, payload, depth)?.unwrap_or_else(|| zero(kind)),
            _ => {}
        }
    }
    Ok((key, found))
}

/// What a field of this kind is where it has to be there although it is zero.
fn zero(kind: &Kind) -> Value {
    match kind {
        Kind::Text | Kind::Quantity => "".into(),
        Kind::Integer | Kind::IntOrString => 0.into(),
        Kind::Boolean => false.into(),
        Kind::Time | Kind::MicroTime | Kind::Fields => Value::Null,
        Kind::Message(_) => Map::new().into(),
    }
}

/// A value, or `None` for the zero value, which Go writes in protobuf but leaves out of JSON.
fn value(kind: &Kind, payload: Payload<'_>, depth: usize) -> Result<Option<Value>, Malformed> {
    Ok(match (kind, payload) {
        (Kind::Text, Payload::Bytes(bytes)) => Some(utf8(bytes)?).filter(|t| !t.is_empty()).map(Value::from),
        (Kind::Integer, Payload::Number(number)) => Some(number as i64).filter(|n| *n != 0).map(Value::from),
        (Kind::Boolean, Payload::Number(number)) => (number != 0).then(|| true.into()),
        (Kind::Time, Payload::Bytes(bytes)) => time(bytes)?
            .and_then(|t| Timestamp::from_second(t.as_second()).ok())
            .map(|t| t.to_string().into()),
        (Kind::MicroTime, Payload::Bytes(bytes)) => {
            time(bytes)?.map(|time| time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().into())
        }
        (Kind::Quantity, Payload::Bytes(bytes)) => {
            let text = numbers(bytes)?.1.first().copied().map(utf8).transpose()?;
            text.filter(|text| !text.is_empty()).map(Value::from)
        }
        (Kind::IntOrString, Payload::Bytes(bytes)) => int_or_string(bytes)?,
        (Kind::Fields, Payload::Bytes(bytes)) => match numbers(bytes)?.1.first() {
            Some(raw) => Some(serde_json::from_slice(raw).map_err(|_| Malformed)?),
            None => None,
        },
        (Kind::Message(name), Payload::Bytes(bytes)) => {
            let object = message(table::message(name).ok_or(Malformed)?, bytes, depth)?;
            (!object.is_empty()).then_some(Value::Object(object))
        }
        _ => return Err(Malformed),
    })
}

/// The numbers of a small message by field (up to 3, zero if absent), and its byte fields in their order.
fn numbers(bytes: &[u8]) -> Result<([u64; 4], Vec<&[u8]>), Malformed> {
    let (mut numbers, mut texts) = ([0; 4], Vec::new());
    for field in Reader(bytes) {
        match field? {
            (field, Payload::Number(number)) => {
                if let Some(slot) = numbers.get_mut(field as usize) {
                    *slot = number;
                }
            }
            (_, Payload::Bytes(bytes)) => texts.push(bytes),
            _ => {}
        }
    }
    Ok((numbers, texts))
}

fn time(bytes: &[u8]) -> Result<Option<Timestamp>, Malformed> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let ([_, seconds, nanos, _], _) = numbers(bytes)?;
    Timestamp::new(seconds as i64, nanos as i32).map(Some).map_err(|_| Malformed)
}

fn int_or_string(bytes: &[u8]) -> Result<Option<Value>, Malformed> {
    let ([_, is_text, number, _], texts) = numbers(bytes)?;
    if is_text == 1 {
        return Ok(Some(utf8(texts.first().copied().unwrap_or_default())?.into()));
    }
    Ok(Some(number as i64).filter(|number| *number != 0).map(Value::from))
}

#[cfg(test)]
mod tests;
