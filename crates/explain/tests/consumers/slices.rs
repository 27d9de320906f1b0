//! Slices and their ports, addresses and duplicates: the cases of `TestEndpointsMapFromESC` and
//! `TestEndpointInfoByServicePort` (`pkg/proxy/endpointslicecache_test.go`, Kubernetes 1.36), and what
//! the informers of kube-proxy leave out.

use kube_endpoint_core_model::{EndpointSlice, IpFamily};
use kube_endpoint_explain::consumers::kube_proxy::{
    IgnoredPort, IgnoredService, IgnoredSlice, KubeProxy, PortRoutes, Routes, Through, TrafficPolicies,
    Unused,
};
use serde_json::{Value, json};

use super::{label, read_service, service, slice};

/// `count` endpoints `10.0.NUMBER.1` and so on. Every `unready`th is not ready, and every
/// `terminating`th terminates instead, as upstream's `generateEndpointSlice` makes them.
fn endpoints(number: usize, count: usize, unready: usize, terminating: usize) -> Value {
    let endpoint = |at: usize| {
        let mut conditions = json!({"ready": true, "serving": true, "terminating": false});
        if at.is_multiple_of(unready) {
            conditions = json!({"ready": false, "serving": false, "terminating": false});
        }
        if at.is_multiple_of(terminating) {
            conditions = json!({"ready": false, "serving": true, "terminating": true});
        }
        json!({"addresses": [format!("10.0.{number}.{at}")], "conditions": conditions})
    };
    (1..=count).map(endpoint).collect()
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

#[test]
fn one_slice_2_hosts_ports_80_443() {
    let mut service = service();
    service["spec"]["ports"] = json!([
        {"name": "port-0", "port": 1, "protocol": "TCP"},
        {"name": "port-1", "port": 2, "protocol": "TCP"},
    ]);
    let mut slice = slice("web-1", endpoints(1, 3, 999, 999));
    slice.ports = serde_json::from_value(json!([
        {"name": "port-0", "port": 80, "protocol": "TCP"},
        {"name": "port-1", "port": 443, "protocol": "TCP"},
    ]))
    .unwrap();
    let service = read_service(service);
    let policies = TrafficPolicies::default();
    let routes =
        KubeProxy::default().routes(&service, policies, [&slice], IpFamily::IPv4, Through::ClusterIp);
    let backends: Vec<String> = routes.ports.iter().map(|port| addresses(&port.backends)).collect();
    assert_eq!(backends, ["10.0.1.1:80 10.0.1.2:80 10.0.1.3:80", "10.0.1.1:443 10.0.1.2:443 10.0.1.3:443"]);
}

#[test]
fn two_slices_same_port() {
    let slices = [slice("a", endpoints(1, 3, 999, 999)), slice("b", endpoints(2, 3, 999, 999))];
    assert_eq!(backends(&slices), "10.0.1.1:80 10.0.1.2:80 10.0.1.3:80 10.0.2.1:80 10.0.2.2:80 10.0.2.3:80");
}

#[test]
fn two_overlapping_slices_same_port() {
    let slices = [slice("a", endpoints(1, 3, 999, 999)), slice("b", endpoints(1, 4, 999, 999))];
    assert_eq!(backends(&slices), "10.0.1.1:80 10.0.1.2:80 10.0.1.3:80 10.0.1.4:80");
}

/// Upstream's case expects one of two answers, which Go's map decides. The model names the addresses.
#[test]
fn two_slices_overlapping_endpoints_some_endpoints_unready_in_1_or_both() {
    let slices = [slice("a", endpoints(1, 10, 3, 999)), slice("b", endpoints(1, 10, 6, 999))];
    let port = port(&slices);
    assert_eq!(addresses(&port.undefined), "10.0.1.3:80 10.0.1.9:80");
    let unused: Vec<_> = port.unused.iter().map(|(address, reason)| (address.to_string(), *reason)).collect();
    let not_ready = |address: &str| (address.to_owned(), Unused::NotReady);
    assert_eq!(unused, ["10.0.1.3:80", "10.0.1.6:80", "10.0.1.9:80"].map(not_ready));
}

#[test]
fn two_slices_overlapping_endpoints_some_endpoints_unready_and_some_endpoints_terminating() {
    let slices = [slice("a", endpoints(1, 10, 3, 5)), slice("b", endpoints(1, 10, 6, 5))];
    let port = port(&slices);
    let terminating = port.unused.iter().filter(|(_, reason)| *reason == Unused::Terminating);
    assert_eq!(addresses(terminating.map(|(address, _)| address)), "10.0.1.5:80 10.0.1.10:80");
}

#[test]
fn two_slices_overlapping_endpoints_all_unready() {
    let slices = [slice("a", endpoints(1, 10, 1, 999)), slice("b", endpoints(1, 10, 1, 999))];
    let port = port(&slices);
    assert_eq!((port.backends.len(), port.unused.len(), port.undefined.len()), (0, 10, 0));
}

#[test]
fn three_slices_with_different_services() {
    let other = label(slice("b", endpoints(2, 3, 999, 999)), "kubernetes.io/service-name", "api");
    let slices = [slice("a", endpoints(1, 3, 999, 999)), other];
    let routes = routes(&slices);
    assert_eq!(addresses(&routes.ports[0].backends), "10.0.1.1:80 10.0.1.2:80 10.0.1.3:80");
    assert_eq!(routes.ignored_slices, [("b".into(), IgnoredSlice::OtherService)]);
}

#[test]
fn nil_port_should_not_break_anything() {
    let mut slice = slice("a", endpoints(1, 3, 999, 999));
    slice.ports[0].port = None;
    let routes = routes(&[slice]);
    assert_eq!(
        routes.ports[0],
        PortRoutes { name: "http".into(), protocol: "TCP".into(), ..PortRoutes::default() }
    );
    assert_eq!(routes.ignored_ports, [("a".into(), IgnoredPort::NoNumber("http".into()))]);
}

#[test]
fn different_endpoints_with_duplicate_ips_should_not_be_filtered() {
    let mut other = slice("b", endpoints(1, 2, 999, 999));
    other.ports[0].port = Some(8080);
    let slices = [slice("a", endpoints(1, 2, 999, 999)), other];
    assert_eq!(backends(&slices), "10.0.1.1:80 10.0.1.1:8080 10.0.1.2:80 10.0.1.2:8080");
}

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
    let headless = label(slice("a", endpoints(1, 3, 999, 999)), "service.kubernetes.io/headless", "false");
    let routes = routes(&[headless]);
    assert_eq!(routes.ignored_slices, [("a".into(), IgnoredSlice::Headless)]);
    assert!(routes.ports[0].backends.is_empty());
}

#[test]
fn a_slice_of_the_other_family_and_a_port_of_another_name_or_protocol_are_ignored() {
    let mut other_family = slice("a", json!([{"addresses": ["fd00::1"]}]));
    other_family.address_type = kube_endpoint_core_model::AddressType::IPv6;
    let mut other_ports = slice("b", endpoints(1, 1, 999, 999));
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
    assert_eq!(ignored(json!({}), IpFamily::IPv4, Through::External), Some(IgnoredService::NotExternal));
}
