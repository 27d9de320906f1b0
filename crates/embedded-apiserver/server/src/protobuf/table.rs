//! The table of messages, parsed once.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// What one value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Integer,
    Boolean,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    Fields,
    /// A message of this name.
    Message(&'static str),
}

/// How many of them a field has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    One,
    Optional,
    List,
    Map,
}

/// One field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) number: u64,
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) kind: Kind,
}

static MESSAGES: LazyLock<BTreeMap<&'static str, Vec<Field>>> = LazyLock::new(|| {
    let lines = include_str!("messages.txt").lines();
    lines.filter_map(|line| line.split_once(' ')).map(|(name, fields)| (name, parse(fields))).collect()
});

/// The fields of a message.
pub(super) fn message(name: &str) -> Option<&'static [Field]> {
    MESSAGES.get(name).map(Vec::as_slice)
}

fn parse(fields: &'static str) -> Vec<Field> {
    fields.split(' ').filter_map(field).collect()
}

fn field(text: &'static str) -> Option<Field> {
    let mut parts = text.splitn(3, ':');
    let (number, name, kind) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let shapes = [("*", Shape::Optional), ("[]", Shape::List), ("{}", Shape::Map)];
    let (shape, kind) = shapes
        .into_iter()
        .find_map(|(prefix, shape)| Some((shape, kind.strip_prefix(prefix)?)))
        .unwrap_or((Shape::One, kind));
    let kind = match kind {
        "s" => Kind::Text,
        "i" => Kind::Integer,
        "b" => Kind::Boolean,
        "T" => Kind::Time,
        "M" => Kind::MicroTime,
        "Q" => Kind::Quantity,
        "I" => Kind::IntOrString,
        "F" => Kind::Fields,
        message => Kind::Message(message),
    };
    Some(Field { number, name, shape, kind })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_understood_and_every_message_is_there() {
        let lines: Vec<_> = include_str!("messages.txt").lines().collect();
        assert_eq!(MESSAGES.len(), lines.len());
        for line in lines {
            let (name, fields) = line.split_once(' ').unwrap();
            let parsed = message(name).unwrap();
            assert_eq!(parsed.len(), fields.split(' ').count(), "{name}");
            for field in parsed {
                if let Kind::Message(of) = &field.kind {
                    assert!(message(of).is_some(), "{name} refers to {of}");
                }
            }
        }
    }
}
