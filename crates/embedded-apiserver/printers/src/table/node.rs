//! Rows of nodes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::view::{condition, flag, list, text, text_or};

/// Returns the cells of a node.
pub(super) fn cells(node: &Value, name: Value, age: Value) -> Vec<Value> {
    let mut kernel = text_or(node, "/status/nodeInfo/kernelVersion", "<unknown>").to_owned();
    let architecture = text(node, "/status/nodeInfo/architecture");
    if !architecture.is_empty() {
        kernel = format!("{kernel} ({architecture})");
    }
    vec![
        name,
        json!(status(node)),
        json!(roles(node)),
        age,
        json!(text(node, "/status/nodeInfo/kubeletVersion")),
        json!(address(node, "InternalIP")),
        json!(address(node, "ExternalIP")),
        json!(text_or(node, "/status/nodeInfo/osImage", "<unknown>")),
        json!(kernel),
        json!(text_or(node, "/status/nodeInfo/containerRuntimeVersion", "<unknown>")),
    ]
}

fn status(node: &Value) -> String {
    let ready = match condition(node, "Ready") {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let schedulable = if flag(node, "/spec/unschedulable") { ",SchedulingDisabled" } else { "" };
    format!("{ready}{schedulable}")
}

fn roles(node: &Value) -> String {
    let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
    let roles: BTreeSet<&str> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    if roles.is_empty() {
        return "<none>".to_owned();
    }
    roles.into_iter().collect::<Vec<_>>().join(",")
}

fn address<'a>(node: &'a Value, address_type: &str) -> &'a str {
    list(node, "/status/addresses")
        .iter()
        .find(|address| text(address, "/type") == address_type)
        .map_or("<none>", |address| text(address, "/address"))
}
