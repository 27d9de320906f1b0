//! Validation of Pods.

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
    spec(
        r#"{"initContainers": [{"name": "d", "image": "i", "readinessProbe": {"exec": {"command": ["x"]}}}]}"#,
        &[
            "Forbidden spec.initContainers[0].readinessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
        ],
    );
    container(
        r#""imagePullPolicy": "Sometimes""#,
        &[
            r#"NotSupported spec.containers[0].imagePullPolicy: Unsupported value: "Sometimes": supported values: "Always", "IfNotPresent", "Never""#,
        ],
    );
    container(
        r#""terminationMessagePolicy": "Pipe""#,
        &[
            r#"NotSupported spec.containers[0].terminationMessagePolicy: Unsupported value: "Pipe": supported values: "File", "FallbackToLogsOnError""#,
        ],
    );
    container(r#""env": [{"name": ""}]"#, &["Required spec.containers[0].env[0].name: Required value"]);
    container(
        r#""volumeMounts": [{"name": "v", "mountPath": "/m"}]"#,
        &[r#"NotFound spec.containers[0].volumeMounts[0].name: Not found: "v""#],
    );
    container(
        r#""resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}"#,
        &[
            r#"Invalid spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1"#,
        ],
    );
    container(
        r#""readinessProbe": {}"#,
        &["Required spec.containers[0].readinessProbe: Required value: must specify a handler type"],
    );
    container(
        r#""livenessProbe": {"tcpSocket": {"port": 1}, "successThreshold": 2}"#,
        &["Invalid spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"],
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
    ports(
        r#"{"containerPort": 1, "hostPort": 9}, {"containerPort": 2, "hostPort": 9}"#,
        &[r#"Duplicate spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//9""#],
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
        r#"{"dnsPolicy": "None"}"#,
        &["Required spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
    );
    spec(
        r#"{"dnsPolicy": "Mine"}"#,
        &[
            r#"NotSupported spec.dnsPolicy: Unsupported value: "Mine": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None""#,
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
        r#"{"activeDeadlineSeconds": 0}"#,
        &[
            "Invalid spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive",
        ],
    );
    spec(
        r#"{"readinessGates": [{"conditionType": "a/b/c"}]}"#,
        &[r#"Invalid spec.readinessGates[0].conditionType: Invalid value: "a/b/c": a valid label key..."#],
    );
    spec(
        r#"{"tolerations": [{"operator": "Equal"}]}"#,
        &[
            r#"Invalid spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys""#,
        ],
    );
    spec(
        r#"{"tolerations": [{"key": "k", "tolerationSeconds": 1}]}"#,
        &[
            r#"Invalid spec.tolerations[0].effect: Invalid value: "": effect must be 'NoExecute' when `tolerationSeconds` is set"#,
        ],
    );
    spec(
        r#"{"hostAliases": [{"ip": "1.2.3.04", "hostnames": ["_"]}]}"#,
        &[
            r#"Invalid spec.hostAliases[0].ip: Invalid value: "1.2.3.04": must not have leading 0s"#,
            r#"Invalid spec.hostAliases[0].hostnames[0]: Invalid value: "_": a lowercase RFC 1123..."#,
        ],
    );
    spec(
        r#"{"nodeName": "n", "schedulingGates": [{"name": "g"}]}"#,
        &["Forbidden spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
    );
    spec(
        r#"{"ephemeralContainers": [{"name": "e", "image": "i"}]}"#,
        &["Forbidden spec.ephemeralContainers: Forbidden: cannot be set on create"],
    );
    spec(
        r#"{"volumes": [{"name": "v"}, {"name": "v"}]}"#,
        &[r#"Duplicate spec.volumes[1].name: Duplicate value: "v""#],
    );
    spec(
        r#"{"hostNetwork": true, "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1, "hostPort": 2}]}]}"#,
        &[
            "Invalid spec.containers[0].ports[0].hostPort: Invalid value: 2: must match `containerPort` when `hostNetwork` is true",
        ],
    );
    assert_invalid(
        "Pod",
        r#"{"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "+1"}}}"#,
        &[
            r#"Invalid metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "+1": must be a 32bit integer"#,
        ],
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
    change(r#"{"hostname": "h"}"#, &[other, "+ hostname: \"h\""]);
    change(r#"{"nodeName": "n"}"#, &[other, "+ nodeName: \"n\""]);
    change(
        r#"{"containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "i:1"}]}"#,
        &["Forbidden spec.containers: Forbidden: pod updates may not add or remove containers"],
    );
    assert_invalid_update(
        "Pod",
        r#"{"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}}"#,
        r#"{"spec": {"tolerations": []}}"#,
        &[
            "Forbidden spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
        ],
    );
    change(
        r#"{"schedulingGates": [{"name": "g"}]}"#,
        &[
            "Forbidden spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'",
        ],
    );
    assert_invalid_update(
        "Pod",
        r#"{"spec": {"activeDeadlineSeconds": 5}}"#,
        r#"{"spec": {"activeDeadlineSeconds": 6}}"#,
        &[
            "Invalid spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value",
        ],
    );
    assert_invalid_update(
        "Pod",
        r#"{"spec": {"activeDeadlineSeconds": 5}}"#,
        r#"{"spec": {"activeDeadlineSeconds": null}}"#,
        &[
            "Invalid spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
        ],
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
        r#"{"hostIP": "1.1.1.1", "hostIPs": [{"ip": "1.1.1.2"}]}"#,
        &[r#"Invalid status.hostIPs[0].ip: Invalid value: "1.1.1.2": must be equal to `hostIP`"#],
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
