//! Structural schemas of custom resources, after `apiextensions-apiserver/pkg/apiserver/schema` and
//! `kube-openapi/pkg/validation/validate`.

use serde_json::Value;

use crate::validation::{Errors, Path};

/// The schema of a value.
pub(super) enum Schema {
    Object {
        fields: &'static [(&'static str, Self)],
        required: &'static [&'static str],
    },
    /// An object with any keys.
    Map {
        values: &'static Self,
        most: usize,
    },
    List {
        items: &'static Self,
        most: usize,
    },
    Text {
        /// The most bytes.
        longest: usize,
        pattern: Option<Pattern>,
    },
    OneOf(&'static [&'static str]),
    Integer,
}

/// A pattern of a text: as the schema has it, and as a function.
#[derive(Clone, Copy)]
pub(super) struct Pattern {
    pub(super) text: &'static str,
    pub(super) matches: fn(&str) -> bool,
}

/// Removes the fields that the schema does not have, and nulls. Adds the warning about each unknown
/// field.
pub(super) fn prune(schema: &Schema, value: &mut Value, at: &str, unknown: &mut Vec<String>) {
    match (schema, value) {
        (Schema::Object { fields, .. }, Value::Object(map)) => {
            map.retain(|key, value| {
                let place = format!("{at}.{key}");
                let Some((_, schema)) = fields.iter().find(|(name, _)| name == key) else {
                    unknown.push(format!("unknown field \"{place}\""));
                    return false;
                };
                prune(schema, value, &place, unknown);
                !value.is_null()
            });
        }
        (Schema::Map { values, .. }, Value::Object(map)) => {
            map.values_mut().for_each(|value| prune(values, value, at, unknown));
        }
        (Schema::List { items, .. }, Value::Array(list)) => {
            for (index, item) in list.iter_mut().enumerate() {
                prune(items, item, &format!("{at}[{index}]"), unknown);
            }
        }
        // An object that should be a list has no field that the schema knows.
        (Schema::List { .. }, Value::Object(map)) => {
            unknown.extend(map.keys().map(|key| format!("unknown field \"{at}.{key}\"")));
            map.clear();
        }
        _ => {}
    }
}

/// Validates a value. Returns false if the server does not go on to the rules of the schema.
pub(super) fn validate(schema: &Schema, value: &Value, at: &Path<'_>, errors: &mut Errors) -> bool {
    let mut goes_on = true;
    match (schema, value) {
        (Schema::Object { fields, required }, Value::Object(map)) => {
            for (name, schema) in *fields {
                if let Some(value) = map.get(*name) {
                    goes_on &= validate(schema, value, &at.child(name), errors);
                }
            }
            for name in required.iter().filter(|name| !map.contains_key(**name)) {
                errors.required(&at.child(name), "");
                goes_on = false;
            }
        }
        (Schema::Map { values, most }, Value::Object(map)) => {
            if map.len() > *most {
                errors.too_many(at, map.len(), *most);
                goes_on = false;
            }
            for (key, value) in map {
                goes_on &= validate(values, value, &at.child(key), errors);
            }
        }
        (Schema::List { items, most }, Value::Array(list)) => {
            if list.len() > *most {
                errors.too_many(at, list.len(), *most);
                goes_on = false;
            }
            for (index, item) in list.iter().enumerate() {
                goes_on &= validate(items, item, &at.index(index), errors);
            }
        }
        (Schema::Text { longest, pattern }, Value::String(text)) => {
            if text.len() > *longest {
                errors.too_long(at, *longest);
                goes_on = false;
            }
            if let Some(pattern) = pattern.filter(|pattern| !(pattern.matches)(text)) {
                errors.invalid(at, text, &format!("{at} in body should match '{}'", pattern.text));
            }
        }
        (Schema::OneOf(values), Value::String(text)) => {
            if !values.contains(&text.as_str()) {
                errors.not_supported(at, text, values);
                goes_on = false;
            }
        }
        (Schema::Integer, Value::Number(number)) if number.is_i64() => {}
        (schema, value) => {
            errors.wrong_type(at, type_of(value), schema.type_name());
            goes_on = false;
        }
    }
    goes_on
}

impl Schema {
    fn type_name(&self) -> &'static str {
        match self {
            Self::Object { .. } | Self::Map { .. } => "object",
            Self::List { .. } => "array",
            Self::Text { .. } | Self::OneOf(_) => "string",
            Self::Integer => "integer",
        }
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
