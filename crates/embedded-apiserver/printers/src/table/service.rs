//! Rows of services.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::view::{list, number, text, text_or};

/// Returns the cells of a service.
pub(super) fn cells(service: &Value, name: Value, age: Value) -> Vec<Value> {
    vec![
        name,
        json!(text(service, "/spec/type")),
        json!(text_or(service, "/spec/clusterIPs/0", "<none>")),
        json!(external_ip(service)),
        json!(ports(service)),
        age,
        json!(selector(service)),
    ]
}

fn external_ip(service: &Value) -> String {
    let external: Vec<&str> = list(service, "/spec/externalIPs").iter().filter_map(Value::as_str).collect();
    match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_owned(),
        "ClusterIP" | "NodePort" => external.join(","),
        "LoadBalancer" => {
            let ingress: BTreeSet<&str> = list(service, "/status/loadBalancer/ingress")
                .iter()
                .map(|ingress| text_or(ingress, "/ip", text(ingress, "/hostname")))
                .filter(|address| !address.is_empty())
                .collect();
            let all: Vec<&str> = ingress.into_iter().chain(external).collect();
            if all.is_empty() { "<pending>".to_owned() } else { all.join(",") }
        }
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

fn ports(service: &Value) -> String {
    let ports: Vec<String> = list(service, "/spec/ports")
        .iter()
        .map(|port| {
            let (number, node_port) = (number(port, "/port"), number(port, "/nodePort"));
            let protocol = text(port, "/protocol");
            if node_port > 0 {
                format!("{number}:{node_port}/{protocol}")
            } else {
                format!("{number}/{protocol}")
            }
        })
        .collect();
    if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") }
}

fn selector(service: &Value) -> String {
    let labels: Vec<String> = service
        .pointer("/spec/selector")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    if labels.is_empty() { "<none>".to_owned() } else { labels.join(",") }
}
