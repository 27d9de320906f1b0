//! Tests the validation of Endpoints and EndpointSlices.

use super::assert_invalid;

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
}

#[test]
fn slice_ports() {
    let ports = |ports: &str, want: &[&str]| slice(&format!(r#"{{"ports": [{ports}]}}"#), want);
    ports(
        r#"{"appProtocol": "a b"}"#,
        &[r#"Invalid ports[0].appProtocol: Invalid value: "a b": name part must consist of..."#],
    );
    let many = vec!["{}"; 20_001].join(",");
    ports(&many, &["TooMany ports: Too many: 20001: must have at most 20000 items"]);
}

#[test]
fn slice_addresses() {
    endpoint(
        r#"{"addresses": ["010.0.0.1"]}"#,
        &[r#"Invalid endpoints[0].addresses[0]: Invalid value: "010.0.0.1": must not have leading 0s"#],
    );
    endpoint(
        r#"{"addresses": ["fd00::1"]}"#,
        &[r#"Invalid endpoints[0].addresses: Invalid value: "fd00::1": must be an IPv4 address"#],
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
