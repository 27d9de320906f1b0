//! Tests the allocation of cluster IPs and node ports over the life of Services.

use kube_endpoint_apiserver_rules::strategy::{self, ClusterIps, Subresource};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{base, create, merge, resource};

fn made(ips: &mut ClusterIps, fields: &str) -> Value {
    let mut service = create("Service", &format!(r#"{{"spec": {fields}}}"#)).unwrap().object;
    ips.allocate(None, &mut service).unwrap();
    service
}

fn refused(ips: &mut ClusterIps, fields: &str) -> String {
    let mut service = create("Service", &format!(r#"{{"spec": {fields}}}"#)).unwrap().object;
    ips.allocate(None, &mut service).unwrap_err().message
}

/// Updates a Service as the server does: strategy, then allocation.
fn changed(ips: &mut ClusterIps, old: &Value, fields: &str) -> Value {
    let mut old = old.clone();
    old["metadata"]["resourceVersion"] = "1".into();
    let new = strategy::decode(resource("Service"), merge(old.clone(), &format!(r#"{{"spec": {fields}}}"#)));
    let decided =
        strategy::before_update(resource("Service"), &old, new.unwrap().object, Subresource::None).unwrap();
    let mut new = decided.object;
    ips.allocate(Some(&old), &mut new).unwrap();
    new
}

fn addresses(service: &Value) -> Vec<&str> {
    service["spec"]["clusterIPs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

#[test]
fn addresses_count_up_in_both_families() {
    let mut ips = crate::rules::cluster_ips();
    assert_eq!(addresses(&made(&mut ips, "{}")), ["10.96.1.1"]);
    let dual = made(&mut ips, r#"{"ipFamilyPolicy": "RequireDualStack"}"#);
    assert_eq!(addresses(&dual), ["10.96.1.2", "fd00:10:96::101"]);
    assert_eq!(dual["spec"]["clusterIP"], "10.96.1.2");
    assert_eq!(addresses(&made(&mut ips, r#"{"ipFamilies": ["IPv6"]}"#)), ["fd00:10:96::102"]);
    let six_first = made(&mut ips, r#"{"ipFamilies": ["IPv6"], "ipFamilyPolicy": "PreferDualStack"}"#);
    assert_eq!(addresses(&six_first), ["fd00:10:96::103", "10.96.1.3"]);
    assert_eq!(addresses(&made(&mut ips, r#"{"clusterIP": "None"}"#)), ["None"]);
    assert_eq!(addresses(&made(&mut ips, r#"{"type": "ExternalName", "externalName": "a.b"}"#)), [""; 0]);
}

#[test]
fn a_requested_address_is_allocated_once() {
    let mut ips = crate::rules::cluster_ips();
    assert_eq!(addresses(&made(&mut ips, r#"{"clusterIP": "10.96.0.1"}"#)), ["10.96.0.1"]);
    let start = r#"Service "name" is invalid: spec.clusterIPs: Invalid value: "#;
    assert_eq!(
        refused(&mut ips, r#"{"clusterIP": "10.96.0.1"}"#),
        format!(r#"{start}["10.96.0.1"]: failed to allocate IP 10.96.0.1: provided IP is already allocated"#)
    );
    assert_eq!(
        refused(&mut ips, r#"{"clusterIP": "10.97.0.1"}"#),
        format!(
            r#"{start}["10.97.0.1"]: failed to allocate IP 10.97.0.1: the provided IP (10.97.0.1) is not in the valid range. The range of valid IPs is 10.96.0.0/16"#
        )
    );
    assert_eq!(addresses(&made(&mut ips, "{}")), ["10.96.1.1"]);
}

/// The manifest of a cluster's DNS asks for the tenth address after many Services exist.
#[test]
fn services_without_a_wish_leave_the_first_addresses_and_ports() {
    let mut ips = crate::rules::cluster_ips();
    for _ in 0..300 {
        made(&mut ips, r#"{"type": "NodePort"}"#);
    }
    let dns =
        r#"{"type": "NodePort", "clusterIP": "10.96.0.10", "ports": [{"port": 53, "nodePort": 30053}]}"#;
    assert_eq!(addresses(&made(&mut ips, dns)), ["10.96.0.10"]);
    // Beyond the band nothing is reserved.
    let taken = refused(&mut ips, r#"{"clusterIP": "10.96.1.1"}"#);
    assert!(taken.ends_with("provided IP is already allocated"), "{taken}");
}

#[test]
fn a_second_family_is_added_and_released() {
    let mut ips = crate::rules::cluster_ips();
    let single = made(&mut ips, "{}");
    let dual = changed(&mut ips, &single, r#"{"ipFamilyPolicy": "PreferDualStack"}"#);
    assert_eq!(addresses(&dual), ["10.96.1.1", "fd00:10:96::101"]);
    assert_eq!(dual["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    let single = changed(&mut ips, &dual, r#"{"ipFamilyPolicy": "SingleStack"}"#);
    assert_eq!(addresses(&single), ["10.96.1.1"]);
    let asked = made(&mut ips, r#"{"clusterIP": "fd00:10:96::101"}"#);
    assert_eq!(asked["spec"]["ipFamilies"], json!(["IPv6"]));
}

#[test]
fn external_name_releases_addresses() {
    let mut ips = crate::rules::cluster_ips();
    let service = made(&mut ips, r#"{"type": "NodePort"}"#);
    assert_eq!(service["spec"]["ports"][0]["nodePort"], 30086);
    let name = changed(&mut ips, &service, r#"{"type": "ExternalName", "externalName": "a.b"}"#);
    assert_eq!(addresses(&name), [""; 0]);
    assert_eq!(addresses(&made(&mut ips, r#"{"clusterIP": "10.96.1.1"}"#)), ["10.96.1.1"]);
    let again = changed(&mut ips, &name, r#"{"type": "ClusterIP", "externalName": null}"#);
    assert_eq!(addresses(&again), ["10.96.1.2"]);
    let port = r#"{"type": "NodePort", "ports": [{"port": 80, "nodePort": 30086}]}"#;
    assert_eq!(made(&mut ips, port)["spec"]["ports"][0]["nodePort"], 30086);
}

#[test]
fn node_ports() {
    let mut ips = crate::rules::cluster_ips();
    let both = r#"{"type": "NodePort", "ports": [
        {"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}, {"name": "w", "port": 80}]}"#;
    let service = made(&mut ips, both);
    let ports = |service: &Value| -> Vec<i64> {
        service["spec"]["ports"].as_array().unwrap().iter().filter_map(|p| p["nodePort"].as_i64()).collect()
    };
    // A port number with two protocols gets one node port.
    assert_eq!(ports(&service), [30086, 30086, 30087]);
    let taken = r#"{"type": "NodePort", "ports": [{"port": 1, "nodePort": 30087}]}"#;
    assert_eq!(
        refused(&mut ips, taken),
        r#"Service "name" is invalid: spec.ports[0].nodePort: Invalid value: 30087: provided port is already allocated"#
    );
    let out = r#"{"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]}"#;
    assert_eq!(
        refused(&mut ips, out),
        r#"Service "name" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767"#
    );
    let local = made(&mut ips, r#"{"type": "LoadBalancer", "externalTrafficPolicy": "Local"}"#);
    assert_eq!((ports(&local), &local["spec"]["healthCheckNodePort"]), (vec![30088], &json!(30089)));
    let without = made(&mut ips, r#"{"type": "LoadBalancer", "allocateLoadBalancerNodePorts": false}"#);
    assert_eq!(ports(&without), [0; 0]);
    ips.release(&service);
    assert_eq!(ports(&made(&mut ips, taken)), [30087]);
}

#[test]
fn loaded_services_occupy_their_addresses() {
    let mut ips = crate::rules::cluster_ips();
    let loaded =
        json!({"spec": {"type": "ClusterIP", "clusterIP": "10.96.1.1", "clusterIPs": ["10.96.1.1"]}});
    ips.occupy(&loaded);
    assert_eq!(addresses(&made(&mut ips, "{}")), ["10.96.1.2"]);
    ips.release(&loaded);
    assert_eq!(addresses(&made(&mut ips, r#"{"clusterIP": "10.96.1.1"}"#)), ["10.96.1.1"]);
}

#[test]
fn a_full_range_is_an_internal_error() {
    let mut ips = ClusterIps::new(&["10.0.0.0/29"]).unwrap();
    for last in 1..=6 {
        assert_eq!(addresses(&made(&mut ips, "{}")), [format!("10.0.0.{last}")]);
    }
    assert_eq!(
        refused(&mut ips, "{}"),
        "Internal error occurred: failed to allocate a serviceIP for Service \"name\": range is full"
    );
}

#[test]
fn ranges_of_one_family_or_of_two() {
    let error = |ranges: &[&str]| ClusterIps::new(ranges).unwrap_err().to_string();
    assert_eq!(error(&[]), "0 ranges were given; one or two are possible, of IPv4 and IPv6");
    assert_eq!(error(&["10.0.0.0/16"; 3]), "3 ranges were given; one or two are possible, of IPv4 and IPv6");
    assert_eq!(
        error(&["10.0.0.0/16", "10.1.0.0/16"]),
        "10.0.0.0/16 and 10.1.0.0/16 are of the same IP family; two ranges have to be one of IPv4 and one of IPv6"
    );
    assert!(error(&["fd00::/112", "10.0.0.0/8"]).starts_with("10.0.0.0/8 has too many addresses"));
}

/// Creates a Service in a cluster with these ranges. Returns its families and addresses, or the
/// error.
fn made_in(ranges: &[&str], fields: &str) -> Result<(Value, Value), String> {
    let mut ips = ClusterIps::new(ranges).unwrap();
    let mut service = base("Service");
    json_patch::merge(&mut service, &serde_json::from_str(&format!(r#"{{"spec": {fields}}}"#)).unwrap());
    let decoded = strategy::decode(resource("Service"), service).unwrap().object;
    let decided = strategy::before_create_with(resource("Service"), decoded, ips.families());
    let mut service = decided.map_err(|refused| refused.message)?.object;
    ips.allocate(None, &mut service).map_err(|refused| refused.message)?;
    Ok((service["spec"]["ipFamilies"].clone(), service["spec"]["clusterIPs"].clone()))
}

#[test]
fn a_cluster_of_one_family_gives_no_addresses_of_the_other() {
    let (four, six) = (["10.0.0.0/16"], ["fd00::/112"]);
    let made = |ranges: &[&str], fields: &str, families: Value, addresses: Value| {
        assert_eq!(made_in(ranges, fields), Ok((families, addresses)), "{ranges:?} {fields}");
    };
    made(&four, "{}", json!(["IPv4"]), json!(["10.0.1.1"]));
    made(&six, "{}", json!(["IPv6"]), json!(["fd00::101"]));
    made(&six, r#"{"ipFamilyPolicy": "PreferDualStack"}"#, json!(["IPv6"]), json!(["fd00::101"]));
    made(&six, r#"{"clusterIP": "fd00::5"}"#, json!(["IPv6"]), json!(["fd00::5"]));
    // It needs no addresses, and its endpoints may have both.
    let without_selector = r#"{"clusterIP": "None", "selector": null}"#;
    made(&six, without_selector, json!(["IPv6", "IPv4"]), json!(["None"]));
    let six_first = ["fd00::/112", "10.0.0.0/16"];
    made(&six_first, "{}", json!(["IPv6"]), json!(["fd00::101"]));
    let both = r#"{"ipFamilyPolicy": "RequireDualStack"}"#;
    made(&six_first, both, json!(["IPv6", "IPv4"]), json!(["fd00::101", "10.0.1.1"]));
}

#[test]
fn a_family_that_the_cluster_lacks_is_refused() {
    let refused = [
        r#"{"ipFamilies": ["IPv6"]}"#,
        r#"{"clusterIP": "fd00::5"}"#,
        r#"{"ipFamilyPolicy": "RequireDualStack"}"#,
        r#"{"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv4", "IPv6"]}"#,
    ]
    .map(|fields| made_in(&["10.0.0.0/16"], fields).unwrap_err());
    insta::assert_snapshot!(refused.join("\n"), @r#"
    Service "name" is invalid: spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster
    Service "name" is invalid: spec.clusterIPs[0]: Invalid value: ["fd00::5"]: IPv6 is not configured on this cluster
    Service "name" is invalid: spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services
    Service "name" is invalid: [spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services, spec.ipFamilies[1]: Invalid value: "IPv6": not configured on this cluster]
    "#);
}

proptest! {
    /// No two Services have the same address, and the allocator uses released addresses again.
    #[test]
    fn no_address_is_allocated_twice(steps in proptest::collection::vec((0..4u8, 0..8usize), 1..60)) {
        let mut ips = ClusterIps::new(&["10.0.0.0/28", "fd00::/124"]).unwrap();
        let mut held: Vec<Value> = Vec::new();
        for (step, index) in steps {
            if step == 0 && !held.is_empty() {
                let service = held.swap_remove(index % held.len());
                ips.release(&service);
                continue;
            }
            let policy = ["SingleStack", "SingleStack", "PreferDualStack", "RequireDualStack"][usize::from(step)];
            let mut service = base("Service");
            service["spec"]["ipFamilyPolicy"] = policy.into();
            service["spec"]["ipFamilies"] =
                if policy == "SingleStack" { json!(["IPv4"]) } else { json!(["IPv4", "IPv6"]) };
            if ips.allocate(None, &mut service).is_ok() {
                held.push(service);
            }
        }
        let mut all: Vec<&str> = held.iter().flat_map(addresses).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        prop_assert_eq!(all.len(), count);
        for service in &held {
            ips.release(service);
        }
        for _ in 0..14 {
            let mut service = base("Service");
            service["spec"]["ipFamilies"] = json!(["IPv4"]);
            prop_assert!(ips.allocate(None, &mut service).is_ok());
        }
    }
}
