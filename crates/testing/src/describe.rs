//! Objects as text: some lines for each slice, Endpoints and Event, and YAML for anything else.

use std::fmt::{self, Formatter};

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
        Some("EndpointSlice") => slice(f, object),
        Some("Endpoints") => endpoints(f, object),
        _ => event(f, object),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn heading(f: &mut Formatter<'_>, object: &Value) -> fmt::Result {
    let metadata = &object["metadata"];
    write!(f, "{} {}/{}", text(&object["kind"]), text(&metadata["namespace"]), text(&metadata["name"]))
}

fn labels_and_annotations(f: &mut Formatter<'_>, object: &Value) -> fmt::Result {
    for what in ["labels", "annotations"] {
        for (key, value) in object["metadata"][what].as_object().into_iter().flatten() {
            writeln!(f, "  {}: {key}={}", what.trim_end_matches('s'), text(value))?;
        }
    }
    Ok(())
}

fn slice(f: &mut Formatter<'_>, slice: &Value) -> fmt::Result {
    heading(f, slice)?;
    writeln!(f, " {}", text(&slice["addressType"]))?;
    labels_and_annotations(f, slice)?;
    for port in list(&slice["ports"]) {
        writeln!(f, "  port: {}", port_text(port))?;
    }
    for endpoint in list(&slice["endpoints"]) {
        let addresses: Vec<&str> = list(&endpoint["addresses"]).iter().map(text).collect();
        write!(f, "  {}", addresses.join(" "))?;
        let conditions = &endpoint["conditions"];
        for condition in ["ready", "serving", "terminating"] {
            match conditions[condition].as_bool() {
                Some(true) => write!(f, " {condition}")?,
                Some(false) => write!(f, " !{condition}")?,
                None => {}
            }
        }
        place(f, endpoint)?;
        for (what, hints) in [("zones", "forZones"), ("nodes", "forNodes")] {
            let names: Vec<&str> =
                list(&endpoint["hints"][hints]).iter().map(|one| text(&one["name"])).collect();
            if !names.is_empty() {
                write!(f, " for {what} {}", names.join(","))?;
            }
        }
        writeln!(f)?;
    }
    Ok(())
}

fn endpoints(f: &mut Formatter<'_>, endpoints: &Value) -> fmt::Result {
    heading(f, endpoints)?;
    writeln!(f)?;
    labels_and_annotations(f, endpoints)?;
    for subset in list(&endpoints["subsets"]) {
        let ports: Vec<String> = list(&subset["ports"]).iter().map(port_text).collect();
        writeln!(f, "  subset: {}", ports.join(", "))?;
        for (state, addresses) in [("ready", "addresses"), ("!ready", "notReadyAddresses")] {
            for address in list(&subset[addresses]) {
                write!(f, "    {} {state}", text(&address["ip"]))?;
                place(f, address)?;
                writeln!(f)?;
            }
        }
    }
    Ok(())
}

/// Where an endpoint is and what stands behind it.
fn place(f: &mut Formatter<'_>, endpoint: &Value) -> fmt::Result {
    if let Some(hostname) = endpoint["hostname"].as_str() {
        write!(f, " hostname {hostname}")?;
    }
    if endpoint["targetRef"].is_object() {
        let target = &endpoint["targetRef"];
        write!(f, " {} {}", text(&target["kind"]).to_lowercase(), text(&target["name"]))?;
    }
    for (what, field) in [("node", "nodeName"), ("zone", "zone")] {
        if let Some(name) = endpoint[field].as_str() {
            write!(f, " {what} {name}")?;
        }
    }
    Ok(())
}

fn port_text(port: &Value) -> String {
    let number = port["port"].as_i64().map_or("all".to_owned(), |number| number.to_string());
    let protocol = port["protocol"].as_str().unwrap_or("TCP");
    let mut parts = vec![format!("{number}/{protocol}")];
    parts.extend(port["name"].as_str().filter(|name| !name.is_empty()).map(str::to_owned));
    parts.extend(port["appProtocol"].as_str().map(str::to_owned));
    parts.join(" ")
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

/// A scalar in YAML; strings that YAML would read as something else are quoted.
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
