//! Cells of Endpoints and EndpointSlices.

use serde_json::Value;

use super::view::{list, number, shortened, text};

/// Returns the ready addresses of an Endpoints object with each of their ports.
pub(super) fn subsets(endpoints: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(endpoints, "/subsets") {
        let addresses = list(subset, "/addresses");
        let ports = list(subset, "/ports");
        if ports.is_empty() {
            all.extend(addresses.iter().map(|address| text(address, "/ip").to_owned()));
        }
        for port in ports {
            let port = number(port, "/port");
            all.extend(addresses.iter().map(|address| host_port(text(address, "/ip"), port)));
        }
    }
    // Unlike other lists, subsets without any address have an empty cell.
    let empty = if list(endpoints, "/subsets").is_empty() { "<none>" } else { "" };
    shortened(&all, empty)
}

fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

/// Returns the port numbers of an EndpointSlice. The name or a star stands for a port without a
/// number.
pub(super) fn slice_ports(slice: &Value) -> String {
    let ports: Vec<String> = list(slice, "/ports")
        .iter()
        .map(|port| {
            match (port.get("port").and_then(Value::as_i64), port.get("name").and_then(Value::as_str)) {
                (Some(number), _) => number.to_string(),
                (None, Some(name)) => name.to_owned(),
                (None, None) => "*".to_owned(),
            }
        })
        .collect();
    shortened(&ports, "<unset>")
}

/// Returns the addresses of an EndpointSlice.
pub(super) fn slice_endpoints(slice: &Value) -> String {
    let addresses: Vec<String> = list(slice, "/endpoints")
        .iter()
        .flat_map(|endpoint| list(endpoint, "/addresses"))
        .filter_map(|address| address.as_str().map(str::to_owned))
        .collect();
    shortened(&addresses, "<unset>")
}
