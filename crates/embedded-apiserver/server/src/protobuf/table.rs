//! The table of messages, parsed once.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The type of one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Integer,
    Boolean,
    Time,
    MicroTime,
    Quantity,
    IntOrString,
    /// `FieldsV1`: raw JSON.
    Fields,
    /// `ExtraValue`: a message of repeated strings, in JSON a list.
    Texts,
    /// A message, by its index; see [`message`].
    Message(usize),
}

/// The shape of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// One value, which Go always encodes.
    One,
    /// A pointer in Go: absent or one value.
    Optional,
    List,
    Map,
    /// An embedded struct in Go: its JSON members are members of the message that contains it.
    Inline,
}

/// One field of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) number: u64,
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) kind: Kind,
}

/// One message.
#[derive(Debug)]
pub(super) struct Message {
    pub(super) name: &'static str,
    /// Sorted by number, the order in which Go encodes them.
    pub(super) fields: Vec<Field>,
}

struct Table {
    messages: Vec<Message>,
    by_name: BTreeMap<&'static str, usize>,
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let lines: Vec<_> =
        include_str!("messages.txt").lines().filter_map(|line| line.split_once(' ')).collect();
    let by_name = lines.iter().enumerate().map(|(index, (name, _))| (*name, index)).collect();
    let fields = |text: &'static str| text.split(' ').filter_map(|field| parse(field, &by_name)).collect();
    let messages = lines.iter().map(|(name, text)| Message { name, fields: fields(text) }).collect();
    Table { messages, by_name }
});

/// Returns the message of a kind: one of its group, or one of `meta/v1` that every group has, such
/// as `DeleteOptions`.
pub(super) fn of_kind(api_version: &str, kind: &str) -> Option<&'static Message> {
    let group = api_version.split_once('/').map_or("core", |(group, _)| group);
    let package = group.split('.').next().unwrap_or_default();
    let index = |package: &str| TABLE.by_name.get(format!("{package}.{kind}").as_str());
    index(package).or_else(|| index("meta")).map(|index| message(*index))
}

/// Returns the message with the index that a [`Kind::Message`] holds.
pub(super) fn message(index: usize) -> &'static Message {
    &TABLE.messages[index]
}

fn parse(text: &'static str, by_name: &BTreeMap<&str, usize>) -> Option<Field> {
    let mut parts = text.splitn(3, ':');
    let (number, name, kind) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let shapes = [("*", Shape::Optional), ("[]", Shape::List), ("{}", Shape::Map)];
    let (shape, kind) = shapes
        .into_iter()
        .find_map(|(prefix, shape)| Some((shape, kind.strip_prefix(prefix)?)))
        .unwrap_or((if name == "." { Shape::Inline } else { Shape::One }, kind));
    let kind = match kind {
        "s" => Kind::Text,
        "i" => Kind::Integer,
        "b" => Kind::Boolean,
        "T" => Kind::Time,
        "M" => Kind::MicroTime,
        "Q" => Kind::Quantity,
        "I" => Kind::IntOrString,
        "F" => Kind::Fields,
        "E" => Kind::Texts,
        message => Kind::Message(*by_name.get(message)?),
    };
    Some(Field { number, name, shape, kind })
}

#[cfg(test)]
pub(super) fn all() -> &'static [Message] {
    &TABLE.messages
}

#[cfg(test)]
mod tests {
    use kube_endpoint_apiserver_rules::resource;

    use super::*;

    #[test]
    fn every_line_parses() {
        let lines: Vec<_> = include_str!("messages.txt").lines().collect();
        assert_eq!(all().len(), lines.len());
        for (line, parsed) in lines.iter().zip(all()) {
            let (name, fields) = line.split_once(' ').unwrap();
            assert_eq!((parsed.name, parsed.fields.len()), (name, fields.split(' ').count()));
            assert!(parsed.fields.is_sorted_by(|a, b| a.number < b.number), "{name}");
        }
    }

    #[test]
    fn every_resource_and_every_list_has_a_message() {
        for resource in resource::all().filter(|resource| !resource.is_custom()) {
            let found = of_kind(&resource.api_version(), resource.kind).unwrap();
            assert!(found.name.ends_with(&format!(".{}", resource.kind)));
            if resource.is_stored() {
                assert!(of_kind(&resource.api_version(), &format!("{}List", resource.kind)).is_some());
            }
        }
        for kind in ["Status", "DeleteOptions"] {
            assert_eq!(of_kind("v1", kind).unwrap().name, format!("meta.{kind}"));
        }
        assert_eq!(of_kind("policy/v1", "DeleteOptions").unwrap().name, "meta.DeleteOptions");
        assert!(of_kind("v1", "Secret").is_none());
    }
}
