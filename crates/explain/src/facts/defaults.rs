//! Sets the defaults of the fields that plans read, as the API server does, for objects from a
//! file.

use std::net::IpAddr;

use kube_endpoint_core_model::address;
use serde_json::{Value, json};

/// The addresses that stand for those that an API server would allocate.
const CLUSTER_IPS: [&str; 2] = ["192.0.2.1", "2001:db8::1"];

/// Returns true if an address stands for one that an API server would allocate, so that no client
/// can use it.
pub(crate) fn stands_for_a_cluster_ip(address: IpAddr) -> bool {
    CLUSTER_IPS.iter().any(|text| address::parse_sloppy(text) == Some(address))
}

/// Namespace of an object that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// Sets the defaults of an object. An object with a version comes from an API server, so this sets
/// only its namespace.
pub(crate) fn set(object: &mut Value, kind: &str) {
    if !object["metadata"].is_object() {
        return;
    }
    if kind != "Node" && !object["metadata"]["namespace"].is_string() {
        object["metadata"]["namespace"] = DEFAULT_NAMESPACE.into();
    }
    if object["metadata"]["resourceVersion"].is_string() {
        return;
    }
    match kind {
        "Service" => object.get_mut("spec").into_iter().for_each(service),
        "Pod" => pod(object),
        "Endpoints" => {
            items(object, "subsets").for_each(|subset| items(subset, "ports").for_each(protocol));
        }
        "EndpointSlice" => items(object, "ports").for_each(slice_port),
        _ => {}
    }
}

fn service(spec: &mut Value) {
    if !spec.is_object() {
        return;
    }
    let is_alias = spec["type"] == "ExternalName";
    // A server stores no empty map.
    if let Some(fields) = spec.as_object_mut()
        && fields.get("selector").and_then(Value::as_object).is_some_and(serde_json::Map::is_empty)
    {
        fields.remove("selector");
    }
    for port in items(spec, "ports").filter(|port| port.is_object()) {
        protocol(port);
        let target = &port["targetPort"];
        if target.is_null() || *target == 0 || *target == "" {
            port["targetPort"] = port["port"].clone();
        }
    }
    if is_alias {
        return;
    }
    // Without an address the Service would be taken for a headless one. Addresses for documentation
    // stand for the one that the server would allocate; no object contains it.
    if spec["clusterIP"].as_str().is_none_or(str::is_empty) {
        let is_ipv6 = spec["ipFamilies"][0] == "IPv6";
        spec["clusterIP"] = if is_ipv6 { CLUSTER_IPS[1] } else { CLUSTER_IPS[0] }.into();
    }
    if spec["ipFamilies"].is_null() {
        let of_address = spec["clusterIP"].as_str().is_some_and(|address| address.contains(':'));
        let first = if of_address { "IPv6" } else { "IPv4" };
        let second = if of_address { "IPv4" } else { "IPv6" };
        spec["ipFamilies"] = match spec["ipFamilyPolicy"].as_str() {
            Some("RequireDualStack" | "PreferDualStack") => json!([first, second]),
            _ => json!([first]),
        };
    }
}

fn pod(pod: &mut Value) {
    for list in ["containers", "initContainers"] {
        for container in pod.get_mut("spec").into_iter().flat_map(|spec| items(spec, list)) {
            items(container, "ports").for_each(protocol);
        }
    }
    if let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut)
        && !status.contains_key("podIPs")
        && let Some(address) = status.get("podIP").cloned()
    {
        status.insert("podIPs".to_owned(), json!([{"ip": address}]));
    }
}

/// Returns the items of a field that is a list.
fn items<'v>(object: &'v mut Value, field: &str) -> impl Iterator<Item = &'v mut Value> {
    object.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

fn slice_port(port: &mut Value) {
    protocol(port);
    if port.is_object() && port["name"].is_null() {
        port["name"] = "".into();
    }
}

fn protocol(port: &mut Value) {
    if port.is_object() && port["protocol"].is_null() {
        port["protocol"] = "TCP".into();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_gets_protocol_target_port_and_family() {
        let check = |spec: Value, want: Value| {
            let mut service = json!({"metadata": {"name": "web"}, "spec": spec});
            set(&mut service, "Service");
            assert_eq!(service["spec"], want);
            assert_eq!(service["metadata"]["namespace"], "default");
        };
        check(
            json!({"ports": [{"port": 80}]}),
            json!({"ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}], "ipFamilies": ["IPv4"], "clusterIP": "192.0.2.1"}),
        );
        check(
            json!({"clusterIP": "fd00::1", "ipFamilyPolicy": "RequireDualStack"}),
            json!({"clusterIP": "fd00::1", "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]}),
        );
        check(json!({"clusterIP": "None"}), json!({"clusterIP": "None", "ipFamilies": ["IPv4"]}));
        check(json!({"type": "ExternalName"}), json!({"type": "ExternalName"}));
        check(
            json!({"clusterIP": "None", "selector": {}, "ports": [{"port": 1, "targetPort": ""}, {"port": 2, "targetPort": 0}]}),
            json!({"clusterIP": "None", "ipFamilies": ["IPv4"], "ports": [
                {"port": 1, "protocol": "TCP", "targetPort": 1}, {"port": 2, "protocol": "TCP", "targetPort": 2}]}),
        );
    }

    #[test]
    fn a_stored_object_is_not_changed() {
        let stored = json!({"metadata": {"name": "web", "namespace": "n", "resourceVersion": "1"}, "spec": {"ports": [{"port": 80}]}});
        let mut object = stored.clone();
        set(&mut object, "Service");
        assert_eq!(object, stored);
    }
}
