//! Tests the validation of Endpoints and EndpointSlices.

use super::{assert_invalid, assert_invalid_update};

fn subset(subset: &str, want: &[&str]) {
    assert_invalid("Endpoints", &format!(r#"{{"subsets": [{subset}]}}"#), want);
}

fn slice(patch: &str, want: &[&str]) {
    assert_invalid("EndpointSlice", patch, want);
}

fn endpoint(endpoint: &str, want: &[&str]) {
    slice(&format!(r#"{{"endpoints": [{endpoint}]}}"#), want);
}

#[test]
fn subsets() {
    subset(
        r#"{"ports": [{"port": 1}]}"#,
        &["Required subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
    );
    for (address, why) in [
        ("010.0.0.1", "must not have leading 0s"),
        ("::ffff:10.0.0.1", "must not be an IPv4-mapped IPv6 address"),
        ("127.0.0.1", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
        ("0.0.0.0", "may not be unspecified (0.0.0.0)"),
        ("169.254.1.1", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
        ("224.0.0.1", "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"),
    ] {
        for list in ["addresses", "notReadyAddresses"] {
            subset(
                &format!(r#"{{"{list}": [{{"ip": "{address}"}}]}}"#),
                &[&format!("Invalid subsets[0].{list}[0].ip: Invalid value: {address:?}: {why}")],
            );
        }
    }
    subset(
        r#"{"addresses": [{"ip": "no"}]}"#,
        &[
            r#"Invalid subsets[0].addresses[0].ip: Invalid value: "no": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
            r#"Invalid subsets[0].addresses[0].ip: Invalid value: "no": must be a valid IP address"#,
        ],
    );
    subset(
        r#"{"addresses": [{"ip": "10.0.0.1", "nodeName": ""}]}"#,
        &[
            r#"Invalid subsets[0].addresses[0].nodeName: Invalid value: "": a lowercase RFC 1123 subdomain..."#,
        ],
    );
    subset(
        r#"{"addresses": [{"ip": "10.0.0.1", "hostname": "a.b"}]}"#,
        &[r#"Invalid subsets[0].addresses[0].hostname: Invalid value: "a.b": must not contain dots"#],
    );
}

#[test]
fn subset_ports() {
    let ports = |ports: &str, want: &[&str]| {
        subset(&format!(r#"{{"addresses": [{{"ip": "10.0.0.1"}}], "ports": [{ports}]}}"#), want);
    };
    ports(
        r#"{"port": 66000}"#,
        &["Invalid subsets[0].ports[0].port: Invalid value: 66000: must be between 1 and 65535, inclusive"],
    );
    ports(r#"{"port": 1}, {"port": 2, "name": "b"}"#, &["Required subsets[0].ports[0].name: Required value"]);
    ports(
        r#"{"port": 1, "protocol": "TLS"}"#,
        &[
            r#"NotSupported subsets[0].ports[0].protocol: Unsupported value: "TLS": supported values: "SCTP", "TCP", "UDP""#,
        ],
    );
}

#[test]
fn address_types() {
    slice(r#"{"addressType": null, "endpoints": []}"#, &["Required addressType: Required value"]);
    slice(
        r#"{"addressType": "IPv5"}"#,
        &[r#"NotSupported addressType: Unsupported value: "IPv5": supported values: "FQDN", "IPv4", "IPv6""#],
    );
    assert_invalid_update(
        "EndpointSlice",
        r#"{"endpoints": []}"#,
        r#"{"addressType": "IPv6"}"#,
        &[r#"Invalid addressType: Invalid value: "IPv6": field is immutable"#],
    );
}

#[test]
fn slice_ports() {
    let ports = |ports: &str, want: &[&str]| slice(&format!(r#"{{"ports": [{ports}]}}"#), want);
    ports(r#"{}, {}"#, &[r#"Duplicate ports[1].name: Duplicate value: """#]);
    ports(
        r#"{"name": "Bad"}"#,
        &[r#"Invalid ports[0].name: Invalid value: "Bad": a lowercase RFC 1123 label must consist of..."#],
    );
    ports(
        r#"{"protocol": "TLS"}"#,
        &[
            r#"NotSupported ports[0].protocol: Unsupported value: "TLS": supported values: "SCTP", "TCP", "UDP""#,
        ],
    );
    ports(
        r#"{"appProtocol": "a b"}"#,
        &[r#"Invalid ports[0].appProtocol: Invalid value: "a b": name part must consist of..."#],
    );
    let many = vec!["{}"; 20_001].join(",");
    ports(&many, &["TooMany ports: Too many: 20001: must have at most 20000 items"]);
}

#[test]
fn slice_addresses() {
    endpoint("{}", &["Required endpoints[0].addresses: Required value: must contain at least 1 address"]);
    endpoint(
        r#"{"addresses": ["010.0.0.1"]}"#,
        &[r#"Invalid endpoints[0].addresses[0]: Invalid value: "010.0.0.1": must not have leading 0s"#],
    );
    endpoint(
        r#"{"addresses": ["fd00::1"]}"#,
        &[r#"Invalid endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address"#],
    );
    endpoint(
        r#"{"addresses": ["127.0.0.1"]}"#,
        &[
            r#"Invalid endpoints[0].addresses[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)"#,
        ],
    );
    let many = vec![r#""10.0.0.1""#; 101].join(",");
    endpoint(
        &format!(r#"{{"addresses": [{many}]}}"#),
        &["TooMany endpoints[0].addresses: Too many: 101: must have at most 100 items"],
    );
    let many = vec![r#"{"addresses": ["10.0.0.1"]}"#; 1001].join(",");
    endpoint(&many, &["TooMany endpoints: Too many: 1001: must have at most 1000 items"]);
    let of = |kind: &str, address: &str, want: &[&str]| {
        slice(
            &format!(r#"{{"addressType": "{kind}", "endpoints": [{{"addresses": ["{address}"]}}]}}"#),
            want,
        );
    };
    of(
        "IPv6",
        "10.0.0.1",
        &[r#"Invalid endpoints[0].addresses: Invalid value: "10.0.0.1": must be an IPv6 address"#],
    );
    of(
        "IPv6",
        "FD00::1",
        &[
            r#"Invalid endpoints[0].addresses[0]: Invalid value: "FD00::1": must be in canonical form ("fd00::1")"#,
        ],
    );
    of(
        "IPv6",
        "fe80::1",
        &[
            r#"Invalid endpoints[0].addresses[0]: Invalid value: "fe80::1": may not be in the link-local range (169.254.0.0/16, fe80::/10)"#,
        ],
    );
    of(
        "FQDN",
        "single",
        &[
            r#"Invalid endpoints[0].addresses[0]: Invalid value: "single": should be a domain with at least two segments separated by dots"#,
        ],
    );
    of("FQDN", "", &["Required endpoints[0].addresses[0]: Required value"]);
}

#[test]
fn endpoint_fields() {
    let with = |field: &str, want: &[&str]| {
        endpoint(&format!(r#"{{"addresses": ["10.0.0.1"], {field}}}"#), want);
    };
    with(
        r#""nodeName": """#,
        &[r#"Invalid endpoints[0].nodeName: Invalid value: "": a lowercase RFC 1123 subdomain must..."#],
    );
    with(
        r#""hostname": "A""#,
        &[r#"Invalid endpoints[0].hostname: Invalid value: "A": a lowercase RFC 1123 label must..."#],
    );
    with(
        r#""hints": {"forZones": [{"name": "a"}, {"name": "a"}]}"#,
        &[r#"Duplicate endpoints[0].hints.forZones[1].name: Duplicate value: "a""#],
    );
    with(
        r#""hints": {"forZones": [{"name": "-"}]}"#,
        &[
            r#"Invalid endpoints[0].hints.forZones[0].name: Invalid value: "-": a valid label must be an empty..."#,
        ],
    );
    let nine: Vec<String> = (0..9).map(|i| format!(r#"{{"name": "z{i}"}}"#)).collect();
    for list in ["forZones", "forNodes"] {
        with(
            &format!(r#""hints": {{"{list}": [{}]}}"#, nine.join(",")),
            &[&format!("TooMany endpoints[0].hints.{list}: Too many: 9: must have at most 8 items")],
        );
    }
}
