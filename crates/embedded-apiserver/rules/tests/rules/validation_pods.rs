//! Tests the validation of Pods.

use super::{assert_invalid, assert_invalid_status_update, assert_invalid_update};

fn spec(fields: &str, want: &[&str]) {
    assert_invalid("Pod", &format!(r#"{{"spec": {fields}}}"#), want);
}

fn container(fields: &str, want: &[&str]) {
    spec(&format!(r#"{{"containers": [{{"name": "c", "image": "i", {fields}}}]}}"#), want);
}

#[test]
fn containers() {
    spec(r#"{"containers": []}"#, &["Required spec.containers: Required value"]);
    spec(
        r#"{"containers": [{}]}"#,
        &[
            "Required spec.containers[0].name: Required value",
            "Required spec.containers[0].image: Required value",
        ],
    );
    spec(
        r#"{"containers": [{"name": "c", "image": "i"}, {"name": "c", "image": "i"}]}"#,
        &[r#"Duplicate spec.containers[1].name: Duplicate value: "c""#],
    );
    spec(
        r#"{"initContainers": [{"name": "c", "image": "i"}]}"#,
        &[r#"Duplicate spec.initContainers[0].name: Duplicate value: "c""#],
    );
}

#[test]
fn container_ports() {
    let ports = |ports: &str, want: &[&str]| container(&format!(r#""ports": [{ports}]"#), want);
    ports("{}", &["Required spec.containers[0].ports[0].containerPort: Required value"]);
    ports(
        r#"{"containerPort": 70000}"#,
        &[
            "Invalid spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ],
    );
    ports(
        r#"{"containerPort": 1, "name": "much-too-long-name"}"#,
        &[
            r#"Invalid spec.containers[0].ports[0].name: Invalid value: "much-too-long-name": must be no more than 15 characters"#,
        ],
    );
    ports(
        r#"{"containerPort": 1, "name": "1"}"#,
        &[
            r#"Invalid spec.containers[0].ports[0].name: Invalid value: "1": must contain at least one letter (a-z)"#,
        ],
    );
    ports(
        r#"{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}"#,
        &[r#"Duplicate spec.containers[0].ports[1].name: Duplicate value: "a""#],
    );
    ports(
        r#"{"containerPort": 1, "protocol": "QUIC"}"#,
        &[
            r#"NotSupported spec.containers[0].ports[0].protocol: Unsupported value: "QUIC": supported values: "SCTP", "TCP", "UDP""#,
        ],
    );
}

#[test]
fn spec_fields() {
    spec(
        r#"{"restartPolicy": "Maybe"}"#,
        &[
            r#"NotSupported spec.restartPolicy: Unsupported value: "Maybe": supported values: "Always", "OnFailure", "Never""#,
        ],
    );
    spec(
        r#"{"nodeName": "N"}"#,
        &[r#"Invalid spec.nodeName: Invalid value: "N": a lowercase RFC 1123 subdomain must consist..."#],
    );
    spec(
        r#"{"hostname": "a.b"}"#,
        &[r#"Invalid spec.hostname: Invalid value: "a.b": must not contain dots"#],
    );
    spec(
        r#"{"subdomain": "A"}"#,
        &[r#"Invalid spec.subdomain: Invalid value: "A": a lowercase RFC 1123 label must consist of..."#],
    );
    spec(
        r#"{"readinessGates": [{"conditionType": "a/b/c"}]}"#,
        &[r#"Invalid spec.readinessGates[0].conditionType: Invalid value: "a/b/c": a valid label key..."#],
    );
}

#[test]
fn changes() {
    let change = |second: &str, want: &[&str]| {
        assert_invalid_update("Pod", "{}", &format!(r#"{{"spec": {second}}}"#), want);
    };
    let other = "Forbidden spec: Forbidden: pod updates may not change fields other than \
                 `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,\
                 `spec.tolerations` (only additions to existing tolerations),\
                 `spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
    change(r#"{"hostname": "h"}"#, &[other, "changed: hostname"]);
    change(r#"{"nodeName": "n", "priority": 1}"#, &[other, "changed: nodeName, priority"]);
    change(
        r#"{"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "i:1"}]}"#,
        &["Forbidden spec.containers: Forbidden: pod updates may not add or remove containers"],
    );
}

#[test]
fn status() {
    let status = |fields: &str, want: &[&str]| {
        assert_invalid_status_update("Pod", "{}", &format!(r#"{{"status": {fields}}}"#), want);
    };
    status(
        r#"{"podIP": "1.2.3.04"}"#,
        &[r#"Invalid status.podIPs[0]: Invalid value: "1.2.3.04": must not have leading 0s"#],
    );
    status(
        r#"{"podIPs": [{"ip": "1.2.3.4"}, {"ip": "1.2.3.5"}]}"#,
        &[
            r#"Invalid status.podIPs: Invalid value: [{"IP":"1.2.3.4"},{"IP":"1.2.3.5"}]: may specify no more than one IP for each IP family"#,
        ],
    );
    status(
        r#"{"qosClass": "Guaranteed"}"#,
        &[r#"Invalid status.qosClass: Invalid value: "Guaranteed": field is immutable"#],
    );
    status(
        r#"{"conditions": [{"type": "a b", "status": "True"}]}"#,
        &[r#"Invalid status.conditions[0].Type: Invalid value: "a b": name part must consist of..."#],
    );
}
