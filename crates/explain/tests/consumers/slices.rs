//! Tests slices and their ports, addresses and duplicates, with the cases of
//! `TestEndpointsMapFromESC` and `TestEndpointInfoByServicePort`
//! (`pkg/proxy/endpointslicecache_test.go`, Kubernetes 1.36), and slices that the informers of
//! kube-proxy leave out.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use kube_endpoint_core_model::{EndpointSlice, IpFamily, Node, Text};
use kube_endpoint_explain::consumers::kube_proxy::{
    IgnoredPort, IgnoredService, IgnoredSlice, KubeProxy, Nodes, PortRoutes, Routes, Through,
    TrafficPolicies, Unused, cluster_backends, local_backends,
};
use serde_json::{Value, json};

use super::{label, read_service, service, slice};

/// The parameters of upstream's `generateEndpointSliceWithOffset`: endpoints `10.0.OFFSET.1` and so
/// on, and ports `port-0` and so on. Every `unready`th endpoint is not ready, and every
/// `terminating`th terminates.
#[derive(Clone, Copy)]
struct Generated {
    service: &'static str,
    namespace: &'static str,
    number: usize,
    offset: usize,
    count: usize,
    unready: usize,
    terminating: usize,
    hosts: &'static [&'static str],
    ports: &'static [Option<i32>],
}

/// The slice of most cases.
const GENERATED: Generated = Generated {
    service: "svc1",
    namespace: "ns1",
    number: 1,
    offset: 1,
    count: 3,
    unready: 999,
    terminating: 999,
    hosts: &[],
    ports: &[Some(80)],
};

impl Generated {
    fn slice(self) -> EndpointSlice {
        let endpoint = |at: usize| {
            let (is_up, terminating) =
                (!at.is_multiple_of(self.unready), at.is_multiple_of(self.terminating));
            let conditions =
                json!({"ready": is_up && !terminating, "serving": is_up, "terminating": terminating});
            let mut endpoint =
                json!({"addresses": [format!("10.0.{}.{at}", self.offset)], "conditions": conditions});
            if !self.hosts.is_empty() {
                endpoint["nodeName"] = json!(self.hosts[at % self.hosts.len()]);
            }
            endpoint
        };
        let port = |(at, port): (usize, &Option<i32>)| json!({"name": format!("port-{at}"), "port": port, "protocol": "TCP"});
        serde_json::from_value(json!({
            "metadata": {"name": format!("{}-{}", self.service, self.number), "namespace": self.namespace,
                "labels": {"kubernetes.io/service-name": self.service}},
            "addressType": "IPv4",
            "ports": self.ports.iter().enumerate().map(port).collect::<Vec<_>>(),
            "endpoints": (1..=self.count).map(endpoint).collect::<Vec<_>>(),
        }))
        .unwrap()
    }
}

struct Case {
    name: &'static str,
    node: &'static str,
    slices: &'static [Generated],
    /// The endpoints of each port, with the words `unready`, `ending`, `local`, and `undefined` if
    /// the order of Go's map decides between two answers. Upstream's test accepts both.
    expected: &'static [&'static [&'static str]],
}

/// The cases of `TestEndpointsMapFromESC` and `TestEndpointInfoByServicePort`.
#[rustfmt::skip]
const CASES: &[Case] = &[
    Case {
        name: "1 slice, 2 hosts, ports 80,443", node: "host1",
        slices: &[Generated { hosts: &["host1", "host2"], ports: &[Some(80), Some(443)], ..GENERATED }],
        expected: &[
            &["10.0.1.1:80", "10.0.1.2:80 local", "10.0.1.3:80"],
            &["10.0.1.1:443", "10.0.1.2:443 local", "10.0.1.3:443"],
        ],
    },
    Case {
        name: "2 slices, same port", node: "",
        slices: &[GENERATED, Generated { number: 2, offset: 2, ..GENERATED }],
        expected: &[&["10.0.1.1:80", "10.0.1.2:80", "10.0.1.3:80", "10.0.2.1:80", "10.0.2.2:80", "10.0.2.3:80"]],
    },
    Case {
        name: "2 overlapping slices, same port", node: "",
        slices: &[GENERATED, Generated { count: 4, ..GENERATED }],
        expected: &[&["10.0.1.1:80", "10.0.1.2:80", "10.0.1.3:80", "10.0.1.4:80"]],
    },
    Case {
        name: "2 slices, overlapping endpoints, some endpoints unready in 1 or both", node: "",
        slices: &[Generated { count: 10, unready: 3, ..GENERATED }, Generated { number: 2, count: 10, unready: 6, ..GENERATED }],
        expected: &[&[
            "10.0.1.1:80", "10.0.1.2:80", "10.0.1.3:80 unready undefined", "10.0.1.4:80", "10.0.1.5:80",
            "10.0.1.6:80 unready", "10.0.1.7:80", "10.0.1.8:80", "10.0.1.9:80 unready undefined", "10.0.1.10:80",
        ]],
    },
    Case {
        name: "2 slices, overlapping endpoints, some endpoints unready and some endpoints terminating", node: "",
        slices: &[Generated { count: 10, unready: 3, terminating: 5, ..GENERATED }, Generated { number: 2, count: 10, unready: 6, terminating: 5, ..GENERATED }],
        expected: &[&[
            "10.0.1.1:80", "10.0.1.2:80", "10.0.1.3:80 unready undefined", "10.0.1.4:80", "10.0.1.5:80 ending",
            "10.0.1.6:80 unready", "10.0.1.7:80", "10.0.1.8:80", "10.0.1.9:80 unready undefined", "10.0.1.10:80 ending",
        ]],
    },
    Case {
        name: "2 slices, overlapping endpoints, all unready", node: "",
        slices: &[Generated { count: 10, unready: 1, ..GENERATED }, Generated { number: 2, count: 10, unready: 1, ..GENERATED }],
        expected: &[&[
            "10.0.1.1:80 unready", "10.0.1.2:80 unready", "10.0.1.3:80 unready", "10.0.1.4:80 unready", "10.0.1.5:80 unready",
            "10.0.1.6:80 unready", "10.0.1.7:80 unready", "10.0.1.8:80 unready", "10.0.1.9:80 unready", "10.0.1.10:80 unready",
        ]],
    },
    Case {
        name: "3 slices with different services and namespaces", node: "",
        slices: &[
            GENERATED,
            Generated { service: "svc2", number: 2, offset: 2, ..GENERATED },
            Generated { namespace: "ns2", number: 3, offset: 3, ..GENERATED },
        ],
        expected: &[&["10.0.1.1:80", "10.0.1.2:80", "10.0.1.3:80"]],
    },
    Case {
        name: "Nil port should not break anything", node: "host1",
        slices: &[Generated { hosts: &["host1", "host2"], ports: &[None], ..GENERATED }],
        expected: &[&[]],
    },
    Case {
        name: "Different endpoints with duplicate IPs should not be filtered", node: "host1",
        slices: &[
            Generated { count: 2, hosts: &["host1", "host2"], ..GENERATED },
            Generated { number: 2, count: 2, hosts: &["host1", "host2"], ports: &[Some(8080)], ..GENERATED },
        ],
        expected: &[&["10.0.1.1:80", "10.0.1.1:8080", "10.0.1.2:80 local", "10.0.1.2:8080 local"]],
    },
    Case {
        name: "simple use case with 3 endpoints", node: "host1",
        slices: &[Generated { hosts: &["host1", "host2"], ..GENERATED }],
        expected: &[&["10.0.1.1:80", "10.0.1.2:80 local", "10.0.1.3:80"]],
    },
    Case {
        name: "4 different slices with duplicate IPs", node: "host1",
        slices: &[
            Generated { count: 2, hosts: &["host1", "host2"], ..GENERATED },
            Generated { number: 2, count: 2, hosts: &["host1", "host2"], ports: &[Some(8080)], ..GENERATED },
        ],
        expected: &[&["10.0.1.1:80", "10.0.1.1:8080", "10.0.1.2:80 local", "10.0.1.2:8080 local"]],
    },
];

#[test]
fn endpoints_of_slices() {
    for case in CASES {
        let ports: Vec<Value> = (0..case.expected.len())
            .map(|at| json!({"name": format!("port-{at}"), "port": at + 1, "protocol": "TCP"}))
            .collect();
        let mut service = service();
        service["metadata"] = json!({"name": "svc1", "namespace": "ns1"});
        service["spec"]["ports"] = json!(ports);
        let service = read_service(service);
        let slices: Vec<EndpointSlice> = case.slices.iter().map(|slice| slice.slice()).collect();
        // The caller hands in slices of one namespace.
        let slices: Vec<&EndpointSlice> =
            slices.iter().filter(|slice| slice.metadata.namespace == service.key.namespace).collect();
        let proxy = KubeProxy { node: case.node, ..KubeProxy::default() };
        let routes = |policies| {
            proxy.routes(&service, policies, slices.iter().copied(), IpFamily::IPv4, Through::ClusterIp)
        };
        let all = routes(TrafficPolicies::default());
        let local = routes(TrafficPolicies { internal_local: true, ..TrafficPolicies::default() });
        let got: Vec<Vec<String>> = all
            .ports
            .iter()
            .zip(&local.ports)
            .map(|(all, local)| {
                let used = all.backends.iter().map(|address| (address, None));
                let unused = all.unused.iter().map(|(address, reason)| (address, Some(reason)));
                let mut endpoints: Vec<_> = used.chain(unused).collect();
                endpoints.sort();
                let word = |word: &str, is: bool| if is { format!(" {word}") } else { String::new() };
                let print = |(address, reason): (&std::net::SocketAddr, Option<&Unused>)| {
                    let unready = word("unready", reason == Some(&Unused::NotReady));
                    let ending = word("ending", reason == Some(&Unused::Terminating));
                    let local = word("local", local.backends.contains(address));
                    let undefined = word("undefined", all.undefined.contains(address));
                    format!("{address}{unready}{ending}{local}{undefined}")
                };
                endpoints.into_iter().map(print).collect()
            })
            .collect();
        assert_eq!(got, case.expected, "{}", case.name);
    }
}

/// Returns a slice of the Service `web` with a ready endpoint.
fn ready() -> EndpointSlice {
    slice("a", json!([{"addresses": ["10.0.1.1"]}]))
}

fn routes(slices: &[EndpointSlice]) -> Routes {
    let service = read_service(service());
    let policies = TrafficPolicies::default();
    KubeProxy::default().routes(&service, policies, slices, IpFamily::IPv4, Through::ClusterIp)
}

fn port(slices: &[EndpointSlice]) -> PortRoutes {
    routes(slices).ports.remove(0)
}

fn addresses<'a>(addresses: impl IntoIterator<Item = &'a std::net::SocketAddr>) -> String {
    addresses.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn backends(slices: &[EndpointSlice]) -> String {
    addresses(&port(slices).backends)
}

/// The case of `TestEndpointInfoByServicePort` with duplicates in one slice.
#[test]
fn with_duplicate_endpoints_prefer_non_terminating() {
    let entry = |ready: bool, serving: bool, terminating: bool| {
        let conditions = json!({"ready": ready, "serving": serving, "terminating": terminating});
        json!({"addresses": ["10.0.1.1"], "conditions": conditions})
    };
    let running = entry(true, true, false);
    let endpoints = json!([entry(false, true, true), running, entry(false, false, true)]);
    let port = port(&[slice("a", endpoints)]);
    assert_eq!(addresses(&port.backends), "10.0.1.1:80");
    assert!(port.undefined.is_empty());
}

#[test]
fn only_the_first_address_of_an_endpoint_counts() {
    let endpoints = json!([{"addresses": ["10.0.1.1", "10.0.1.2"]}]);
    assert_eq!(backends(&[slice("a", endpoints)]), "10.0.1.1:80");
}

#[test]
fn an_endpoint_without_conditions_is_ready() {
    assert_eq!(backends(&[slice("a", json!([{"addresses": ["010.0.1.1"]}]))]), "10.0.1.1:80");
}

#[test]
fn a_slice_with_the_label_of_headless_services_is_ignored_whatever_its_value() {
    let headless = label(ready(), "service.kubernetes.io/headless", "false");
    let routes = routes(&[headless]);
    assert_eq!(routes.ignored_slices, [("a".into(), IgnoredSlice::Headless)]);
    assert!(routes.ports[0].backends.is_empty());
}

#[test]
fn a_slice_of_the_other_family_and_a_port_of_another_name_or_protocol_are_ignored() {
    let mut other_family = slice("a", json!([{"addresses": ["fd00::1"]}]));
    other_family.address_type = kube_endpoint_core_model::AddressType::IPv6;
    let mut other_ports = slice("b", json!([{"addresses": ["10.0.1.1"]}]));
    other_ports.ports = serde_json::from_value(json!([
        {"port": 80, "protocol": "TCP"},
        {"name": "http", "port": 80, "protocol": "UDP"},
        {"name": "grpc", "port": 80, "protocol": "TCP"},
    ]))
    .unwrap();
    let routes = routes(&[other_family, other_ports]);
    assert_eq!(routes.ignored_slices, [("a".into(), IgnoredSlice::OtherAddressType)]);
    let reasons: Vec<_> = routes.ignored_ports.into_iter().map(|(_, reason)| reason).collect();
    let not_of_service = |name: &str, protocol: &str| IgnoredPort::NotOfService(name.into(), protocol.into());
    assert_eq!(reasons, [IgnoredPort::NoName, not_of_service("http", "UDP"), not_of_service("grpc", "TCP")]);
}

#[test]
fn services_without_rules() {
    let ignored = |change: Value, family, through| {
        let mut service = service();
        json_patch::merge(&mut service, &change);
        let policies = TrafficPolicies::default();
        let service = read_service(service);
        KubeProxy::default().routes(&service, policies, [], family, through).ignored
    };
    let cluster_ip = |change| ignored(change, IpFamily::IPv4, Through::ClusterIp);
    assert_eq!(cluster_ip(json!({})), None);
    assert_eq!(cluster_ip(json!({"spec": {"clusterIP": "None"}})), Some(IgnoredService::NoClusterIp));
    assert_eq!(cluster_ip(json!({"spec": {"clusterIP": ""}})), Some(IgnoredService::NoClusterIp));
    assert_eq!(cluster_ip(json!({"spec": {"type": "ExternalName"}})), Some(IgnoredService::ExternalName));
    let label = json!({"metadata": {"labels": {"service.kubernetes.io/service-proxy-name": ""}}});
    assert_eq!(cluster_ip(label), Some(IgnoredService::OtherProxy));
    let one_family = json!({"spec": {"ipFamilies": ["IPv4"]}});
    assert_eq!(
        ignored(one_family, IpFamily::IPv6, Through::ClusterIp),
        Some(IgnoredService::NoAddressOfFamily)
    );
    // kube-proxy looks for an external address of each port; here the caller does.
    assert_eq!(ignored(json!({}), IpFamily::IPv4, Through::External), None);
}

#[test]
fn ports_without_a_number_and_slices_of_other_services_are_told() {
    let mut unnumbered = ready();
    unnumbered.ports[0].port = None;
    let other = label(slice("b", json!([])), "kubernetes.io/service-name", "api");
    let routes = routes(&[unnumbered, other]);
    assert_eq!(
        routes.ports[0],
        PortRoutes { name: "http".into(), protocol: "TCP".into(), ..PortRoutes::default() }
    );
    assert_eq!(routes.ignored_ports, [("a".into(), IgnoredPort::NoNumber("http".into()))]);
    assert_eq!(routes.ignored_slices, [("b".into(), IgnoredSlice::OtherService)]);
}

#[test]
fn ready_endpoints_without_a_hint_are_named_if_others_have_one() {
    let endpoint = |address: &str, hints: Value| json!({"addresses": [address], "hints": hints});
    let check = |first: Value, second: Value, want: &str| {
        let slice = slice("a", json!([endpoint("10.0.1.1", first), endpoint("10.0.1.2", second)]));
        assert_eq!(addresses(&port(&[slice]).without_hints), want);
    };
    let zone = || json!({"forZones": [{"name": "a"}]});
    let both = || json!({"forZones": [{"name": "a"}], "forNodes": [{"name": "n"}]});
    check(json!({}), json!({}), "");
    check(zone(), zone(), "");
    check(zone(), json!({}), "10.0.1.2:80");
    // The hints for zones count.
    check(zone(), both(), "");
    check(json!({"forNodes": [{"name": "n"}]}), json!({}), "10.0.1.2:80");
}

/// This compares all nodes at once with each node alone.
#[test]
fn backends_of_all_nodes_are_those_of_each_node() {
    let mut seed = 7_u32;
    let mut random = |below: u32| {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 16) % below
    };
    let (mut found, mut kept) = (0, 0);
    for round in 0..400 {
        let mut slice_of = |name: &str| {
            let endpoints: Vec<Value> = (0..random(6))
                .map(|_| {
                    let conditions = [
                        json!({}),
                        json!({"ready": false, "serving": true, "terminating": true}),
                        json!({"ready": false, "serving": false, "terminating": false}),
                    ];
                    let mut endpoint = json!({"addresses": [format!("10.0.1.{}", random(4))],
                        "conditions": conditions[random(3) as usize]});
                    if random(4) > 0 {
                        endpoint["nodeName"] = json!(format!("n{}", random(3)));
                    }
                    // In most rounds each endpoint has a random hint, because one endpoint without
                    // a hint makes kube-proxy ignore all.
                    if round % 4 > 0 && random(30) > 0 {
                        endpoint["hints"]["forZones"] = json!([{"name": format!("z{}", random(4))}]);
                    }
                    if round % 4 > 1 && random(30) > 0 {
                        endpoint["hints"]["forNodes"] = json!([{"name": format!("n{}", random(6))}]);
                    }
                    endpoint
                })
                .collect();
            slice(name, json!(endpoints))
        };
        let slices = [slice_of("a"), slice_of("b")];
        let service = read_service(service());
        let by_node = local_backends(&service, &slices, IpFamily::IPv4);
        for node in ["n0", "n1", "n2", "n3"] {
            let proxy = KubeProxy { node, ..KubeProxy::default() };
            let policies = TrafficPolicies { internal_local: true, ..TrafficPolicies::default() };
            let routes = proxy.routes(&service, policies, &slices, IpFamily::IPv4, Through::ClusterIp);
            let together: Vec<_> = by_node.get(node).into_iter().flatten().copied().collect();
            assert_eq!(together, routes.ports[0].backends, "{node}: {slices:?}");
            found += together.len();
        }
        let zones = [("n0", "z0"), ("n1", "z1"), ("n2", "z1"), ("n3", "")];
        let nodes = zones.map(|(name, zone)| {
            let zone = (!zone.is_empty()).then(|| zone.into());
            (Text::from(name), Arc::new(Node { name: name.into(), zone, ..Node::default() }))
        });
        let nodes = &nodes[..=round / 4 % 4];
        let mut by_zone: BTreeMap<Text, usize> = BTreeMap::new();
        nodes
            .iter()
            .for_each(|(_, node)| *by_zone.entry(node.zone.clone().unwrap_or_default()).or_default() += 1);
        let by_name = nodes.iter().cloned().collect();
        let all = Nodes { by_name: &by_name, by_zone: &by_zone };
        let together = cluster_backends(&service, &slices, IpFamily::IPv4, all);
        let of_client = |zone: &str, node: &str| {
            let proxy = KubeProxy { node, zone, ..KubeProxy::default() };
            let policies = TrafficPolicies::default();
            let routes = proxy.routes(&service, policies, &slices, IpFamily::IPv4, Through::ClusterIp);
            routes.ports.into_iter().flat_map(|port| port.backends)
        };
        let each: BTreeSet<SocketAddr> = nodes
            .iter()
            .flat_map(|(name, node)| of_client(node.zone.as_deref().unwrap_or_default(), name))
            .collect();
        assert_eq!(together, each, "{nodes:?}: {slices:?}");
        kept += usize::from(together.len() < of_client("", "").count());
    }
    assert!(found > 100, "{found}");
    assert!(kept > 10, "{kept}");
}
