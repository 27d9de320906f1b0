//! Decodes protobuf to JSON.

use jiff::Timestamp;
use serde_json::{Map, Value};

use super::table::{self, Field, Kind, Message, Shape};
use super::wire::{Payload, Reader};
use super::{MAGIC, Malformed};

/// The deepest nesting of messages that this decodes.
const DEPTH: usize = 32;

/// The parts of a `runtime.Unknown`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Envelope<'a> {
    pub(super) api_version: &'a str,
    pub(super) kind: &'a str,
    /// The object's own bytes.
    pub(super) raw: &'a [u8],
}

/// Reads the envelope around an object.
pub(super) fn envelope(bytes: &[u8]) -> Result<Envelope<'_>, Malformed> {
    let mut envelope = Envelope::default();
    for field in Reader(bytes.strip_prefix(MAGIC).ok_or(Malformed)?) {
        match field? {
            (1, Payload::Bytes(meta)) => {
                for field in Reader(meta) {
                    match field? {
                        (1, Payload::Bytes(text)) => envelope.api_version = utf8(text)?,
                        (2, Payload::Bytes(text)) => envelope.kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Payload::Bytes(bytes)) => envelope.raw = bytes,
            _ => {}
        }
    }
    Ok(envelope)
}

/// Decodes a message. It omits zero values of fields that are not pointers, except in lists and
/// maps.
pub(super) fn object(of: &Message, bytes: &[u8]) -> Result<Map<String, Value>, Malformed> {
    message(of, bytes, DEPTH)
}

fn message(of: &Message, bytes: &[u8], depth: usize) -> Result<Map<String, Value>, Malformed> {
    let depth = depth.checked_sub(1).ok_or(Malformed)?;
    let mut object = Map::new();
    for entry in Reader(bytes) {
        let (number, payload) = entry?;
        // This skips unknown fields.
        if let Some(field) = of.fields.iter().find(|field| field.number == number) {
            add(&mut object, field, payload, depth)?;
        }
    }
    Ok(object)
}

fn add(
    object: &mut Map<String, Value>,
    field: &Field,
    payload: Payload<'_>,
    depth: usize,
) -> Result<(), Malformed> {
    let kind = field.kind;
    match field.shape {
        Shape::List => {
            let list = object.entry(field.name).or_insert_with(|| Value::Array(Vec::new()));
            let Value::Array(list) = list else { return Err(Malformed) };
            match payload {
                Payload::Bytes(packed) if kind == Kind::Integer => {
                    let mut numbers = Reader(packed);
                    while !numbers.0.is_empty() {
                        list.push((numbers.varint()? as i64).into());
                    }
                }
                payload => list.push(value_or_zero(kind, payload, depth)?),
            }
        }
        Shape::Map => {
            let (key, value) = map_entry(kind, payload, depth)?;
            if let Value::Object(map) = object.entry(field.name).or_insert_with(|| Map::new().into()) {
                map.insert(key, value);
            }
        }
        Shape::Inline => {
            if let Some(Value::Object(inline)) = value(kind, payload, depth)? {
                object.extend(inline);
            }
        }
        // The last occurrence of a field counts.
        Shape::One => match value(kind, payload, depth)? {
            Some(value) => drop(object.insert(field.name.to_owned(), value)),
            None => drop(object.remove(field.name)),
        },
        Shape::Optional => {
            object.insert(field.name.to_owned(), value_or_zero(kind, payload, depth)?);
        }
    }
    Ok(())
}

fn map_entry(kind: Kind, payload: Payload<'_>, depth: usize) -> Result<(String, Value), Malformed> {
    let Payload::Bytes(bytes) = payload else { return Err(Malformed) };
    let (mut key, mut found) = (String::new(), zero(kind));
    for field in Reader(bytes) {
        match field? {
            (1, Payload::Bytes(text)) => key = utf8(text)?.to_owned(),
            (2, payload) => found = value_or_zero(kind, payload, depth)?,
            _ => {}
        }
    }
    Ok((key, found))
}

fn utf8(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed)
}

/// Returns the zero value of a kind.
fn zero(kind: Kind) -> Value {
    match kind {
        Kind::Text | Kind::Quantity => "".into(),
        Kind::Integer | Kind::IntOrString => 0.into(),
        Kind::Boolean => false.into(),
        Kind::Time | Kind::MicroTime | Kind::Fields | Kind::Texts => Value::Null,
        Kind::Message(_) => Map::new().into(),
    }
}

fn value_or_zero(kind: Kind, payload: Payload<'_>, depth: usize) -> Result<Value, Malformed> {
    Ok(value(kind, payload, depth)?.unwrap_or_else(|| zero(kind)))
}

/// Decodes a value. Returns `None` for the zero value.
fn value(kind: Kind, payload: Payload<'_>, depth: usize) -> Result<Option<Value>, Malformed> {
    Ok(match (kind, payload) {
        (Kind::Text, Payload::Bytes(bytes)) => Some(utf8(bytes)?).filter(|t| !t.is_empty()).map(Value::from),
        (Kind::Integer, Payload::Number(number)) => Some(number as i64).filter(|n| *n != 0).map(Value::from),
        (Kind::Boolean, Payload::Number(number)) => (number != 0).then(|| true.into()),
        (Kind::Time, Payload::Bytes(bytes)) => time(bytes)?
            .and_then(|time| Timestamp::from_second(time.as_second()).ok())
            .map(|time| time.to_string().into()),
        (Kind::MicroTime, Payload::Bytes(bytes)) => {
            time(bytes)?.map(|time| time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string().into())
        }
        (Kind::Quantity, Payload::Bytes(bytes)) => {
            let text = last(bytes, 1)?.map(utf8).transpose()?;
            text.filter(|text| !text.is_empty()).map(Value::from)
        }
        (Kind::IntOrString, Payload::Bytes(bytes)) => match number(bytes, 1)? {
            1 => Some(utf8(last(bytes, 3)?.unwrap_or_default())?.into()),
            _ => Some(number(bytes, 2)? as i64).filter(|number| *number != 0).map(Value::from),
        },
        (Kind::Fields, Payload::Bytes(bytes)) => match last(bytes, 1)? {
            Some(raw) => Some(serde_json::from_slice(raw).map_err(|_| Malformed)?),
            None => None,
        },
        (Kind::Texts, Payload::Bytes(bytes)) => {
            let mut texts = Vec::new();
            for field in Reader(bytes) {
                if let (1, Payload::Bytes(text)) = field? {
                    texts.push(Value::from(utf8(text)?));
                }
            }
            Some(texts.into())
        }
        (Kind::Message(index), Payload::Bytes(bytes)) => {
            let object = message(table::message(index), bytes, depth)?;
            (!object.is_empty()).then_some(Value::Object(object))
        }
        _ => return Err(Malformed),
    })
}

/// Returns the bytes of the last field with this number.
fn last(bytes: &[u8], wanted: u64) -> Result<Option<&[u8]>, Malformed> {
    let mut found = None;
    for field in Reader(bytes) {
        match field? {
            (number, Payload::Bytes(bytes)) if number == wanted => found = Some(bytes),
            _ => {}
        }
    }
    Ok(found)
}

/// Returns the varint of the last field with this number, or zero if there is no such field.
fn number(bytes: &[u8], wanted: u64) -> Result<u64, Malformed> {
    let mut found = 0;
    for field in Reader(bytes) {
        match field? {
            (number, Payload::Number(value)) if number == wanted => found = value,
            _ => {}
        }
    }
    Ok(found)
}

/// Decodes a `Timestamp`. An empty message is Go's zero time, which is null in JSON.
fn time(bytes: &[u8]) -> Result<Option<Timestamp>, Malformed> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let (seconds, nanos) = (number(bytes, 1)? as i64, number(bytes, 2)? as i32);
    Timestamp::new(seconds, nanos).map(Some).map_err(|_| Malformed)
}
