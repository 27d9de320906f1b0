//! Reads the file of `--config`: YAML with the flags as fields, in camel case.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use clap::{Arg, Command};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::fields::{self, Type};
use crate::similar::similar;

/// The `apiVersion` of the file.
pub(super) const API_VERSION: &str = "kube-endpoint-manager.config/v1alpha1";
/// The `kind` of the file.
pub(super) const KIND: &str = "KubeEndpointManagerConfiguration";

/// The most levels of nesting in a file. No flag needs more than a map of lists.
const DEEPEST: usize = 8;

/// The error of a file of `--config` that is unreadable or invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigFileError {
    /// The operating system refuses to read it.
    #[error("cannot read the configuration {path}: {why}")]
    Unreadable {
        path: PathBuf,
        /// The error of the operating system.
        why: String,
    },
    /// It has a mistake.
    #[error("{path}: line {line}: {why}")]
    Invalid {
        path: PathBuf,
        /// The line of the mistake; the first is 1.
        line: u64,
        /// The mistake, and the valid values.
        why: String,
    },
}

/// A field of the file.
pub(super) struct Field {
    pub(super) arg: Arg,
    pub(super) name: String,
    pub(super) line: u64,
    /// The values of the flag. A list has several.
    pub(super) values: Vec<OsString>,
}

/// Reads the fields of a file.
pub(super) fn read(path: &Path, command: &Command) -> Result<Vec<Field>, ConfigFileError> {
    let unreadable =
        |why: std::io::Error| ConfigFileError::Unreadable { path: path.into(), why: why.to_string() };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    parse(&text, command).map_err(|(line, why)| ConfigFileError::Invalid { path: path.into(), line, why })
}

fn parse(text: &str, command: &Command) -> Result<Vec<Field>, (u64, String)> {
    let options = serde_saphyr::options! { budget: serde_saphyr::budget! { max_depth: DEEPEST } };
    let document: Spanned<Value> = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        (line.max(1), syntax_error(&error.without_snippet().to_string()))
    })?;
    let Value::Map(entries) = document.value else {
        return Err((
            1,
            format!("expected fields such as apiVersion: {API_VERSION}, found {}", document.value),
        ));
    };
    let args: BTreeMap<String, &Arg> = fields::settable(command)
        .filter(|arg| arg.get_long() != Some("config"))
        .map(|arg| (fields::field_name(arg), arg))
        .collect();
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (name, value) in &entries {
        let line = name.referenced.line();
        let name = &*name.value;
        seen.insert(name);
        match (name, &value.value) {
            ("apiVersion", Value::Text(version)) if version == API_VERSION => continue,
            ("apiVersion", _) => return Err((line, format!("apiVersion has to be {API_VERSION}"))),
            ("kind", Value::Text(kind)) if kind == KIND => continue,
            ("kind", _) => return Err((line, format!("kind has to be {KIND}"))),
            _ => {}
        }
        let Some(arg) = args.get(name) else {
            let all: Vec<&str> = args.keys().map(String::as_str).collect();
            return Err((
                line,
                match similar(name, all.iter().copied()) {
                    Some(similar) => format!("unknown field {name}; did you mean {similar}?"),
                    None => {
                        format!("unknown field {name}; the fields are apiVersion, kind, {}", all.join(", "))
                    }
                },
            ));
        };
        let values =
            values(name, arg, value).map_err(|(line, why)| (line, format!("field {name}: {why}")))?;
        found.push(Field { arg: (*arg).clone(), name: name.to_owned(), line, values });
    }
    for (name, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        if !seen.contains(name) {
            return Err((1, format!("the field {name} is missing; write {name}: {wanted}")));
        }
    }
    Ok(found)
}

/// Returns the parser's explanation without the place, which the error states elsewhere, and
/// without names of the parser's own options.
fn syntax_error(explanation: &str) -> String {
    let text = explanation.split_whitespace().collect::<Vec<_>>().join(" ");
    if text.starts_with("budget breached: Depth") {
        return format!("values nest deeper than {DEEPEST} levels; no field needs more than a list or a map");
    }
    let text = text.rsplit_once(" at line ").map_or(&*text, |(text, _)| text);
    if text.starts_with("cannot deserialize null into string") {
        return "a field has no name".to_owned();
    }
    let duplicate = text.strip_prefix("duplicate mapping key: ").and_then(|rest| rest.split_once(", set "));
    duplicate.map_or_else(|| text.to_owned(), |(name, _)| format!("field {name} is given again"))
}

/// Returns the values of a field in the form of a command line.
fn values(name: &str, arg: &Arg, value: &Spanned<Value>) -> Result<Vec<OsString>, (u64, String)> {
    let expected = |what: &str, found: &Spanned<Value>| {
        (found.referenced.line(), format!("expected {what}, found {}", found.value))
    };
    match (Type::of(arg), &value.value) {
        (Type::Boolean, Value::Boolean(on)) => {
            fields::switch(arg, on.to_string().into()).map_err(|why| (value.referenced.line(), why))
        }
        (Type::Boolean, _) => Err(expected("true or false", value)),
        (Type::Whole, Value::Whole(number)) => Ok(vec![number.to_string().into()]),
        (Type::Whole, _) => Err(expected("a whole number", value)),
        (Type::Number, Value::Whole(number)) => Ok(vec![number.to_string().into()]),
        (Type::Number, Value::Number(number)) => Ok(vec![number.to_string().into()]),
        (Type::Number, _) => Err(expected("a number", value)),
        (Type::Text, Value::Text(text)) => Ok(vec![text.into()]),
        (Type::Text, Value::Whole(_) | Value::Number(_) | Value::Boolean(_)) => {
            Err(expected("text (put it in quotes)", value))
        }
        (Type::Text, _) => Err(expected("text", value)),
        (Type::List, Value::List(items)) if items.is_empty() => Ok(vec![OsString::new()]),
        (Type::List, Value::List(items)) => {
            let text = |item: &Spanned<Value>| match &item.value {
                Value::Text(text) => Ok(text.into()),
                _ => Err(expected("a list of texts", item)),
            };
            items.iter().map(text).collect()
        }
        (Type::List, Value::Map(entries)) if name == "featureGates" => {
            let gate = |(name, on): &(Spanned<String>, Spanned<Value>)| match on.value {
                Value::Boolean(on) => Ok(format!("{}={on}", name.value).into()),
                _ => Err(expected(&format!("true or false for {}", name.value), on)),
            };
            entries.iter().map(gate).collect()
        }
        (Type::List, _) => Err(expected("a list of texts", value)),
    }
}

/// A value of YAML.
#[derive(Clone, Debug)]
enum Value {
    Null,
    Boolean(bool),
    Whole(i128),
    Number(f64),
    Text(String),
    List(Vec<Spanned<Value>>),
    Map(Vec<(Spanned<String>, Spanned<Value>)>),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("nothing"),
            Self::Boolean(on) => write!(f, "{on}"),
            Self::Whole(number) => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::List(_) => f.write_str("a list"),
            Self::Map(_) => f.write_str("a map"),
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of YAML")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Boolean(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Whole(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Whole(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(Value::Whole(value))
    }

    fn visit_u128<E: serde::de::Error>(self, value: u128) -> Result<Value, E> {
        i128::try_from(value).map(Value::Whole).map_err(|_| E::custom("the number is too large"))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::Number(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            map.push(entry);
        }
        Ok(Value::Map(map))
    }
}
