//! Validation of Nodes and Namespaces.

use super::{assert_invalid, assert_invalid_status_update, assert_invalid_update};

#[test]
fn taints() {
    let taints = |taints: &str, want: &[&str]| {
        assert_invalid("Node", &format!(r#"{{"spec": {{"taints": [{taints}]}}}}"#), want);
    };
    taints(r#"{"key": "k"}"#, &["Required metadata.taints[0].effect: Required value"]);
    taints(
        r#"{"key": "k", "effect": "Never"}"#,
        &[
            r#"NotSupported metadata.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
        ],
    );
    taints(
        r#"{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoExecute", "value": "v"}"#,
        &[
            r#"Duplicate metadata.taints[1]: Duplicate value: {"Key":"k","Value":"v","Effect":"NoExecute","TimeAdded":null}: taints must be unique by key and effect pair"#,
        ],
    );
    taints(
        r#"{"key": "", "effect": "NoExecute"}"#,
        &[
            r#"Invalid metadata.taints[0].key: Invalid value: "": name part must be non-empty"#,
            r#"Invalid metadata.taints[0].key: Invalid value: "": name part must consist of..."#,
        ],
    );
}

#[test]
fn cidrs_and_provider() {
    assert_invalid(
        "Node",
        r#"{"spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}}"#,
        &[
            r#"Invalid spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.1.0/24"]: may specify no more than one CIDR for each IP family"#,
        ],
    );
    assert_invalid(
        "Node",
        r#"{"spec": {"podCIDR": "10.0.0.0"}}"#,
        &[
            r#"Invalid spec.podCIDRs[0]: Invalid value: "10.0.0.0": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"#,
        ],
    );
    let fixed = "Forbidden: node updates may not change podCIDR except from \"\" to valid";
    assert_invalid_update(
        "Node",
        r#"{"spec": {"podCIDR": "10.0.0.0/24"}}"#,
        r#"{"spec": {"podCIDR": "10.0.1.0/24"}}"#,
        &[&format!("Forbidden spec.podCIDRs: {fixed}")],
    );
    assert_invalid_update(
        "Node",
        r#"{"spec": {"providerID": "a"}}"#,
        r#"{"spec": {"providerID": "b"}}"#,
        &[
            r#"Forbidden spec.providerID: Forbidden: node updates may not change providerID except from "" to valid"#,
        ],
    );
    assert_invalid_status_update(
        "Node",
        "{}",
        r#"{"status": {"addresses": [{"type": "InternalIP", "address": "1.2.3.4"}, {"type": "InternalIP", "address": "1.2.3.4"}]}}"#,
        &[r#"Duplicate status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"1.2.3.4"}"#],
    );
    assert_invalid(
        "Node",
        r#"{"status": {"capacity": {"cpu": "-1"}, "allocatable": {"cpu": "1"}}}"#,
        &[r#"Invalid status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0"#],
    );
}

#[test]
fn namespaces() {
    assert_invalid(
        "Namespace",
        r#"{"spec": {"finalizers": ["mine"]}}"#,
        &[
            r#"Invalid spec.finalizers: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified"#,
        ],
    );
    assert_invalid_status_update(
        "Namespace",
        "{}",
        r#"{"status": {"phase": "Terminating"}}"#,
        &[
            r#"Invalid status.Phase: Invalid value: "Terminating": may only be 'Active' if `deletionTimestamp` is empty"#,
        ],
    );
}
