//! Prints a line for each created, updated or deleted EndpointSlice and Endpoints object, and for
//! each change of an EndpointSelector.

use std::sync::Arc;

use kube_endpoint_core_model::{EndpointSelector, EndpointSlice, Endpoints, ObjectKey, harmless};
use kube_endpoint_informer::{Change, Cluster, Handler};

use crate::ManagerHandle;

/// The most characters of a line: a slice may have 20,000 ports.
const LONGEST_LINE: usize = 1000;

/// Calls `print` with a line for each EndpointSlice, Endpoints object and EndpointSelector that any
/// client creates, updates or deletes, except objects that exist before the caches have synced.
/// `print` runs during updates of the caches, so it must not block: see
/// [`LinePrinter`](crate::LinePrinter).
pub fn print_writes(manager: &ManagerHandle, print: impl Fn(String) + Clone + Send + Sync + 'static) {
    manager.add_handler(move |cluster| {
        Arc::new(WritePrinter { cluster: cluster.clone(), print: print.clone() })
    });
}

struct WritePrinter<F> {
    cluster: Cluster,
    print: F,
}

impl<F: Fn(String)> WritePrinter<F> {
    fn print(&self, line: &str) {
        (self.print)(harmless(line, LONGEST_LINE).into_owned());
    }
}

impl<F: Fn(String) + Send + Sync> Handler for WritePrinter<F> {
    fn wants_pods(&self) -> bool {
        false
    }

    fn on_endpoint_slice(&self, change: &Change<EndpointSlice>) {
        if self.cluster.has_synced() {
            self.print(&slice_line(change));
        }
    }

    fn on_endpoints(&self, change: &Change<Endpoints>) {
        if self.cluster.has_synced() {
            self.print(&endpoints_line(change));
        }
    }

    fn on_endpoint_selector(&self, change: &Change<EndpointSelector>, _: &[ObjectKey]) {
        if self.cluster.has_synced() {
            self.print(&selector_line(change));
        }
    }
}

fn verb<T>(change: &Change<T>) -> &'static str {
    match (&change.old, &change.new) {
        (None, _) => "created",
        (_, None) => "deleted",
        _ => "updated",
    }
}

fn slice_line(change: &Change<EndpointSlice>) -> String {
    let Some(slice) = change.latest() else { return String::new() };
    let (key, verb) = (slice.key(), verb(change));
    if change.new.is_none() {
        return format!("EndpointSlice {key} {verb}");
    }
    let ready = slice.endpoints.iter().filter(|endpoint| endpoint.is_ready()).count();
    let hinted = slice.endpoints.iter().filter(|endpoint| endpoint.hints.is_some()).count();
    let ports: Vec<String> = slice
        .ports
        .iter()
        .map(|port| {
            let number = port.port.map_or_else(|| "all".to_owned(), |number| number.to_string());
            let name = port.name.as_deref().filter(|name| !name.is_empty());
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            name.map_or_else(String::new, |name| format!("{name}:")) + &format!("{number}/{protocol}")
        })
        .collect();
    let mut line = format!(
        "EndpointSlice {key} {verb}: {}, {}",
        slice.address_type.as_str(),
        endpoint_counts(slice.endpoints.len(), ready)
    );
    if hinted > 0 {
        line += &format!(", {hinted} with hints");
    }
    match ports.as_slice() {
        [] => line += ", no ports",
        ports => line += &format!(", ports {}", ports.join(" ")),
    }
    line
}

fn endpoints_line(change: &Change<Endpoints>) -> String {
    let Some(endpoints) = change.latest() else { return String::new() };
    let (key, verb) = (endpoints.key(), verb(change));
    if change.new.is_none() {
        return format!("Endpoints {key} {verb}");
    }
    let (ready, not_ready) = endpoints.subsets.counts();
    format!("Endpoints {key} {verb}: {}", endpoint_counts(ready + not_ready, ready))
}

fn selector_line(change: &Change<EndpointSelector>) -> String {
    let Some(selector) = change.latest() else { return String::new() };
    let (key, verb) = (&selector.key, verb(change));
    if change.new.is_none() {
        return format!("EndpointSelector {key} {verb}");
    }
    let accepted = match &selector.selector {
        Ok(_) => "valid".to_owned(),
        Err(error) => error.to_string(),
    };
    match selector.status.services {
        Some(1) => format!("EndpointSelector {key} {verb}: {accepted}, 1 Service"),
        Some(many) => format!("EndpointSelector {key} {verb}: {accepted}, {many} Services"),
        None => format!("EndpointSelector {key} {verb}: {accepted}"),
    }
}

fn endpoint_counts(all: usize, ready: usize) -> String {
    let noun = if all == 1 { "endpoint" } else { "endpoints" };
    if all == 0 { format!("no {noun}") } else { format!("{all} {noun}, {ready} ready") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn slice(endpoints: serde_json::Value, ports: serde_json::Value) -> Arc<EndpointSlice> {
        let value = json!({"metadata": {"name": "web-x", "namespace": "shop"}, "addressType": "IPv4",
            "endpoints": endpoints, "ports": ports});
        Arc::new(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn lines_show_counts_hints_and_ports() {
        let empty = slice(json!(null), json!(null));
        let full = slice(
            json!([{"addresses": ["10.0.0.1"], "conditions": {"ready": true}, "hints": {"forZones": [{"name": "a"}]}},
                   {"addresses": ["10.0.0.2"], "conditions": {"ready": false}}]),
            json!([{"name": "http", "port": 80, "protocol": "TCP"}, {"name": "", "port": 53, "protocol": "UDP"}]),
        );
        let endpoints: Arc<Endpoints> = Arc::new(
            serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "shop"},
                "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "notReadyAddresses": [{"ip": "10.0.0.2"}]}]}))
            .unwrap(),
        );
        let selector = |spec: serde_json::Value| -> Arc<EndpointSelector> {
            let value = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec, "status": {"services": 1}});
            Arc::new(serde_json::from_value(value).unwrap())
        };
        let (invalid, selector) =
            (selector(json!({})), selector(json!({"selector": {"matchLabels": {"app": "web"}}})));
        let lines = [
            slice_line(&Change { old: None, new: Some(Arc::clone(&empty)), arrived: None }),
            slice_line(&Change { old: Some(empty), new: Some(Arc::clone(&full)), arrived: None }),
            slice_line(&Change { old: Some(full), new: None, arrived: None }),
            endpoints_line(&Change { old: None, new: Some(Arc::clone(&endpoints)), arrived: None }),
            endpoints_line(&Change { old: Some(endpoints), new: None, arrived: None }),
            selector_line(&Change { old: None, new: Some(Arc::clone(&invalid)), arrived: None }),
            selector_line(&Change { old: Some(invalid), new: Some(Arc::clone(&selector)), arrived: None }),
            selector_line(&Change { old: Some(selector), new: None, arrived: None }),
        ];
        insta::assert_snapshot!(lines.join("\n"), @"
        EndpointSlice shop/web-x created: IPv4, no endpoints, no ports
        EndpointSlice shop/web-x updated: IPv4, 2 endpoints, 1 ready, 1 with hints, ports http:80/TCP 53/UDP
        EndpointSlice shop/web-x deleted
        Endpoints shop/web created: 2 endpoints, 1 ready
        Endpoints shop/web deleted
        EndpointSelector shop/web created: spec.selector is empty; give it matchLabels or matchExpressions, 1 Service
        EndpointSelector shop/web updated: valid, 1 Service
        EndpointSelector shop/web deleted
        ");
    }
}
