//! Encodes JSON to the bytes that Go's generated code writes: the fields in the order of their
//! numbers, and those that are not pointers even if they are zero.
//!
//! It reads the JSON, text or a `Value`, once and without building a tree. It encodes each member
//! when it reads it, and sorts the encoded fields by number at the end of their message.

use std::fmt;
use std::ops::Range;

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor,
};
use serde_json::value::RawValue;

use super::table::{self, Field, Kind, Message, Shape};
use super::wire::{bytes, number, wrap};

/// Appends the fields of an object.
pub(super) fn object<'de, D: Deserializer<'de>>(
    of: &Message,
    json: D,
    out: &mut Vec<u8>,
) -> Result<(), D::Error> {
    json.deserialize_map(Object { of, out })
}

/// The positions of the encoded fields of a message, in the order of [`leaves`]; empty for absent
/// fields.
type Slots = Vec<Range<usize>>;

/// Returns the fields of a message, with the fields of its embedded messages in their place.
fn leaves(of: &Message) -> impl Iterator<Item = &Field> {
    of.fields.iter().flat_map(|field| match (field.shape, field.kind) {
        (Shape::Inline, Kind::Message(index)) => table::message(index).fields.iter(),
        _ => std::slice::from_ref(field).iter(),
    })
}

/// Appends the encoded fields in the order of their numbers, and zero values for absent fields.
fn assemble(of: &Message, slots: &mut impl Iterator<Item = Range<usize>>, out: &mut Vec<u8>) {
    for field in &of.fields {
        if let (Shape::Inline, Kind::Message(index)) = (field.shape, field.kind) {
            let start = out.len();
            assemble(table::message(index), slots, out);
            wrap(out, start, field.number);
            continue;
        }
        match slots.next() {
            Some(encoded) if !encoded.is_empty() => out.extend_from_within(encoded),
            _ if field.shape == Shape::One => zero(field.kind, field.number, out),
            _ => {}
        }
    }
}

fn zero(kind: Kind, field: u64, out: &mut Vec<u8>) {
    match kind {
        Kind::Text | Kind::Time | Kind::MicroTime | Kind::Fields | Kind::Texts => bytes(out, field, b""),
        Kind::Integer | Kind::Boolean => number(out, field, 0),
        Kind::Quantity => text(kind, field, "0", out).unwrap_or_default(),
        Kind::IntOrString => int_or_string(field, 0, None, out),
        Kind::Message(index) => {
            let start = out.len();
            assemble(table::message(index), &mut std::iter::empty(), out);
            wrap(out, start, field);
        }
    }
}

fn int_or_string(field: u64, int: u64, text: Option<&str>, out: &mut Vec<u8>) {
    let start = out.len();
    number(out, 1, u64::from(text.is_some()));
    number(out, 2, int);
    bytes(out, 3, text.unwrap_or_default().as_bytes());
    wrap(out, start, field);
}

/// Appends a value that is a string in JSON. Returns `None` if the string is not a value of this
/// kind.
fn text(kind: Kind, field: u64, text: &str, out: &mut Vec<u8>) -> Option<()> {
    let start = out.len();
    match kind {
        Kind::Text => bytes(out, field, text.as_bytes()),
        Kind::IntOrString => int_or_string(field, 0, Some(text), out),
        Kind::Quantity => {
            bytes(out, 1, text.as_bytes());
            wrap(out, start, field);
        }
        Kind::Time | Kind::MicroTime => {
            let time: jiff::Timestamp = text.parse().ok()?;
            let nanos = if kind == Kind::Time { 0 } else { time.subsec_nanosecond() / 1000 * 1000 };
            number(out, 1, time.as_second() as u64);
            number(out, 2, nanos as u64);
            wrap(out, start, field);
        }
        _ => return None,
    }
    Some(())
}

/// Encodes a JSON object as a message, without tag and length.
struct Object<'a> {
    of: &'a Message,
    out: &'a mut Vec<u8>,
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.of.name)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let start = self.out.len();
        let mut slots: Slots = vec![0..0; leaves(self.of).count()];
        while let Some(found) = map.next_key_seed(Name(self.of))? {
            let Some((slot, field)) = found else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let at = self.out.len();
            map.next_value_seed(One { field, shape: field.shape, out: self.out })?;
            slots[slot] = at..self.out.len();
        }
        let end = self.out.len();
        assemble(self.of, &mut slots.into_iter(), self.out);
        self.out.drain(start..end);
        Ok(())
    }
}

/// Looks up a member's field and its slot.
struct Name<'a>(&'a Message);

impl<'de, 'a> DeserializeSeed<'de> for Name<'a> {
    type Value = Option<(usize, &'a Field)>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_str(self)
    }
}

impl<'a> Visitor<'_> for Name<'a> {
    type Value = Option<(usize, &'a Field)>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the name of a field of {}", self.0.name)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(leaves(self.0).enumerate().find(|(_, field)| field.name == name))
    }
}

/// Encodes the value of a field, or one element of it if `shape` is `Shape::One`. Appends nothing
/// for null.
struct One<'a> {
    field: &'a Field,
    shape: Shape,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for One<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        if self.field.kind == Kind::Fields {
            let fields = Box::<RawValue>::deserialize(json)?;
            if fields.get() != "null" {
                let start = self.out.len();
                bytes(self.out, 1, fields.get().as_bytes());
                wrap(self.out, start, self.field.number);
            }
            return Ok(());
        }
        json.deserialize_any(self)
    }
}

impl One<'_> {
    fn wrong<E: Error>(&self, found: &str) -> E {
        E::custom(format_args!("{}: {found} where {:?} is expected", self.field.name, self.field.kind))
    }
}

impl<'de> Visitor<'de> for One<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a value of {}", self.field.name)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        if self.field.kind != Kind::Boolean {
            return Err(self.wrong("a boolean"));
        }
        number(self.out, self.field.number, u64::from(value));
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        match self.field.kind {
            // A negative int32 gets 64 bits.
            Kind::Integer => number(self.out, self.field.number, value as u64),
            Kind::IntOrString => int_or_string(self.field.number, value as u64, None, self.out),
            // A quantity may be a number.
            Kind::Quantity => return self.visit_str(&value.to_string()),
            _ => return Err(self.wrong("a number")),
        }
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.visit_i64(value as i64)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        match self.field.kind {
            Kind::Quantity => self.visit_str(&value.to_string()),
            _ => Err(self.wrong("a fraction")),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        text(self.field.kind, self.field.number, value, self.out).ok_or_else(|| self.wrong(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Self { field, shape, out } = self;
        if shape != Shape::List && field.kind != Kind::Texts {
            return Err(One { field, shape, out }.wrong("a list"));
        }
        if shape != Shape::List {
            // `ExtraValue` is a message with one repeated field.
            let start = out.len();
            while let Some(text) = list.next_element::<String>()? {
                bytes(out, 1, text.as_bytes());
            }
            wrap(out, start, field.number);
            return Ok(());
        }
        loop {
            let start = out.len();
            if list.next_element_seed(One { field, shape: Shape::One, out: &mut *out })?.is_none() {
                return Ok(());
            }
            if out.len() == start {
                zero(field.kind, field.number, out);
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { field, shape, out } = self;
        let start = out.len();
        if shape == Shape::Map {
            let entry = Field { number: 2, ..field.clone() };
            while let Some(key) = map.next_key::<String>()? {
                let start = out.len();
                bytes(out, 1, key.as_bytes());
                let value_at = out.len();
                map.next_value_seed(One { field: &entry, shape: Shape::One, out: &mut *out })?;
                if out.len() == value_at {
                    zero(field.kind, 2, out);
                }
                wrap(out, start, field.number);
            }
            return Ok(());
        }
        let Kind::Message(index) = field.kind else {
            return Err(One { field, shape, out }.wrong("an object"));
        };
        Object { of: table::message(index), out: &mut *out }.visit_map(map)?;
        wrap(out, start, field.number);
        Ok(())
    }
}
