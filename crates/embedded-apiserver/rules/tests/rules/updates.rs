//! Tests which fields updates keep, compute and may change.

use kube_endpoint_apiserver_rules::strategy::{self, Subresource};
use serde_json::{Value, json};

use super::{base, merge, resource, update};

fn changed(kind: &str, first: &str, second: &str) -> Value {
    update(kind, first, Subresource::None, second).unwrap().object
}

fn status_changed(kind: &str, first: &str, second: &str) -> Value {
    update(kind, first, Subresource::Status, second).unwrap().object
}

#[test]
fn a_created_object_is_canonical_and_can_be_updated_without_a_change() {
    for kind in ["Namespace", "Node", "Pod", "Service", "Endpoints", "EndpointSlice", "Event", "Lease"] {
        let made = changed(kind, "{}", "{}");
        let decoded = strategy::decode(resource(kind), made.clone()).unwrap();
        assert_eq!((&decoded.object, decoded.warnings.len()), (&made, 0), "{kind}");
        let again = strategy::before_update(resource(kind), &made, made.clone(), Subresource::None);
        assert_eq!(again.unwrap().object, made, "{kind}");
    }
}

#[test]
fn labels_and_fields_outside_metadata_increment_the_generation_of_a_slice() {
    for (patch, want) in [
        ("{}", 1),
        (r#"{"metadata": {"generation": 9}}"#, 1),
        (r#"{"metadata": {"annotations": {"a": "b"}}}"#, 1),
        (r#"{"metadata": {"labels": {"a": "b"}}}"#, 2),
        (r#"{"endpoints": []}"#, 2),
        (r#"{"ports": []}"#, 2),
    ] {
        let generation = changed("EndpointSlice", "{}", patch)["metadata"]["generation"].clone();
        assert_eq!(generation, want, "{patch}");
    }
}

#[test]
fn the_spec_increments_the_generation_of_a_pod() {
    let generation = |patch: &str| changed("Pod", "{}", patch)["metadata"]["generation"].clone();
    assert_eq!(generation(r#"{"metadata": {"labels": {"a": "b"}}}"#), 1);
    assert_eq!(generation(r#"{"spec": {"tolerations": []}}"#), 2);
    assert_eq!(
        generation(
            r#"{"spec": {"containers": [{"name": "c", "image": "i:2", "imagePullPolicy": "IfNotPresent"}]}}"#
        ),
        2
    );
    assert_eq!(
        status_changed("Pod", "{}", r#"{"status": {"phase": "Running"}}"#)["metadata"]["generation"],
        1
    );
}

#[test]
fn services_endpoints_nodes_and_namespaces_have_no_generation() {
    for kind in ["Service", "Endpoints", "Node", "Namespace", "Lease", "Event"] {
        let object = changed(kind, "{}", r#"{"metadata": {"labels": {"a": "b"}, "generation": 3}}"#);
        assert!(object["metadata"].get("generation").is_none(), "{object}");
    }
}

#[test]
fn an_update_keeps_the_status_and_a_status_update_the_spec() {
    for kind in ["Pod", "Node", "Namespace", "Service"] {
        let status = if kind == "Service" {
            r#"{"status": {"loadBalancer": {}}}"#
        } else {
            r#"{"status": {"phase": "Odd"}}"#
        };
        let before = changed(kind, "{}", "{}");
        assert_eq!(changed(kind, "{}", status)["status"], before["status"], "{kind}");
        let after = status_changed(
            kind,
            "{}",
            r#"{"spec": {"schedulerName": "x", "unschedulable": true, "externalIPs": ["1.2.3.4"]}}"#,
        );
        assert_eq!(after["spec"], before["spec"], "{kind}");
    }
}

#[test]
fn a_status_update_of_a_pod() {
    let object = status_changed(
        "Pod",
        "{}",
        r#"{"status": {"podIP": "10.0.0.9", "qosClass": null, "phase": "Running"}}"#,
    );
    assert_eq!(
        object["status"],
        json!({"phase": "Running", "podIP": "10.0.0.9", "podIPs": [{"ip": "10.0.0.9"}], "qosClass": "BestEffort"})
    );
    let object =
        status_changed("Pod", "{}", r#"{"status": {"podIPs": [{"ip": "10.0.0.9"}, {"ip": "fd00::9"}]}}"#);
    assert_eq!(object["status"]["podIP"], "10.0.0.9");
    let object = status_changed(
        "Pod",
        "{}",
        r#"{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}], "labels": {"a": "b"}}}"#,
    );
    assert!(object["metadata"].get("ownerReferences").is_none());
    assert_eq!(object["metadata"]["labels"]["a"], "b");
}

#[test]
fn addresses_of_the_old_object_stay_valid() {
    let slices = resource("EndpointSlice");
    let mut old = base("EndpointSlice");
    old["endpoints"][0]["addresses"][0] = "010.0.0.1".into();
    old["metadata"]["resourceVersion"] = "7".into();
    let old = strategy::decode(slices, old).unwrap().object;
    let same = merge(old.clone(), r#"{"metadata": {"labels": {"a": "b"}}}"#);
    assert!(strategy::before_update(slices, &old, same, Subresource::None).is_ok());
    let other =
        merge(old.clone(), r#"{"endpoints": [{"addresses": ["010.0.0.1"], "conditions": {}, "zone": "z"}]}"#);
    assert!(strategy::before_update(slices, &old, other, Subresource::None).is_err());
}

#[test]
fn system_metadata_is_kept() {
    let kept = changed("Endpoints", "{}", r#"{"metadata": {"uid": null, "creationTimestamp": null}}"#);
    assert_eq!(
        (&kept["metadata"]["uid"], &kept["metadata"]["creationTimestamp"]),
        (&json!("u-1"), &json!("2024-01-01T00:00:00Z"))
    );
    let going =
        r#"{"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z", "deletionGracePeriodSeconds": 3}}"#;
    let kept = changed(
        "Endpoints",
        going,
        r#"{"metadata": {"deletionTimestamp": null, "deletionGracePeriodSeconds": null}}"#,
    );
    assert_eq!(kept["metadata"]["deletionTimestamp"], "2024-01-01T00:00:00Z");
    assert_eq!(kept["metadata"]["deletionGracePeriodSeconds"], 3);
    let namespace =
        changed("Namespace", "{}", r#"{"spec": {"finalizers": []}, "metadata": {"labels": null}}"#);
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(namespace["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "name"}));
}

#[test]
fn fields_that_do_not_apply_to_the_new_type_are_dropped() {
    let name = changed("Service", "{}", r#"{"spec": {"type": "ExternalName", "externalName": "a.b"}}"#);
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
        assert!(name["spec"].get(field).is_none(), "{field}: {name}");
    }
    let balancer =
        r#"{"spec": {"type": "LoadBalancer", "loadBalancerClass": "a/b", "externalTrafficPolicy": "Local"}}"#;
    let plain = changed("Service", balancer, r#"{"spec": {"type": "ClusterIP"}}"#);
    for field in
        ["allocateLoadBalancerNodePorts", "loadBalancerClass", "externalTrafficPolicy", "healthCheckNodePort"]
    {
        assert!(plain["spec"].get(field).is_none(), "{field}: {plain}");
    }
    assert!(plain["spec"]["ports"][0].get("nodePort").is_none());
}

#[test]
fn allocated_values_that_an_update_omits_are_restored() {
    let first = r#"{"spec": {"type": "NodePort"}}"#;
    let second = r#"{"spec": {"clusterIP": null, "clusterIPs": null, "ipFamilies": null, "ipFamilyPolicy": null,
        "ports": [{"port": 80, "targetPort": 8080}]}}"#;
    let spec = changed("Service", first, second)["spec"].clone();
    assert_eq!(spec["clusterIPs"], json!(["10.96.1.1"]));
    assert_eq!(spec["ipFamilies"], json!(["IPv4"]));
    assert_eq!(spec["ports"][0]["nodePort"], 30086);
}
