//! Deserialises strings in place: it parses a string without a copy, and copies a string that it
//! keeps once.
//!
//! serde deserialises a `Cow<str>` always as a `String`. That is one more copy for each string of
//! each object of a list.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Error, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::Text;

/// Deserialises an optional string with `read`, which borrows it from the input. `null` becomes
/// `None`.
///
/// # Errors
///
/// The error of `read`, or an error if the value is not a string.
pub(crate) fn through<'de, D, T, E>(
    deserializer: D,
    read: impl FnOnce(&str) -> Result<T, E>,
) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    E: fmt::Display,
{
    deserializer.deserialize_option(InPlace { read, result: PhantomData })
}

struct InPlace<F, T> {
    read: F,
    result: PhantomData<T>,
}

impl<'de, F: FnOnce(&str) -> Result<T, E>, T, E: fmt::Display> Visitor<'de> for InPlace<F, T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_none<R>(self) -> Result<Option<T>, R> {
        Ok(None)
    }

    fn visit_unit<R>(self) -> Result<Option<T>, R> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<T>, D::Error> {
        deserializer.deserialize_str(self)
    }

    fn visit_str<R: Error>(self, text: &str) -> Result<Option<T>, R> {
        (self.read)(text).map(Some).map_err(R::custom)
    }
}

fn kept(text: &str) -> Result<Text, std::convert::Infallible> {
    // An empty string has no allocation.
    Ok(if text.is_empty() { Text::default() } else { Text::from(text) })
}

/// Deserialises an optional string.
pub(crate) fn optional<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Text>, D::Error> {
    through(deserializer, kept)
}

/// Deserialises the second string of an optional list, and keeps no other.
pub(crate) fn second<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Text>, D::Error> {
    deserializer.deserialize_option(Second)
}

struct Second;

impl<'de> Visitor<'de> for Second {
    type Value = Option<Text>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of strings")
    }

    fn visit_none<E>(self) -> Result<Option<Text>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<Text>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Text>, D::Error> {
        deserializer.deserialize_seq(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Option<Text>, A::Error> {
        items.next_element::<IgnoredAny>()?;
        let second = items.next_element::<OrEmpty>()?;
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(second.map(|OrEmpty(text)| text))
    }
}

/// Deserialises a string. As in Go, `null` becomes the empty string.
pub(crate) fn or_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
    Ok(optional(deserializer)?.unwrap_or_default())
}

/// Deserialises an optional string. The empty string becomes `None`.
pub(crate) fn non_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Text>, D::Error> {
    Ok(optional(deserializer)?.filter(|text| !text.is_empty()))
}

/// Deserialises a list of strings. `null` becomes an empty list.
pub(crate) fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Text>, D::Error> {
    let items = Option::<Vec<OrEmpty>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(items.into_iter().map(|OrEmpty(text)| text).collect())
}

/// A string that deserialises with [`or_empty`].
#[derive(Deserialize)]
pub(crate) struct OrEmpty(#[serde(deserialize_with = "or_empty")] pub(crate) Text);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Deserialize)]
    #[serde(default)]
    struct Texts {
        #[serde(deserialize_with = "or_empty")]
        name: Text,
        #[serde(deserialize_with = "non_empty")]
        node: Option<Text>,
        #[serde(deserialize_with = "optional")]
        port: Option<Text>,
        #[serde(deserialize_with = "list")]
        addresses: Vec<Text>,
    }

    impl Default for Texts {
        fn default() -> Self {
            Self { name: "absent".into(), node: None, port: None, addresses: Vec::new() }
        }
    }

    #[test]
    fn strings_nulls_and_escapes_read_the_same_from_text_and_from_a_tree() {
        let check = |json: &str, want: (&str, Option<&str>, Option<&str>, &[&str])| {
            let want = Texts {
                name: want.0.into(),
                node: want.1.map(Into::into),
                port: want.2.map(Into::into),
                addresses: want.3.iter().map(|text| Text::from(*text)).collect(),
            };
            assert_eq!(serde_json::from_str::<Texts>(json).unwrap(), want, "{json}");
            assert_eq!(serde_json::from_reader::<_, Texts>(json.as_bytes()).unwrap(), want, "{json}");
            let tree: serde_json::Value = serde_json::from_str(json).unwrap();
            assert_eq!(serde_json::from_value::<Texts>(tree).unwrap(), want, "{json}");
        };
        check("{}", ("absent", None, None, &[]));
        check(r#"{"name":null,"node":null,"port":null,"addresses":null}"#, ("", None, None, &[]));
        check(r#"{"name":"","node":"","port":"","addresses":[]}"#, ("", None, Some(""), &[]));
        check(
            r#"{"name":"a\"b","node":"\u00e9","port":"c","addresses":["d",null,"\n"]}"#,
            ("a\"b", Some("é"), Some("c"), &["d", "", "\n"]),
        );
    }

    #[test]
    fn any_other_type_is_an_error_that_names_it() {
        let error = serde_json::from_str::<Texts>(r#"{"name":7}"#).unwrap_err().to_string();
        assert_eq!(error, "invalid type: integer `7`, expected a string at line 1 column 9");
    }
}
