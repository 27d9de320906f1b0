//! Checks values against a JSON Schema. It knows the keywords of `docs/explain.schema.json`, and
//! any other one fails a test.
#![allow(clippy::unwrap_used, reason = "a helper that panics fails its test")]

use std::cell::RefCell;
use std::collections::BTreeSet;

use kube_endpoint_core_model::Timestamp;
use serde_json::{Map, Value};

/// A schema, and what has been checked against it.
pub(crate) struct Schema {
    pub(crate) schema: Value,
    /// The fields that valid values had, each as `DEFINITION.FIELD`.
    pub(crate) seen: RefCell<BTreeSet<String>>,
}

/// A part of a schema, in a definition.
#[derive(Clone, Copy)]
struct Part<'s> {
    definition: &'s str,
    keywords: &'s Value,
}

impl Schema {
    pub(crate) fn of(schema: Value) -> Self {
        Self { schema, seen: RefCell::default() }
    }

    /// Returns the schema so that it refuses fields that it does not describe. The published one
    /// allows them, since later releases add some.
    pub(crate) fn closed(mut schema: Value) -> Self {
        for part in schema["$defs"].as_object_mut().unwrap().values_mut() {
            if part.get("properties").is_some() {
                part["additionalProperties"] = false.into();
            }
        }
        Self::of(schema)
    }

    /// Checks a document. An error says where it differs.
    pub(crate) fn check(&self, document: &Value) -> Result<(), String> {
        self.check_part(Part { definition: "", keywords: &self.schema }, document)
    }

    fn check_part(&self, part: Part<'_>, value: &Value) -> Result<(), String> {
        let Value::Object(keywords) = part.keywords else {
            return if *part.keywords == true { Ok(()) } else { Err(": not described".to_owned()) };
        };
        keywords.iter().try_for_each(|(keyword, wanted)| self.check_keyword(part, keyword, wanted, value))
    }

    fn check_keyword(
        &self,
        part: Part<'_>,
        keyword: &str,
        wanted: &Value,
        value: &Value,
    ) -> Result<(), String> {
        let inner = Part { keywords: wanted, ..part };
        match (keyword, value) {
            ("$ref", _) => {
                let definition = wanted.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                self.check_part(Part { definition, keywords: &self.schema["$defs"][definition] }, value)
            }
            ("oneOf", _) => self.check_one_of(part, wanted.as_array().unwrap(), value),
            ("properties", Value::Object(fields)) => self.check_fields(part, wanted, fields),
            ("items", Value::Array(items)) => items.iter().enumerate().try_for_each(|(i, item)| {
                self.check_part(inner, item).map_err(|error| format!("/{i}{error}"))
            }),
            ("additionalProperties", Value::Object(fields)) => {
                let described = &part.keywords["properties"];
                let mut others = fields.iter().filter(|(name, _)| described.get(name).is_none());
                others.try_for_each(|(name, field)| {
                    self.check_part(inner, field).map_err(|error| format!("/{name}{error}"))
                })
            }
            // `type` says that it should be an object or a list.
            ("properties" | "items" | "additionalProperties", _) => Ok(()),
            _ if is_valid(keyword, wanted, value) => Ok(()),
            _ => Err(format!(": {value} has not {keyword} {wanted}")),
        }
    }

    fn check_one_of(&self, part: Part<'_>, alternatives: &[Value], value: &Value) -> Result<(), String> {
        let check = |keywords| self.check_part(Part { keywords, ..part }, value);
        let errors: Vec<String> = alternatives.iter().filter_map(|keywords| check(keywords).err()).collect();
        match alternatives.len() - errors.len() {
            1 => Ok(()),
            // The alternative that is meant differs deepest.
            0 => Err(errors.into_iter().max_by_key(|error| depth(error)).unwrap()),
            several => Err(format!(": {several} alternatives hold")),
        }
    }

    fn check_fields(
        &self,
        part: Part<'_>,
        described: &Value,
        fields: &Map<String, Value>,
    ) -> Result<(), String> {
        let known = || fields.iter().filter_map(|(name, field)| Some((name, field, described.get(name)?)));
        for (name, field, keywords) in known() {
            let part = Part { keywords, ..part };
            self.check_part(part, field).map_err(|error| format!("/{name}{error}"))?;
        }
        let names = known().map(|(name, ..)| format!("{}.{name}", part.definition));
        self.seen.borrow_mut().extend(names);
        Ok(())
    }
}

/// Returns the number of steps in the path of an error.
fn depth(error: &str) -> usize {
    error.split(':').next().unwrap_or_default().matches('/').count()
}

/// Checks a keyword that is about the value alone.
fn is_valid(keyword: &str, wanted: &Value, value: &Value) -> bool {
    match keyword {
        "$schema" | "$id" | "$defs" | "title" | "description" => true,
        "type" => match wanted.as_str().unwrap() {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "null" => value.is_null(),
            other => panic!("the type {other} is not known here"),
        },
        "const" => value == wanted,
        "enum" => wanted.as_array().unwrap().contains(value),
        "minimum" => value.as_i64() >= wanted.as_i64(),
        "required" => {
            let mut names = wanted.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
            value.as_object().is_none_or(|fields| names.all(|name| fields.contains_key(name)))
        }
        "format" => value.as_str().is_none_or(|text| text.parse::<Timestamp>().is_ok()),
        other => panic!("the keyword {other} is not known here"),
    }
}
