//! Tests names of Services and endpoints with the cases of CoreDNS 1.14's `TestEndpointHostname`
//! and `TestServices` (`plugin/kubernetes/kubernetes_test.go`), and those of `TestServeDNS`,
//! `TestServeDNSEmptyService` and `TestPreserveCase` that ask for Services.
//!
//! The model has no names of pods, reverse names, zone transfers, names of several clusters, and no
//! names of zones (option `zonal`). The view of a Service holds its first cluster IP only, so
//! `svc-dual-stack` has one address here.

use kube_endpoint_core_model::{AddressType, EndpointSlice};
use kube_endpoint_explain::consumers::core_dns::{CoreDns, Question};
use serde_json::{Value, json};

use super::{label, read_service, service, slice};

fn headless() -> Value {
    let mut service = service();
    service["spec"]["clusterIP"] = json!("None");
    service
}

fn srv(port: &str, protocol: &str) -> Question {
    Question::Port { port: port.into(), protocol: protocol.into() }
}

/// Returns the answer as `NAME HOST PORT`, without absent parts.
fn answer(dns: CoreDns, service: Value, slices: &[EndpointSlice], question: &Question) -> Vec<String> {
    let records = dns.resolve(&read_service(service), slices, question);
    let print = |record: kube_endpoint_explain::consumers::core_dns::Record| {
        let port = record.port.map(|port| port.to_string());
        let words = [record.name.as_deref(), Some(&*record.host), port.as_deref()];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    records.into_iter().map(print).collect()
}

#[test]
fn endpoint_hostname() {
    let cases = [
        ("10.11.12.13", "", "10-11-12-13", "", false),
        ("10.11.12.13", "epname", "epname", "", false),
        ("10.11.12.13", "", "10-11-12-13", "hello-abcde", false),
        ("10.11.12.13", "epname", "epname", "hello-abcde", false),
        ("10.11.12.13", "epname", "epname", "hello-abcde", true),
        ("10.11.12.13", "", "hello-abcde", "hello-abcde", true),
        ("2001:db8:3333:4444:5555:6666:7777:8888", "", "2001-db8-3333-4444-5555-6666-7777-8888", "", false),
        ("2001:db8:3333:4444:5555:6666::", "", "2001-db8-3333-4444-5555-6666--0", "", false),
    ];
    for (address, hostname, expected, pod, endpoint_pod_names) in cases {
        let endpoint =
            json!({"addresses": [address], "hostname": hostname, "targetRef": {"kind": "Pod", "name": pod}});
        let dns = CoreDns { endpoint_pod_names, ..CoreDns::default() };
        let slices = [slice("a", json!([endpoint]))];
        let answer = answer(dns, headless(), &slices, &Question::Service);
        assert_eq!(answer, [format!("{expected} {address}")]);
    }
}

/// Returns the slices of `hdls1`.
fn hdls1() -> [EndpointSlice; 2] {
    let four = json!([
        {"addresses": ["172.0.0.2"]},
        {"addresses": ["172.0.0.3"]},
        {"addresses": ["172.0.0.4"], "hostname": "dup-name"},
        {"addresses": ["172.0.0.5"], "hostname": "dup-name"},
    ]);
    let six = json!([{"addresses": ["5678:abcd::1"]}, {"addresses": ["5678:abcd::2"]}]);
    let mut six = slice("b", six);
    six.address_type = kube_endpoint_core_model::AddressType::IPv6;
    [slice("a", four), six]
}

#[test]
fn neither_a_port_without_a_number_nor_a_domain_name_has_srv_records() {
    let ports = json!([{"name": "every", "protocol": "TCP"}, {"name": "zero", "protocol": "TCP", "port": 0}]);
    let mut numbers = slice("a", json!([{"addresses": ["10.0.0.1"]}]));
    numbers.ports = serde_json::from_value(ports).unwrap();
    let mut names = slice("b", json!([{"addresses": ["a.example.com"]}]));
    names.address_type = AddressType::Fqdn;
    let slices = [numbers, names];
    let answer = |question| answer(CoreDns::default(), headless(), &slices, &question);
    assert_eq!(answer(srv("every", "TCP")), Vec::<String>::new());
    assert_eq!(answer(srv("zero", "TCP")), ["10-0-0-1 10.0.0.1 0"]);
    assert_eq!(answer(srv("http", "TCP")), Vec::<String>::new());
    assert_eq!(answer(Question::Service).len(), 2);
}

/// Returns the Services of upstream's tests, and their slices.
fn services() -> Vec<(&'static str, Value, Vec<EndpointSlice>)> {
    let port = json!([{"name": "http", "port": 80, "protocol": "TCP"}]);
    let named =
        |name: &str, spec: Value| json!({"metadata": {"name": name, "namespace": "testns"}, "spec": spec});
    let cluster_ip = |name: &'static str, address: &str, endpoints: Value| {
        let service = named(name, json!({"clusterIP": address, "ports": port}));
        (name, service, vec![label(slice("a", endpoints), "kubernetes.io/service-name", name)])
    };
    let headless = |name: &'static str, slices: Vec<EndpointSlice>| {
        let label = |slice| label(slice, "kubernetes.io/service-name", name);
        (name, named(name, json!({"clusterIP": "None"})), slices.into_iter().map(label).collect())
    };
    let external = |slice| label(slice, "kubernetes.io/service-name", "external");
    let mut portless = slice("a", json!([{"addresses": ["172.0.0.20"]}]));
    portless.ports.clear();
    vec![
        cluster_ip("svc1", "10.0.0.1", json!([{"addresses": ["172.0.0.1"], "hostname": "ep1a"}])),
        cluster_ip("svcempty", "10.0.0.1", json!([])),
        cluster_ip("svc6", "1234:abcd::1", json!([])),
        cluster_ip("svc-dual-stack", "10.0.0.3", json!([])),
        headless("hdls1", hdls1().into()),
        headless("hdlsprtls", vec![portless]),
        (
            "external",
            named("external", json!({"type": "ExternalName", "ports": port})),
            hdls1().map(external).into(),
        ),
    ]
}

/// Asks for a name below `testns.svc`, as `TestServeDNS` does.
fn asked(dns: CoreDns, name: &str) -> Vec<String> {
    let labels: Vec<&str> = name.split('.').collect();
    let (question, service) = match labels[..] {
        [port, protocol, service] if port.starts_with('_') => (srv(&port[1..], &protocol[1..]), service),
        [endpoint, service] => (Question::Endpoint(endpoint.into()), service),
        _ => (Question::Service, name),
    };
    let found = services().into_iter().find(|(name, ..)| name.eq_ignore_ascii_case(service));
    found.map_or_else(Vec::new, |(_, service, slices)| answer(dns, service, &slices, &question))
}

#[test]
fn serve_dns() {
    let check = |name: &str, want: &[&str]| assert_eq!(asked(CoreDns::default(), name), want, "{name}");
    // commonDnsTestCases
    check("svc1", &["10.0.0.1"]);
    check("_http._tcp.svc1", &["10.0.0.1 80"]);
    check("_http._tcp.svcempty", &["10.0.0.1 80"]);
    let hdls1 = [
        "172-0-0-2 172.0.0.2",
        "172-0-0-3 172.0.0.3",
        "dup-name 172.0.0.4",
        "dup-name 172.0.0.5",
        "5678-abcd--1 5678:abcd::1",
        "5678-abcd--2 5678:abcd::2",
    ];
    check("hdls1", &hdls1);
    check("hdlsprtls", &["172-0-0-20 172.0.0.20"]);
    check("svc0", &[]);
    check("bogusendpoint.hdls1", &[]);
    check("bogusendpoint.svc0", &[]);
    check("svc6", &["1234:abcd::1"]);
    check("_http._tcp.svc6", &["1234:abcd::1 80"]);
    check("svc-dual-stack", &["10.0.0.3"]);
    check("external", &[]);
    check("endpoint.external", &[]);
    // dnsTestCases
    check("_http._tcp.hdls1", &hdls1.map(|record| format!("{record} 80")).each_ref().map(|it| &**it));
    check("_http._udp.hdls1", &[]);
    check("_http._tcp.hdlsprtls", &[]);
    check("5678-abcd--2.hdls1", &["5678-abcd--2 5678:abcd::2"]);
    check("5678-abcd--1.hdls1", &["5678-abcd--1 5678:abcd::1"]);
    check("172-0-0-20.hdlsprtls", &["172-0-0-20 172.0.0.20"]);
    check("172-0-0-2.hdls1", &["172-0-0-2 172.0.0.2"]);
    check("172-0-0-3.hdls1", &["172-0-0-3 172.0.0.3"]);
    check("dup-name.hdls1", &["dup-name 172.0.0.4", "dup-name 172.0.0.5"]);
    check("DUP-name.hdls1", &["dup-name 172.0.0.4", "dup-name 172.0.0.5"]);
    // TestServices
    check("ep1a.svc1", &["ep1a 172.0.0.1"]);
    check("_http._tcp.svc-dual-stack", &["10.0.0.3 80"]);
    // TestPreserveCase; upstream compares the names of Services in the same way.
    check("SvC1", &["10.0.0.1"]);
    check("_HtTp._TcP.sVc1", &["10.0.0.1 80"]);
}

#[test]
fn serve_dns_empty_service() {
    let dns = CoreDns { ignore_empty_service: true, ..CoreDns::default() };
    assert_eq!(asked(dns, "svcempty"), Vec::<String>::new());
    assert_eq!(asked(dns, "svc1"), ["10.0.0.1"]);
}
