//! Tests traffic policies, hints and the fall-back to terminating endpoints, with the cases of
//! `TestCategorizeEndpoints` (`pkg/proxy/topology_test.go`, Kubernetes 1.36).

use kube_endpoint_core_model::IpFamily;
use kube_endpoint_explain::consumers::kube_proxy::{KubeProxy, Routes, Through, TrafficPolicies};
use serde_json::{Value, json};

use super::{read_service, service, slice};

struct Case {
    name: &'static str,
    node: &'static str,
    zone: &'static str,
    /// Words: the traffic policies that are `Local`, `node-port`, and `1.33` for a kube-proxy that
    /// reads no hints for nodes.
    service: &'static str,
    /// The endpoints, each an address and words: `local`, the condition, and the zones and nodes of
    /// its hints.
    endpoints: &'static [&'static str],
    /// The endpoints of clients by the policy `Cluster`, or `None` if the Service has no such
    /// clients.
    cluster: Option<&'static [&'static str]>,
    /// The endpoints of clients by the policy `Local`, or `None` if the Service has no such
    /// clients.
    local: Option<&'static [&'static str]>,
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    Case {
        name: "should use topology since all endpoints have hints, node has a zone label and and there are endpoints for the node's zone",
        node: "", zone: "zone-a", service: "",
        endpoints: &["10.1.2.3 ready zone-a", "10.1.2.4 ready zone-b", "10.1.2.5 ready zone-c", "10.1.2.6 ready zone-a"],
        cluster: Some(&["10.1.2.3", "10.1.2.6"]),
        local: None,
    },
    Case {
        name: "externalTrafficPolicy: Local, topology ignored for Local endpoints",
        node: "", zone: "zone-a", service: "external-local node-port",
        endpoints: &["10.1.2.3 local ready zone-a", "10.1.2.4 local ready zone-b", "10.1.2.5 ready zone-c", "10.1.2.6 ready zone-a"],
        cluster: Some(&["10.1.2.3", "10.1.2.6"]),
        local: Some(&["10.1.2.3", "10.1.2.4"]),
    },
    Case {
        name: "internalTrafficPolicy: Local, topology ignored for Local endpoints",
        node: "", zone: "zone-a", service: "internal-local node-port",
        endpoints: &["10.1.2.3 local ready zone-a", "10.1.2.4 local ready zone-b", "10.1.2.5 ready zone-c", "10.1.2.6 ready zone-a"],
        cluster: Some(&["10.1.2.3", "10.1.2.6"]),
        local: Some(&["10.1.2.3", "10.1.2.4"]),
    },
    Case {
        name: "empty node labels",
        node: "", zone: "", service: "",
        endpoints: &["10.1.2.3 ready zone-a"],
        cluster: Some(&["10.1.2.3"]),
        local: None,
    },
    Case {
        name: "empty zone label",
        node: "", zone: "", service: "",
        endpoints: &["10.1.2.3 ready zone-a"],
        cluster: Some(&["10.1.2.3"]),
        local: None,
    },
    Case {
        name: "node in different zone, no endpoint filtering",
        node: "", zone: "zone-b", service: "",
        endpoints: &["10.1.2.3 ready zone-a"],
        cluster: Some(&["10.1.2.3"]),
        local: None,
    },
    Case {
        name: "unready endpoint",
        node: "", zone: "zone-a", service: "",
        endpoints: &["10.1.2.3 ready zone-a", "10.1.2.4 ready zone-b", "10.1.2.5 ready zone-c", "10.1.2.6 unready zone-a"],
        cluster: Some(&["10.1.2.3"]),
        local: None,
    },
    Case {
        name: "only unready endpoints in same zone (should not filter)",
        node: "", zone: "zone-a", service: "",
        endpoints: &["10.1.2.3 unready zone-a", "10.1.2.4 ready zone-b", "10.1.2.5 ready zone-c", "10.1.2.6 unready zone-a"],
        cluster: Some(&["10.1.2.4", "10.1.2.5"]),
        local: None,
    },
    Case {
        name: "missing hints, no filtering applied",
        node: "", zone: "zone-a", service: "",
        endpoints: &["10.1.2.3 ready zone-a", "10.1.2.4 ready zone-b", "10.1.2.5 ready", "10.1.2.6 ready zone-a"],
        cluster: Some(&["10.1.2.3", "10.1.2.4", "10.1.2.5", "10.1.2.6"]),
        local: None,
    },
    Case {
        name: "multiple hints per endpoint, filtering includes any endpoint with zone included",
        node: "", zone: "zone-c", service: "",
        endpoints: &["10.1.2.3 ready zone-a zone-b zone-c", "10.1.2.4 ready zone-b zone-c", "10.1.2.5 ready zone-b zone-d", "10.1.2.6 ready zone-c"],
        cluster: Some(&["10.1.2.3", "10.1.2.4", "10.1.2.6"]),
        local: None,
    },
    Case {
        name: "PreferSameNode falls back to same-zone when feature gate disabled",
        node: "node-1", zone: "zone-a", service: "1.33",
        endpoints: &["10.1.2.3 ready zone-a node-1", "10.1.2.4 ready zone-b node-2", "10.1.2.5 ready zone-c node-3", "10.1.2.6 ready zone-a node-4"],
        cluster: Some(&["10.1.2.3", "10.1.2.6"]),
        local: None,
    },
    Case {
        name: "PreferSameNode available",
        node: "node-1", zone: "zone-a", service: "",
        endpoints: &["10.1.2.3 ready zone-a node-1", "10.1.2.4 ready zone-b node-2", "10.1.2.5 ready zone-c node-3", "10.1.2.6 ready zone-a node-4"],
        cluster: Some(&["10.1.2.3"]),
        local: None,
    },
    Case {
        name: "PreferSameNode ignored if some endpoints unhinted",
        node: "node-1", zone: "zone-a", service: "",
        endpoints: &["10.1.2.3 ready zone-a node-1", "10.1.2.4 ready", "10.1.2.5 ready zone-c node-3", "10.1.2.6 ready zone-a node-4"],
        cluster: Some(&["10.1.2.3", "10.1.2.4", "10.1.2.5", "10.1.2.6"]),
        local: None,
    },
    Case {
        name: "PreferSameNode falls back to PreferSameZone if no endpoint for node",
        node: "node-0", zone: "zone-a", service: "",
        endpoints: &["10.1.2.3 ready zone-a node-1", "10.1.2.4 ready zone-b node-2", "10.1.2.5 ready zone-c node-3", "10.1.2.6 ready zone-a node-4"],
        cluster: Some(&["10.1.2.3", "10.1.2.6"]),
        local: None,
    },
    Case {
        name: "conflicting topology and localness require merging allEndpoints",
        node: "", zone: "zone-a", service: "external-local node-port",
        endpoints: &["10.0.0.0 local ready zone-a", "10.0.0.1 local ready zone-b", "10.0.0.2 ready zone-a", "10.0.0.3 ready zone-b"],
        cluster: Some(&["10.0.0.0", "10.0.0.2"]),
        local: Some(&["10.0.0.0", "10.0.0.1"]),
    },
    Case {
        name: "internalTrafficPolicy: Local, with empty endpoints",
        node: "", zone: "", service: "internal-local",
        endpoints: &[],
        cluster: None,
        local: Some(&[]),
    },
    Case {
        name: "internalTrafficPolicy: Local, but all endpoints are remote",
        node: "", zone: "", service: "internal-local",
        endpoints: &["10.0.0.0 ready", "10.0.0.1 ready"],
        cluster: None,
        local: Some(&[]),
    },
    Case {
        name: "internalTrafficPolicy: Local, all endpoints are local",
        node: "", zone: "", service: "internal-local",
        endpoints: &["10.0.0.0 local ready", "10.0.0.1 local ready"],
        cluster: None,
        local: Some(&["10.0.0.0", "10.0.0.1"]),
    },
    Case {
        name: "internalTrafficPolicy: Local, some endpoints are local",
        node: "", zone: "", service: "internal-local",
        endpoints: &["10.0.0.0 local ready", "10.0.0.1 ready"],
        cluster: None,
        local: Some(&["10.0.0.0"]),
    },
    Case {
        name: "Cluster traffic policy, endpoints not Ready",
        node: "", zone: "", service: "",
        endpoints: &["10.0.0.0 unready", "10.0.0.1 unready"],
        cluster: Some(&[]),
        local: None,
    },
    Case {
        name: "Cluster traffic policy, some endpoints are Ready",
        node: "", zone: "", service: "",
        endpoints: &["10.0.0.0 unready", "10.0.0.1 ready"],
        cluster: Some(&["10.0.0.1"]),
        local: None,
    },
    Case {
        name: "Cluster traffic policy, all endpoints are terminating",
        node: "", zone: "", service: "",
        endpoints: &["10.0.0.0 local ending", "10.0.0.1 ending"],
        cluster: Some(&["10.0.0.0", "10.0.0.1"]),
        local: None,
    },
    Case {
        name: "iTP: Local, eTP: Cluster, some endpoints local",
        node: "", zone: "", service: "internal-local node-port",
        endpoints: &["10.0.0.0 local ready", "10.0.0.1 ready"],
        cluster: Some(&["10.0.0.0", "10.0.0.1"]),
        local: Some(&["10.0.0.0"]),
    },
    Case {
        name: "iTP: Cluster, eTP: Local, some endpoints local",
        node: "", zone: "", service: "external-local node-port",
        endpoints: &["10.0.0.0 local ready", "10.0.0.1 ready"],
        cluster: Some(&["10.0.0.0", "10.0.0.1"]),
        local: Some(&["10.0.0.0"]),
    },
    Case {
        name: "iTP: Local, eTP: Local, some endpoints local",
        node: "", zone: "", service: "internal-local external-local node-port",
        endpoints: &["10.0.0.0 local ready", "10.0.0.1 ready"],
        cluster: Some(&["10.0.0.0", "10.0.0.1"]),
        local: Some(&["10.0.0.0"]),
    },
    Case {
        name: "iTP: Local, eTP: Local, all endpoints remote",
        node: "", zone: "", service: "internal-local external-local node-port",
        endpoints: &["10.0.0.0 ready", "10.0.0.1 ready"],
        cluster: Some(&["10.0.0.0", "10.0.0.1"]),
        local: Some(&[]),
    },
    Case {
        name: "iTP: Local, eTP: Local, all endpoints remote and terminating",
        node: "", zone: "", service: "internal-local external-local node-port",
        endpoints: &["10.0.0.0 ending", "10.0.0.1 ending"],
        cluster: Some(&["10.0.0.0", "10.0.0.1"]),
        local: Some(&[]),
    },
    Case {
        name: "iTP: Cluster, eTP: Local, with terminating endpoints",
        node: "", zone: "", service: "external-local node-port",
        endpoints: &["10.0.0.0 ready", "10.0.0.1 local unready", "10.0.0.2 local ending", "10.0.0.3 ending"],
        cluster: Some(&["10.0.0.0"]),
        local: Some(&["10.0.0.2"]),
    },
    Case {
        name: "externalTrafficPolicy ignored if not externally accessible",
        node: "", zone: "", service: "external-local",
        endpoints: &["10.0.0.0 ready", "10.0.0.1 local ready"],
        cluster: Some(&["10.0.0.0", "10.0.0.1"]),
        local: None,
    },
    Case {
        name: "no cluster endpoints for iTP:Local internal-only service",
        node: "", zone: "", service: "internal-local",
        endpoints: &["10.0.0.0 ready", "10.0.0.1 local ready"],
        cluster: None,
        local: Some(&["10.0.0.1"]),
    },
    Case {
        name: "empty endpoints when no service endpoints exist",
        node: "", zone: "", service: "",
        endpoints: &[],
        cluster: None,
        local: None,
    },
    Case {
        name: "single endpoint not ready, not serving, not terminating",
        node: "", zone: "zone-a", service: "",
        endpoints: &["10.0.0.0 unready"],
        cluster: Some(&[]),
        local: None,
    },
];

/// Returns an endpoint. A local one is on the node of the case.
fn endpoint(words: &str, node: &str) -> Value {
    let mut words = words.split(' ');
    let mut endpoint = json!({"addresses": [words.next().unwrap()], "conditions": {}, "hints": {}});
    let (mut zones, mut nodes) = (Vec::new(), Vec::new());
    for word in words {
        match word {
            "local" => endpoint["nodeName"] = json!(node),
            "ready" => endpoint["conditions"] = json!({"ready": true, "serving": true, "terminating": false}),
            "ending" => {
                endpoint["conditions"] = json!({"ready": false, "serving": true, "terminating": true});
            }
            "unready" => {
                endpoint["conditions"] = json!({"ready": false, "serving": false, "terminating": false});
            }
            zone if zone.starts_with("zone-") => zones.push(json!({"name": zone})),
            node => nodes.push(json!({"name": node})),
        }
    }
    endpoint["hints"] = json!({"forZones": zones, "forNodes": nodes});
    endpoint
}

fn backends(routes: &Routes) -> Vec<String> {
    routes.ports[0].backends.iter().map(|address| address.ip().to_string()).collect()
}

#[test]
fn categorize_endpoints() {
    for case in CASES {
        let node = if case.node.is_empty() { "this-node" } else { case.node };
        let has = |word: &str| case.service.split(' ').any(|it| it == word);
        let policies = TrafficPolicies {
            internal_local: has("internal-local"),
            external_local: has("external-local"),
            externally_accessible: has("node-port"),
            ..TrafficPolicies::default()
        };
        let proxy = KubeProxy { node, zone: case.zone, reads_node_hints: !has("1.33") };
        let endpoints = case.endpoints.iter().map(|words| endpoint(words, node)).collect();
        let slice = slice("web-1", endpoints);
        let service = read_service(service());
        let routes = |through| proxy.routes(&service, policies, [&slice], IpFamily::IPv4, through);
        if let Some(expected) = case.cluster {
            let through = if has("node-port") { Through::ExternalFromPod } else { Through::ClusterIp };
            assert_eq!(backends(&routes(through)), expected, "{}: cluster", case.name);
        }
        if let Some(expected) = case.local {
            let through = if has("internal-local") { Through::ClusterIp } else { Through::External };
            assert_eq!(backends(&routes(through)), expected, "{}: local", case.name);
        }
        // The model loses no endpoint: each is a backend or has a reason.
        let port = &routes(Through::ClusterIp).ports[0];
        assert_eq!(port.backends.len() + port.unused.len(), case.endpoints.len(), "{}", case.name);
    }
}
