//! The objects of the test cluster, identified by numbers.

use serde_json::{Value, json};

pub(super) fn service(name: u8, selects: Option<u8>, headless: bool, publish: bool, families: u8) -> Value {
    let (policy, families) = match families {
        0 => ("SingleStack", json!(["IPv4"])),
        1 => ("SingleStack", json!(["IPv6"])),
        _ => ("RequireDualStack", json!(["IPv6", "IPv4"])),
    };
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{name}"), "namespace": "default"},
        "spec": {
            "ports": [{"name": "web", "port": 80, "targetPort": "web"}, {"name": "raw", "port": 81}],
            "ipFamilyPolicy": policy, "ipFamilies": families, "publishNotReadyAddresses": publish,
            "selector": selector(selects),
        },
    });
    if headless {
        service["spec"]["clusterIP"] = "None".into();
    }
    service
}

pub(super) fn selector(selects: Option<u8>) -> Value {
    selects.map_or(Value::Null, |app| json!({"app": format!("a{app}")}))
}

/// A pod. `life` distinguishes pods of the same name. Pods with an odd number lack the port `web`.
pub(super) fn pod(name: u8, app: u8, ready: bool, node: u8, life: u8, terminating: bool) -> Value {
    let (v4, v6) = (format!("10.1.{life}.{name}"), format!("fd00::{life}:{name}"));
    let ports =
        if name.is_multiple_of(2) { json!([{"name": "web", "containerPort": 8080}]) } else { json!([]) };
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("p{name}"), "namespace": "default", "uid": format!("uid-{name}-{life}"),
            "labels": {"app": format!("a{app}")},
        },
        "spec": {
            "nodeName": format!("n{node}"),
            "containers": [{"name": "web", "image": "example.invalid/web", "ports": ports}],
        },
        "status": {
            "phase": "Running", "podIP": v4, "podIPs": [{"ip": v4}, {"ip": v6}],
            "conditions": [{"type": "Ready", "status": if ready { "True" } else { "False" }}],
        },
    });
    if terminating {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
        pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    }
    pod
}

pub(super) fn node(name: u8, zone: u8) -> Value {
    let labels = match zone {
        0 => json!({}),
        zone => json!({"topology.kubernetes.io/zone": format!("z{zone}")}),
    };
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": format!("n{name}"), "labels": labels},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "4"},
        },
    })
}

/// Endpoints of a Service without a selector.
pub(super) fn endpoints(name: u8, ips: &[u8], families: u8) -> Value {
    let of = |ip: &u8| {
        let (v4, v6) = (format!("192.0.2.{ip}"), format!("2001:db8::{ip}"));
        match families {
            0 => vec![json!({"ip": v4})],
            1 => vec![json!({"ip": v6})],
            _ => vec![json!({"ip": v4}), json!({"ip": v6})],
        }
    };
    let addresses: Vec<Value> = ips.iter().flat_map(of).collect();
    let subset = json!({"addresses": addresses, "ports": [{"port": 9376, "protocol": "TCP"}]});
    let subsets = if addresses.is_empty() { json!([]) } else { json!([subset]) };
    json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": format!("s{name}"), "namespace": "default"}, "subsets": subsets,
    })
}
