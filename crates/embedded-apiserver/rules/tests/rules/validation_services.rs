//! Tests the validation of Services.

use super::{assert_invalid, assert_invalid_update};

const PORT: &str = "must be between 1 and 65535, inclusive";

fn spec(fields: &str) -> String {
    format!(r#"{{"spec": {fields}}}"#)
}

fn check(fields: &str, want: &[&str]) {
    assert_invalid("Service", &spec(fields), want);
}

#[test]
fn ports() {
    check(
        r#"{"ports": [{"port": 65536, "targetPort": 1}]}"#,
        &[&format!("Invalid spec.ports[0].port: Invalid value: 65536: {PORT}")],
    );
    check(
        r#"{"ports": [{"port": 1, "name": "b"}, {"port": 2, "name": "b"}]}"#,
        &[r#"Duplicate spec.ports[1].name: Duplicate value: "b""#],
    );
    check(
        r#"{"ports": [{"port": 1, "name": "Not_ok"}]}"#,
        &[
            r#"Invalid spec.ports[0].name: Invalid value: "Not_ok": a lowercase RFC 1123 label must consist of..."#,
        ],
    );
    check(
        r#"{"ports": [{"port": 1, "targetPort": "not--ok"}]}"#,
        &[
            r#"Invalid spec.ports[0].targetPort: Invalid value: "not--ok": must not contain consecutive hyphens"#,
        ],
    );
    check(
        r#"{"ports": [{"port": 1, "appProtocol": "a/b/c"}]}"#,
        &[
            r#"Invalid spec.ports[0].appProtocol: Invalid value: "a/b/c": a valid label key must consist of..."#,
        ],
    );
}

#[test]
fn node_ports() {
    check(
        r#"{"ports": [{"port": 1, "nodePort": 30001}]}"#,
        &["Forbidden spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
    );
    check(
        r#"{"type": "NodePort", "ports": [
            {"port": 1, "name": "a", "nodePort": 30001}, {"port": 2, "name": "b", "nodePort": 30001}]}"#,
        &["Duplicate spec.ports[1].nodePort: Duplicate value: 30001"],
    );
}

#[test]
fn types_and_policies() {
    check(
        r#"{"type": "ExternalName", "externalName": "a.b", "clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}"#,
        &[
            "Forbidden spec.clusterIPs: Forbidden: may not be set for ExternalName services",
            "Forbidden spec.ipFamilies: Forbidden: may not be set for ExternalName services",
            "Forbidden spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services",
        ],
    );
    for kind in ["NodePort", "LoadBalancer"] {
        check(
            &format!(r#"{{"type": "{kind}", "clusterIP": "None"}}"#),
            &[&format!(
                r#"Invalid spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for {kind} services"#
            )],
        );
    }
    check(
        r#"{"sessionAffinity": "ClientIP", "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 86401}}}"#,
        &[
            "Invalid spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 86401: must be greater than 0 and less than 86400",
        ],
    );
    check(
        r#"{"type": "NodePort", "externalTrafficPolicy": "Some"}"#,
        &[
            r#"NotSupported spec.externalTrafficPolicy: Unsupported value: "Some": supported values: "Cluster", "Local""#,
        ],
    );
    check(
        r#"{"healthCheckNodePort": 30001}"#,
        &[
            "Invalid spec.healthCheckNodePort: Invalid value: 30001: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
        ],
    );
    check(
        r#"{"loadBalancerClass": "a/b"}"#,
        &["Forbidden spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'"],
    );
    check(
        r#"{"allocateLoadBalancerNodePorts": false}"#,
        &[
            "Forbidden spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
        ],
    );
}

#[test]
fn addresses() {
    for (address, why) in [
        ("10.96.0.010", "must not have leading 0s"),
        ("::ffff:10.96.0.1", "must not be an IPv4-mapped IPv6 address"),
        ("ten", "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
    ] {
        check(
            &format!(r#"{{"clusterIP": "{address}"}}"#),
            &[&format!("Invalid spec.clusterIPs[0]: Invalid value: {address:?}: {why}")],
        );
        check(
            &format!(r#"{{"externalIPs": ["{address}"]}}"#),
            &[&format!("Invalid spec.externalIPs[0]: Invalid value: {address:?}: {why}")],
        );
    }
    check(
        r#"{"externalIPs": ["127.0.0.1"]}"#,
        &[
            r#"Invalid spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)"#,
        ],
    );
    check(
        r#"{"clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.2"]}"#,
        &[r#"Invalid spec.clusterIPs: Invalid value: ["10.96.0.2"]: first value must match `clusterIP`"#],
    );
    check(
        r#"{"clusterIPs": ["10.96.0.2"]}"#,
        &[
            r#"Invalid spec.clusterIPs: Invalid value: ["10.96.0.2"]: must be empty when `clusterIP` is not specified"#,
        ],
    );
    check(
        r#"{"clusterIP": "10.96.0.2", "clusterIPs": ["10.96.0.2", "10.96.0.3"], "ipFamilyPolicy": "RequireDualStack"}"#,
        &[
            r#"Invalid spec.clusterIPs: Invalid value: ["10.96.0.2","10.96.0.3"]: may specify no more than one IP for each IP family"#,
        ],
    );
    check(
        r#"{"clusterIP": "None", "clusterIPs": ["None", "10.96.0.3"]}"#,
        &[
            r#"Invalid spec.clusterIPs: Invalid value: ["None","10.96.0.3"]: 'None' must be the first and only value"#,
        ],
    );
    check(
        r#"{"clusterIP": "10.96.0.2", "ipFamilies": ["IPv6"]}"#,
        &[
            r#"Invalid spec.clusterIPs[0]: Invalid value: "10.96.0.2": expected an IPv6 value as indicated by `ipFamilies[0]`"#,
        ],
    );
}

#[test]
fn families() {
    check(
        r#"{"ipFamilies": ["IPv5"]}"#,
        &[r#"NotSupported spec.ipFamilies[0]: Unsupported value: "IPv5": supported values: "IPv4", "IPv6""#],
    );
    check(
        r#"{"ipFamilies": ["IPv4", "IPv6"]}"#,
        &[
            r#"Invalid spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"#,
        ],
    );
}

#[test]
fn annotations_and_selectors() {
    assert_invalid(
        "Service",
        r#"{"metadata": {"annotations": {
            "service.kubernetes.io/topology-aware-hints": "Auto", "service.kubernetes.io/topology-mode": "Disabled"}}}"#,
        &[
            r#"Invalid metadata.annotations[service.kubernetes.io/topology-mode]: Invalid value: "Disabled": must match annotations[service.kubernetes.io/topology-aware-hints] when both are specified"#,
        ],
    );
    check(
        r#"{"selector": {"app": "-a"}}"#,
        &[
            r#"Invalid spec.selector: Invalid value: "-a": a valid label must be an empty string or consist of..."#,
        ],
    );
}

#[test]
fn changes() {
    let change = |first: &str, second: &str, want: &[&str]| {
        assert_invalid_update("Service", &spec(first), &spec(second), want);
    };
    change(
        "{}",
        r#"{"clusterIP": "None"}"#,
        &[r#"Invalid spec.clusterIPs[0]: Invalid value: ["None"]: may not change once set"#],
    );
    change(
        "{}",
        r#"{"ipFamilies": ["IPv6"]}"#,
        &[
            r#"Invalid spec.clusterIPs[0]: Invalid value: "10.96.1.1": expected an IPv6 value as indicated by `ipFamilies[0]`"#,
        ],
    );
    change(
        r#"{"ipFamilyPolicy": "RequireDualStack"}"#,
        r#"{"clusterIPs": ["10.96.1.1"], "ipFamilies": ["IPv4"]}"#,
        &[
            r#"Invalid spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be 'SingleStack' to release the secondary cluster IP"#,
            r#"Invalid spec.ipFamilyPolicy: Invalid value: "RequireDualStack": must be 'SingleStack' to release the secondary IP family"#,
        ],
    );
    change(
        r#"{"type": "LoadBalancer", "loadBalancerClass": "a/b"}"#,
        r#"{"loadBalancerClass": "a/c"}"#,
        &[r#"Invalid spec.loadBalancerClass: Invalid value: "a/c": may not change once set"#],
    );
}
