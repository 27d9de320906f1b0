//! Decodes parsed JSON into a canonical object by the table of its type, with Go's errors.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::resource::Resource;
use crate::schema::{Field, GoType, Presence, Shape};
use crate::status::Status;
use crate::times;
use crate::value::{Fields, MAX_DEPTH, depth, json_type};

use super::{WithWarnings, cannot_be_handled};

/// The maximum number of unknown fields that the real server reports.
const MAX_UNKNOWN: usize = 100;

/// Decodes `body` as `resource`'s kind; see [`super::decode`].
pub(super) fn decode(resource: &Resource, body: Value) -> Result<WithWarnings, Status> {
    let kind = body.text("kind").to_owned();
    let api_version = body.text("apiVersion").to_owned();
    let body = if body.is_null() { Value::Object(Map::new()) } else { body };
    for field in ["kind", "apiVersion"] {
        let value = &body[field];
        if !value.is_null() && !value.is_string() {
            return Err(Status::bad_request(format!(
                "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse \
                 error: json: cannot unmarshal {} into Go struct field .{field} of type string",
                resource.kind,
                json_type(value)
            )));
        }
    }
    let Value::Object(mut map) = body else {
        return Err(Status::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): couldn't get version/kind; json parse \
             error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
             \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            resource.kind,
            json_type(&body)
        )));
    };
    check_type(resource, &api_version, &kind)?;
    map.insert("apiVersion".to_owned(), resource.api_version().into());
    map.insert("kind".to_owned(), resource.kind.into());
    let mut walk = Walk { path: Vec::with_capacity(16), unknown: Vec::new() };
    let mut object = walk.object(resource.go_type, map).map_err(|why| cannot_be_handled(resource, &why))?;
    let mut warnings = walk.unknown;
    warnings.extend(resource.strategy.drop_unknown_fields(&mut object));
    Ok(WithWarnings { object, warnings })
}

/// Rejects an object of another kind or version. Absent ones follow from the path, as on the real
/// server.
fn check_type(resource: &Resource, api_version: &str, kind: &str) -> Result<(), Status> {
    if !api_version.is_empty() && !kind.is_empty() && crate::resource::by_kind(api_version, kind).is_none() {
        let version = api_version.split_once('/').map_or(api_version, |(_, version)| version);
        return Err(Status::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {}: no kind {kind:?} is registered for version \
             {api_version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            resource.kind
        )));
    }
    if !kind.is_empty() && kind != resource.kind {
        return Err(Status::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: converting (v1.{kind}) to (core.{}): unknown \
             conversion",
            resource.version, resource.kind, resource.kind
        )));
    }
    let expected = resource.api_version();
    if !api_version.is_empty() && api_version != expected {
        return Err(Status::bad_request(format!(
            "the API version in the data ({api_version}) does not match the expected API version ({expected})"
        )));
    }
    Ok(())
}

/// One segment of a path.
enum Step {
    Field(&'static str, &'static str),
    Key(String),
    Index(usize),
}

struct Walk {
    path: Vec<Step>,
    unknown: Vec<String>,
}

type Walked = Result<Value, String>;

impl Walk {
    fn object(&mut self, go_type: &'static GoType, mut map: Map<String, Value>) -> Walked {
        let mut out = Map::new();
        for field in go_type.fields {
            let given = if map.is_empty() { None } else { map.remove(field.name) };
            if let Some(value) = self.field(go_type, field, given)? {
                out.insert(field.name.to_owned(), value);
            }
        }
        for key in map.keys() {
            if self.unknown.len() < MAX_UNKNOWN {
                let place = self.place();
                let dot = if place.is_empty() { "" } else { "." };
                self.unknown.push(format!("unknown field \"{place}{dot}{key}\""));
            }
        }
        Ok(Value::Object(out))
    }

    fn field(
        &mut self,
        go_type: &'static GoType,
        field: &'static Field,
        given: Option<Value>,
    ) -> Result<Option<Value>, String> {
        let Some(given) = given.filter(|v| !v.is_null()) else {
            return match field.presence {
                Presence::Keep => self.zero(&field.shape).map(Some),
                Presence::Omit | Presence::Opt => Ok(None),
            };
        };
        self.path.push(Step::Field(go_type.name, field.name));
        let value = self.value(&field.shape, given)?;
        self.path.pop();
        Ok(match field.presence {
            Presence::Omit if is_zero(&value) => None,
            Presence::Keep if matches!(field.shape, Shape::List(_) | Shape::Map(_)) && is_zero(&value) => {
                Some(Value::Null)
            }
            _ => Some(value),
        })
    }

    fn value(&mut self, shape: &'static Shape, value: Value) -> Walked {
        match (shape, value) {
            // The parser refuses these in JSON bodies; patches and protobuf can still make them.
            (Shape::Any, value) if self.path.len() + depth(&value) > MAX_DEPTH => {
                Err("json: exceeded max depth".to_owned())
            }
            (Shape::Any, value)
            | (Shape::Text(_) | Shape::IntOrString, value @ Value::String(_))
            | (Shape::Bool, value @ Value::Bool(_)) => Ok(value),
            (Shape::Int64, Value::Number(n)) if n.is_i64() => Ok(Value::Number(n)),
            (Shape::Int32 | Shape::IntOrString, Value::Number(n))
                if n.as_i64().is_some_and(|n| i32::try_from(n).is_ok()) =>
            {
                Ok(Value::Number(n))
            }
            (Shape::Object(go_type), Value::Object(map)) => self.object(go_type, map),
            (Shape::List(item), Value::Array(values)) => self.list(item, values),
            (Shape::Map(item), Value::Object(map)) => self.map(item, map),
            (Shape::Time, Value::String(text)) => canonical(text, times::seconds),
            (Shape::MicroTime, Value::String(text)) => canonical(text, times::micros),
            (Shape::Quantity, Value::String(text)) => quantity(text),
            (Shape::Quantity, Value::Number(n)) => quantity(n.to_string()),
            (Shape::Quantity, _) => quantity(String::new()),
            (Shape::Time | Shape::MicroTime, other) => {
                Err(format!("json: cannot unmarshal {} into Go value of type string", json_type(&other)))
            }
            (Shape::IntOrString, other) => {
                Err(format!("json: cannot unmarshal {} into Go value of type int32", json_type(&other)))
            }
            (shape, other) => Err(self.mismatch(shape, &other)),
        }
    }

    fn list(&mut self, item: &'static Shape, values: Vec<Value>) -> Walked {
        let mut out = Vec::with_capacity(values.len());
        for (index, value) in values.into_iter().enumerate() {
            self.path.push(Step::Index(index));
            out.push(if value.is_null() { self.zero(item)? } else { self.value(item, value)? });
            self.path.pop();
        }
        Ok(Value::Array(out))
    }

    fn map(&mut self, item: &'static Shape, map: Map<String, Value>) -> Walked {
        // Labels and annotations, the common case, keep their map.
        if matches!(item, Shape::Text(_)) && map.values().all(Value::is_string) {
            return Ok(Value::Object(map));
        }
        let mut out = Map::new();
        for (key, value) in map {
            self.path.push(Step::Key(key.clone()));
            let value = if value.is_null() { self.zero(item)? } else { self.value(item, value)? };
            self.path.pop();
            out.insert(key, value);
        }
        Ok(Value::Object(out))
    }

    /// Returns the zero value as Go prints it.
    fn zero(&mut self, shape: &'static Shape) -> Walked {
        Ok(match shape {
            Shape::Text(_) => "".into(),
            Shape::Bool => false.into(),
            Shape::Int32 | Shape::Int64 | Shape::IntOrString => 0.into(),
            Shape::Quantity => "0".into(),
            Shape::Object(go_type) => self.object(go_type, Map::new())?,
            Shape::Time | Shape::MicroTime | Shape::Any | Shape::List(_) | Shape::Map(_) => Value::Null,
        })
    }

    /// Returns Go's error for a value of the wrong type: the innermost struct, the path without
    /// indexes, the type.
    fn mismatch(&self, shape: &Shape, found: &Value) -> String {
        let mut fields = String::new();
        let mut innermost = "";
        for step in &self.path {
            if let Step::Field(go_type, name) = step {
                innermost = go_type;
                let dot = if fields.is_empty() { "" } else { "." };
                let _ = write!(fields, "{dot}{name}");
            }
        }
        let found = match found {
            Value::Number(n) if matches!(shape, Shape::Int32 | Shape::Int64) => format!("number {n}"),
            other => json_type(other).to_owned(),
        };
        format!(
            "json: cannot unmarshal {found} into Go struct field {innermost}.{fields} of type {}",
            shape.go_name()
        )
    }

    /// Returns the current path with indexes and keys, as strict decoding prints it.
    fn place(&self) -> String {
        let mut place = String::new();
        for step in &self.path {
            let dot = if place.is_empty() { "" } else { "." };
            let _ = match step {
                Step::Field(_, name) => write!(place, "{dot}{name}"),
                Step::Key(key) => write!(place, "{dot}{key}"),
                Step::Index(index) => write!(place, "[{index}]"),
            };
        }
        place
    }
}

fn canonical(text: String, form: impl Fn(&str) -> Result<String, String>) -> Walked {
    let canonical = form(&text)?;
    // Most texts are canonical already, which saves an allocation.
    Ok(Value::String(if canonical == text { text } else { canonical }))
}

/// Checks the syntax of a quantity. This server stores it as written; the real server stores a
/// canonical form.
fn quantity(text: String) -> Walked {
    let number = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let suffix = number.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let exponent = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if suffix.len() < number.len() && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(Value::String(text));
    }
    Err("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        .to_owned())
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Number(n) => n.as_i64() == Some(0),
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
    }
}
