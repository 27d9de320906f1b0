//! Prints objects as text: some lines for each slice, Endpoints and Event, and YAML for anything
//! else.

use std::fmt::{self, Formatter};

use kube_endpoint_core_model::display::PlannedObject;
use kube_endpoint_core_model::well_known::LABEL_MANAGED_BY;
use kube_endpoint_core_model::{EndpointSlice, Endpoints};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Writes a value.
pub(crate) fn write(f: &mut Formatter<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Array(items) if items.iter().all(is_known) => {
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    writeln!(f)?;
                }
                object(f, item)?;
            }
            Ok(())
        }
        value if is_known(value) => object(f, value),
        value => yaml(f, value, 0),
    }
}

fn is_known(value: &Value) -> bool {
    matches!(value["kind"].as_str(), Some("EndpointSlice" | "Endpoints" | "Event"))
}

fn object(f: &mut Formatter<'_>, object: &Value) -> fmt::Result {
    match object["kind"].as_str() {
        Some("EndpointSlice") => planned::<EndpointSlice>(f, object),
        Some("Endpoints") => planned::<Endpoints>(f, object),
        _ => event(f, object),
    }
}

/// Writes an object that plans write, as [`Writes`](kube_endpoint_core_model::Writes) does.
fn planned<T: PlannedObject + DeserializeOwned>(f: &mut Formatter<'_>, object: &Value) -> fmt::Result {
    let mut readable = object.clone();
    if let Some(metadata) = readable["metadata"].as_object_mut() {
        // The output does not contain these fields, which are redacted.
        for field in ["resourceVersion", "creationTimestamp", "deletionTimestamp"] {
            metadata.remove(field);
        }
    }
    let Ok(view) = T::deserialize(&readable) else { return yaml(f, object, 0) };
    write!(f, "{} {}", text(&object["kind"]), view.metadata().key())?;
    view.fmt_heading(f)?;
    writeln!(f)?;
    if let Some(manager) = object["metadata"]["labels"][LABEL_MANAGED_BY].as_str() {
        writeln!(f, "  managed by {manager}")?;
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        writeln!(f, "  being deleted")?;
    }
    view.fmt_body(f)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn event(f: &mut Formatter<'_>, event: &Value) -> fmt::Result {
    let about = &event["involvedObject"];
    let count = event["count"].as_i64().filter(|count| *count > 1);
    let count = count.map(|count| format!(" (x{count})")).unwrap_or_default();
    writeln!(
        f,
        "Event on {} {}/{}: {} {}{count} {}",
        text(&about["kind"]),
        text(&about["namespace"]),
        text(&about["name"]),
        text(&event["type"]),
        text(&event["reason"]),
        text(&event["message"])
    )
}

/// Writes a value as YAML.
fn yaml(f: &mut Formatter<'_>, value: &Value, indent: usize) -> fmt::Result {
    match value {
        Value::Object(fields) if !fields.is_empty() => yaml_fields(f, fields, indent, false),
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                write!(f, "{:indent$}- ", "")?;
                match item {
                    Value::Object(fields) if !fields.is_empty() => yaml_fields(f, fields, indent + 2, true)?,
                    Value::Array(inner) if !inner.is_empty() => {
                        writeln!(f)?;
                        yaml(f, item, indent + 2)?;
                    }
                    item => writeln!(f, "{}", scalar(item))?,
                }
            }
            Ok(())
        }
        value => writeln!(f, "{}", scalar(value)),
    }
}

/// Writes the fields of an object; the first may continue a line.
fn yaml_fields(
    f: &mut Formatter<'_>,
    fields: &Map<String, Value>,
    indent: usize,
    mut continues: bool,
) -> fmt::Result {
    for (key, value) in fields {
        if !std::mem::take(&mut continues) {
            write!(f, "{:indent$}", "")?;
        }
        write!(f, "{}:", scalar(&Value::from(key.as_str())))?;
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                writeln!(f)?;
                yaml(f, value, indent + 2)?;
            }
            Value::Array(inner) if !inner.is_empty() => {
                writeln!(f)?;
                yaml(f, value, indent)?;
            }
            value => writeln!(f, " {}", scalar(value))?,
        }
    }
    Ok(())
}

/// Returns a scalar in YAML. It quotes strings that YAML would read as something else.
fn scalar(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./ ()%".contains(c))
        && !text.ends_with(' ')
        && !matches!(
            &*text.to_lowercase(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if plain { text.clone() } else { value.to_string() }
}
