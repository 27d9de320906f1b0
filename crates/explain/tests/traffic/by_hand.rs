//! Tests ports and addresses of endpoints that somebody writes by hand.

use kube_endpoint_explain::Problem;
use serde_json::json;

use super::*;

/// Returns a Service without a selector, and Endpoints with one address.
fn by_hand(service_ports: Value, ports: Value) -> Cluster {
    by_hand_with(service_ports, json!([{"addresses": [{"ip": "10.9.0.1"}], "ports": ports}]))
}

fn by_hand_with(service_ports: Value, subsets: Value) -> Cluster {
    settled(
        Cluster::new()
            .with(json!({"kind": "Service", "metadata": {"name": "web"},
                "spec": {"clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"], "ports": service_ports}}))
            .with(json!({"kind": "Endpoints", "metadata": {"name": "web"}, "subsets": subsets})),
    )
}

#[test]
fn ports_of_endpoints_are_matched_by_name_and_protocol() {
    let check = |service_ports: Value, ports: Value, want: &str| {
        assert_eq!(headline(&by_hand(service_ports, ports), ""), want);
    };
    let differ = "and ports are matched by name and protocol";
    check(json!([{"port": 80}]), json!([{"port": 8080}]), "ok EP000 1 of 1 addresses receive traffic");
    check(
        json!([{"port": 80}]),
        json!([{"name": "other", "port": 8080}]),
        &format!(
            "down EP045 0 of 1 addresses receive traffic; no ready endpoint has the port without a name (TCP) of the Service: endpoints have the port \"other\" (TCP), {differ}"
        ),
    );
    check(
        json!([{"name": "dns", "port": 53, "protocol": "UDP"}]),
        json!([{"name": "dns", "port": 53}]),
        &format!(
            "down EP045 0 of 1 addresses receive traffic; no ready endpoint has the port \"dns\" (UDP) of the Service: endpoints have the port \"dns\" (TCP), {differ}"
        ),
    );
    check(
        json!([{"name": "http", "port": 80}, {"name": "metrics", "port": 9100}]),
        json!([{"name": "http", "port": 8080}]),
        "degraded EP045 1 of 1 addresses receive traffic; no ready endpoint has the port \"metrics\" (TCP) of the Service",
    );
    check(
        json!([{"name": "http", "port": 80}]),
        json!([{"name": "http", "port": 8080}, {"name": "metrics", "port": 9100}]),
        "ok EP000 1 of 1 addresses receive traffic",
    );
}

/// Returns a Service with the port `http` and no selector, and a slice that somebody wrote.
fn slice_by_hand(port: Value, ready: bool) -> Cluster {
    Cluster::new()
        .with(json!({"kind": "Service", "metadata": {"name": "web"},
            "spec": {"clusterIP": "10.96.0.10", "ipFamilies": ["IPv4"], "ports": [{"name": "http", "port": 80}]}}))
        .with(json!({"kind": "EndpointSlice", "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "ports": [port],
            "endpoints": [{"addresses": ["10.9.0.1"], "conditions": {"ready": ready}}]}))
}

/// Slices show the fault of endpoints that somebody wrote by hand, even if the reader may not read
/// Endpoints.
#[test]
fn without_endpoints_the_slices_tell_why_there_is_no_traffic() {
    let other = || json!({"name": "other", "port": 8080});
    let mirrored = || by_hand(json!([{"name": "http", "port": 80}]), json!([other()]));
    let not_ready = |ready: Value| {
        let ports = json!([{"port": 8080}]);
        by_hand(json!([{"port": 80}]), ports.clone()).select("Endpoints", "web").change(move |object| {
            object["subsets"] =
                json!([{"addresses": ready, "notReadyAddresses": [{"ip": "10.9.0.2"}], "ports": ports}]);
        })
    };
    let check = |cluster: &Cluster, full: &str, part: &str| {
        assert_eq!((&*codes(cluster, ""), &*codes(cluster, "endpoints")), (full, part));
    };
    let port_differs = "down EP045: EP045";
    check(&slice_by_hand(other(), true), port_differs, port_differs);
    check(
        &slice_by_hand(json!({"name": "http", "port": 80}), false),
        "down EP044: EP044",
        "down EP044: EP044",
    );
    check(&mirrored(), port_differs, port_differs);
    check(&settled(not_ready(json!([]))), "down EP044: EP044", "down EP001: EP001");
    check(&settled(not_ready(json!([{"ip": "10.9.0.1"}]))), "ok EP000: ", "unknown EP001: EP001");
}

/// The remedy does not ask for ports that the Endpoints already have: the slices that mirror them
/// are late.
#[test]
fn ports_that_are_about_to_be_mirrored_are_not_called_wrong() {
    let service = || json!([{"port": 80}]);
    let change = |cluster: Cluster, ports: Value| {
        cluster.select("Endpoints", "web").change(move |object| object["subsets"][0]["ports"] = ports.clone())
    };
    let wrong = || by_hand(service(), json!([{"name": "other", "port": 8080}]));
    let right = || by_hand(service(), json!([{"port": 8080}]));
    assert_eq!(codes(&change(wrong(), json!([{"port": 8080}])), ""), "down EP050: EP050");
    assert_eq!(
        codes(&change(wrong(), json!([{"name": "third", "port": 8080}])), ""),
        "down EP045: EP045 EP050"
    );
    assert_eq!(
        codes(&change(right(), json!([{"name": "other", "port": 8080}])), ""),
        "degraded EP050: EP050"
    );
}

#[test]
fn remedies_for_ports_can_be_carried_out() {
    let advice = |cluster: Cluster| {
        let explanation = explained(&cluster, "");
        let advice = explanation.to_do.iter().find(|advice| advice.code.id() == "EP045").unwrap();
        format!("{}\n  {}", advice.message, advice.remedy.sentence)
    };
    let by_hand = |service: Value, ports: Value| advice(by_hand(service, ports));
    let two = || json!([{"name": "http", "port": 80}, {"name": "metrics", "port": 9100}]);
    let http = || json!([{"name": "http", "port": 80}]);
    let subsets = by_hand_with(
        http(),
        json!([
            {"addresses": [{"ip": "10.9.0.1"}], "ports": [{"name": "x", "port": 1}]},
            {"addresses": [{"ip": "10.9.0.2"}], "ports": [{"name": "x", "port": 2}]},
        ]),
    );
    let texts = [
        by_hand(json!([{"port": 53, "protocol": "UDP"}]), json!([{"port": 53}])),
        by_hand(
            json!([{"name": "dns", "port": 53, "protocol": "UDP"}]),
            json!([{"name": "dns", "port": 53}]),
        ),
        by_hand(json!([{"port": 53, "protocol": "UDP"}]), json!([{"name": "dns", "port": 53}])),
        by_hand(http(), json!([])),
        by_hand(json!([{"port": 80}]), json!([])),
        by_hand(http(), json!([{"port": 8080}])),
        by_hand(json!([{"port": 80}]), json!([{"name": "other", "port": 8080}])),
        by_hand(two(), json!([{"port": 8080}])),
        by_hand(two(), json!([])),
        by_hand(two(), json!([{"name": "http", "port": 80, "protocol": "UDP"}])),
        by_hand(two(), json!([{"name": "http", "port": 80}, {"name": "x", "port": 81}])),
        advice(slice_by_hand(json!({"name": "http"}), true)),
        advice(subsets),
    ];
    insta::assert_snapshot!(texts.join("\n"));
}

#[test]
fn addresses_over_the_maximum_are_not_called_wrong() {
    let addresses: Vec<Value> =
        (0..1_103).map(|at| json!({"ip": format!("10.9.{}.{}", at / 250, 1 + at % 250)})).collect();
    let cluster = settled(
        by_hand(json!([{"port": 80}]), json!([{"port": 8080}])).select("Endpoints", "web").change(|object| {
            object["subsets"][0]["addresses"] = addresses.clone().into();
        }),
    );
    insta::assert_snapshot!(text(&cluster, ""));
}

/// Returns a Service without a selector, and a slice with a ready endpoint of another type of
/// address.
fn of_type(spec: Value, address_type: &str) -> Cluster {
    let address = match address_type {
        "IPv4" => "10.9.0.1",
        "IPv6" => "fd00::9",
        _ => "db.example.com",
    };
    Cluster::new()
        .with(json!({"kind": "Service", "metadata": {"name": "web"}, "spec": spec}))
        .with(json!({"kind": "EndpointSlice", "metadata": {"name": "web-1", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": address_type, "ports": [{"name": "", "port": 80}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}]}))
}

#[test]
fn addresses_count_if_the_service_has_their_family() {
    let with =
        |families: Value| json!({"clusterIP": "10.96.0.10", "ipFamilies": families, "ports": [{"port": 80}]});
    let check = |spec: Value, address_type: &str, want: &str| {
        assert_eq!(headline(&of_type(spec, address_type), ""), want);
    };
    let ok = "ok EP000 1 of 1 addresses receive traffic";
    let differs = |status: &str, receive: &str, family: &str, has: &str| {
        format!(
            "{status} EP046 {receive} of 1 addresses receive traffic; no ready endpoint has an {family} address; the ready ones have {has}"
        )
    };
    check(with(json!(["IPv4"])), "IPv4", ok);
    check(with(json!(["IPv4"])), "IPv6", &differs("down", "0", "IPv4", "IPv6 addresses"));
    check(with(json!(["IPv6"])), "IPv4", &differs("down", "0", "IPv6", "IPv4 addresses"));
    // The cluster IP of the other family has no endpoint.
    check(with(json!(["IPv4", "IPv6"])), "IPv6", &differs("degraded", "1", "IPv4", "IPv6 addresses"));
    check(with(json!(["IPv4", "IPv6"])), "FQDN", &differs("down", "0", "IPv4 or IPv6", "domain names"));
    // An older server has set no families, so that of the cluster IP counts.
    check(with(json!([])), "IPv6", &differs("down", "0", "IPv4", "IPv6 addresses"));
    // DNS has all addresses.
    check(json!({"clusterIP": "None", "ipFamilies": ["IPv4"], "ports": [{"port": 80}]}), "IPv6", ok);
}

/// An alias has no endpoints, whatever slices there are.
#[test]
fn slices_of_an_alias_count_for_nothing() {
    let spec = json!({"type": "ExternalName", "externalName": "db.example.com", "ports": [{"port": 80}]});
    let counts = explained(&of_type(spec, "IPv4"), "").pods_by_publication;
    assert_eq!((counts.ready, counts.receiving), (1, Some(0)));
}

/// The slices of pods follow the same rule, even if the reader may not read pods.
#[test]
fn pods_receive_traffic_through_slices_that_the_service_uses() {
    let check = |change: fn(&mut Value)| {
        let cluster = web(2, 0).select("Service", "web").change(change);
        for (forbidden, what) in [("", "pods"), ("pods", "addresses")] {
            let headline = headline(&cluster, forbidden);
            assert!(headline.contains(&format!(" 0 of 2 {what} receive traffic")), "{headline}");
        }
        assert!(codes(&cluster, "").starts_with("down EP050"), "{}", codes(&cluster, ""));
    };
    check(|service| service["spec"]["ports"][0]["name"] = json!("renamed"));
    check(|service| {
        service["spec"]["ipFamilies"] = json!(["IPv6"]);
        service["spec"]["clusterIP"] = json!("fd00::1");
    });
}

/// DNS, which clients of a headless Service ask, gives addresses whatever the ports are.
#[test]
fn slices_of_a_headless_service_are_used_with_any_port() {
    let cluster = web(2, 0).select("Service", "web").change(|service| {
        service["spec"]["clusterIP"] = json!("None");
        service["spec"]["ports"][0]["name"] = json!("renamed");
    });
    for (forbidden, what) in [("", "pods"), ("pods", "addresses")] {
        let headline = headline(&cluster, forbidden);
        assert!(headline.contains(&format!(" 2 of 2 {what} receive traffic")), "{headline}");
    }
}

/// Why they receive no traffic is known.
#[test]
fn endpoints_of_another_family_leave_nothing_open() {
    let cluster = web(2, 0).with(json!({"kind": "EndpointSlice",
        "metadata": {"name": "web-other", "labels": {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "example.com"}},
        "addressType": "IPv6", "ports": [{"name": "", "port": 8080}], "endpoints": [{"addresses": ["fd00::9"], "conditions": {"ready": true}}]}));
    assert!(headline(&cluster, "").starts_with("ok "), "{}", headline(&cluster, ""));
    assert!(headline(&cluster, "pods").starts_with("unknown "), "{}", headline(&cluster, "pods"));
}

#[test]
fn endpoints_of_two_families_for_one_are_no_fault() {
    let both = json!([{"addresses": [{"ip": "10.9.0.1"}, {"ip": "fd00::9"}], "ports": [{"port": 80}]}]);
    let cluster = by_hand_with(json!([{"port": 80}]), both);
    assert_eq!(headline(&cluster, ""), "ok EP000 1 of 2 addresses receive traffic");
}

/// Returns a dual-stack Service without a selector, and a slice with a ready endpoint of each
/// family that has ports.
fn dual_stack(service: Value, ipv4: Option<Value>, ipv6: Option<Value>) -> Cluster {
    let spec = json!({"clusterIP": "10.96.0.10", "ipFamilies": ["IPv4", "IPv6"], "ports": service});
    let cluster = Cluster::new().with(json!({"kind": "Service", "metadata": {"name": "web"}, "spec": spec}));
    let slices = [("IPv4", "10.9.0.1", ipv4), ("IPv6", "fd00::9", ipv6)];
    slices.into_iter().fold(cluster, |cluster, (family, address, ports)| match ports {
        None => cluster,
        Some(ports) => cluster.with(json!({"kind": "EndpointSlice", "addressType": family, "ports": ports,
            "metadata": {"name": format!("web-{}", family.to_lowercase()), "labels": {"kubernetes.io/service-name": "web"}},
            "endpoints": [{"addresses": [address], "conditions": {"ready": true}}]})),
    })
}

/// Returns the status, the faults of the Service and their remedies.
fn faults_and_remedies(cluster: &Cluster) -> String {
    let explained = explained(cluster, "");
    let faults = explained.faults.iter().map(|fault| format!("{}: {fault}", fault.code().id()));
    let remedies = explained.to_do.iter().map(|step| format!("-> {}", step.remedy.sentence));
    let lines: Vec<String> = faults.chain(remedies).collect();
    format!("{:?}\n{}", explained.verdict.status, lines.join("\n"))
}

/// kube-proxy has rules of its own for each family.
#[test]
fn each_family_needs_the_ports() {
    let port = |name: &str| json!({"name": name, "port": 80});
    let ports = |names: &[&str]| Value::from(names.iter().map(|name| port(name)).collect::<Vec<_>>());
    let check = |service: &[&str], ipv4: Option<&[&str]>, ipv6: Option<&[&str]>| {
        faults_and_remedies(&dual_stack(ports(service), ipv4.map(ports), ipv6.map(ports)))
    };
    insta::assert_snapshot!(check(&[""], Some(&[""]), Some(&[""])), @r"
    Ok
    ");
    insta::assert_snapshot!(check(&[""], Some(&[""]), Some(&["web"])), @r#"
    Degraded
    EP045: no ready IPv6 endpoint has the port without a name (TCP) of the Service: IPv6 endpoints have the port "web" (TCP), and ports are matched by name and protocol
    -> Remove the name from the port of the IPv6 endpoints
    "#);
    insta::assert_snapshot!(check(&["http"], Some(&["http"]), Some(&["web"])), @r#"
    Degraded
    EP045: no ready IPv6 endpoint has the port "http" (TCP) of the Service: IPv6 endpoints have the port "web" (TCP), and ports are matched by name and protocol
    -> Give the IPv6 endpoints the port "http" (TCP)
    "#);
    insta::assert_snapshot!(check(&["http"], Some(&["web"]), Some(&["web"])), @r#"
    Down
    EP045: no ready endpoint has the port "http" (TCP) of the Service: endpoints have the port "web" (TCP), and ports are matched by name and protocol
    -> Give the endpoints the port "http" (TCP), or give the Service the port "web" (TCP)
    "#);
    // The explanation tells each fault.
    insta::assert_snapshot!(check(&["http", "admin"], Some(&["http"]), Some(&["admin"])), @r#"
    Degraded
    EP045: no ready IPv4 endpoint has the port "admin" (TCP) of the Service
    EP045: no ready IPv6 endpoint has the port "http" (TCP) of the Service
    -> Give the IPv4 endpoints the port "admin" (TCP)
    -> Give the IPv6 endpoints the port "http" (TCP)
    "#);
    insta::assert_snapshot!(check(&["http", "admin"], Some(&["http"]), None), @r#"
    Degraded
    EP045: no ready endpoint has the port "admin" (TCP) of the Service
    EP046: no ready endpoint has an IPv6 address; the ready ones have IPv4 addresses
    -> Give the endpoints the port "admin" (TCP)
    -> Write ready endpoints with IPv6 addresses, too, or make the Service single-stack: it then keeps IPv4, its first family
    "#);
}

#[test]
fn ports_are_compared_in_slices_of_the_services_family() {
    let subsets = json!([
        {"addresses": [{"ip": "10.9.0.1"}], "ports": [{"name": "other", "port": 8080}]},
        {"addresses": [{"ip": "fd00::9"}], "ports": [{"port": 80}]},
    ]);
    let cluster = by_hand_with(json!([{"port": 80}]), subsets);
    insta::assert_snapshot!(faults_and_remedies(&cluster), @r#"
    Down
    EP045: no ready IPv4 endpoint has the port without a name (TCP) of the Service: IPv4 endpoints have the port "other" (TCP), and ports are matched by name and protocol
    EP062: kube-proxy ignores slice web-00002: it holds IPv6 addresses, and the Service is IPv4
    -> Remove the name from the port of the IPv4 endpoints
    -> Nothing, if other clients than kube-proxy read the slice
    "#);
}

#[test]
fn addresses_that_are_about_to_be_mirrored_are_not_called_wrong() {
    let wrong = by_hand_with(
        json!([{"port": 80}]),
        json!([{"addresses": [{"ip": "fd00::9"}], "ports": [{"port": 80}]}]),
    );
    assert_eq!(codes(&wrong, ""), "down EP046: EP046");
    assert_eq!(codes(&wrong, "endpoints"), "down EP046: EP046");
    let mended = wrong
        .select("Endpoints", "web")
        .change(|object| object["subsets"][0]["addresses"] = json!([{"ip": "10.9.0.1"}]));
    assert_eq!(codes(&mended, ""), "down EP050: EP050");
}

#[test]
fn remedies_for_families_name_what_can_be_done() {
    let remedy = |families: Value, address_type| {
        let spec = json!({"clusterIP": "10.96.0.10", "ipFamilies": families, "ports": [{"port": 80}]});
        explained(&of_type(spec, address_type), "").to_do.swap_remove(0).remedy.sentence
    };
    insta::assert_snapshot!(remedy(json!(["IPv4"]), "IPv6"), @"Write ready endpoints with IPv4 addresses, or create the Service anew with spec.ipFamilies: [IPv6] and without spec.clusterIP and spec.clusterIPs");
    insta::assert_snapshot!(remedy(json!(["IPv4", "IPv6"]), "IPv4"), @"Write ready endpoints with IPv6 addresses, too, or make the Service single-stack: it then keeps IPv4, its first family");
    insta::assert_snapshot!(remedy(json!(["IPv6", "IPv4"]), "IPv4"), @"Write ready endpoints with IPv6 addresses, or create the Service anew with spec.ipFamilies: [IPv4] and without spec.clusterIP and spec.clusterIPs");
    insta::assert_snapshot!(remedy(json!(["IPv4"]), "FQDN"), @"Write IPv4 addresses, because kube-proxy ignores domain names, or use a Service with spec.type ExternalName");
}
