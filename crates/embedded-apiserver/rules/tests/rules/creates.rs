//! Tests creates: defaults, prepared fields, warnings.

use kube_endpoint_apiserver_rules::resource;
use kube_endpoint_apiserver_rules::strategy::{
    allow_create_on_update, allow_unconditional_update, deprecation_warning,
    increment_generation_for_deletion,
};
use serde_json::{Value, json};

use super::{base, create};

fn spec(kind: &str, fields: &str) -> Value {
    create(kind, &format!(r#"{{"spec": {fields}}}"#)).unwrap().object["spec"].clone()
}

#[test]
fn services() {
    insta::assert_snapshot!(spec("Service", "{}"), @r#"{"internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","ports":[{"port":80,"protocol":"TCP","targetPort":80}],"selector":{"app":"a"},"sessionAffinity":"None","type":"ClusterIP"}"#);
    insta::assert_snapshot!(spec("Service", r#"{"clusterIP": "None", "selector": null, "ports": null}"#), @r#"{"clusterIP":"None","clusterIPs":["None"],"internalTrafficPolicy":"Cluster","ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"RequireDualStack","sessionAffinity":"None","type":"ClusterIP"}"#);
    insta::assert_snapshot!(spec("Service", r#"{"clusterIP": "None", "ports": null}"#), @r#"{"clusterIP":"None","clusterIPs":["None"],"internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","selector":{"app":"a"},"sessionAffinity":"None","type":"ClusterIP"}"#);
    insta::assert_snapshot!(spec("Service", r#"{"type": "ExternalName", "externalName": "a.b", "ports": null, "selector": null}"#), @r#"{"externalName":"a.b","sessionAffinity":"None","type":"ExternalName"}"#);
    insta::assert_snapshot!(spec("Service", r#"{"type": "LoadBalancer", "sessionAffinity": "ClientIP", "ipFamilyPolicy": "PreferDualStack"}"#), @r#"{"allocateLoadBalancerNodePorts":true,"externalTrafficPolicy":"Cluster","internalTrafficPolicy":"Cluster","ipFamilies":["IPv4","IPv6"],"ipFamilyPolicy":"PreferDualStack","ports":[{"port":80,"protocol":"TCP","targetPort":80}],"selector":{"app":"a"},"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":10800}},"type":"LoadBalancer"}"#);
}

#[test]
fn pods() {
    insta::assert_snapshot!(spec("Pod", "{}"), @r#"{"containers":[{"image":"i:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","enableServiceLinks":true,"restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30,"tolerations":[{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300},{"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists","tolerationSeconds":300}]}"#);
    let pod = create(
        "Pod",
        r#"{"metadata": {"generation": 7}, "status": {"phase": "Running", "podIP": "1.2.3.4"}}"#,
    );
    let pod = pod.unwrap().object;
    assert_eq!(pod["metadata"]["generation"], 1);
    assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
}

#[test]
fn pod_details() {
    let container = r#"{"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 1}],
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]}"#;
    insta::assert_snapshot!(spec("Pod", container)["containers"][0], @r#"{"image":"i","imagePullPolicy":"Always","name":"c","ports":[{"containerPort":1,"protocol":"TCP"}],"resources":{"limits":{"cpu":"1","memory":"1Gi"}},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}"#);
    let qos = |fields: &str| {
        create("Pod", &format!(r#"{{"spec": {fields}}}"#)).unwrap().object["status"]["qosClass"].clone()
    };
    assert_eq!(qos(container), "Guaranteed");
    let burstable =
        r#"{"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}"#;
    assert_eq!(qos(burstable), "Burstable");
    assert_eq!(
        spec("Pod", r#"{"tolerations": [{"operator": "Exists"}]}"#)["tolerations"].as_array().unwrap().len(),
        1
    );
    let probe = r#"{"httpGet":{"port":1},"periodSeconds":0}"#;
    let given = spec(
        "Pod",
        &format!(r#"{{"containers": [{{"name": "c", "image": "i", "readinessProbe": {probe}}}]}}"#),
    );
    assert_eq!(given["containers"][0]["readinessProbe"].to_string(), probe, "stored as given");
    let volumes = r#"[{"name": "b", "secret": {"secretName": "s"}}]"#;
    let stored = spec("Pod", &format!(r#"{{"volumes": {volumes}}}"#));
    assert_eq!(stored["volumes"].to_string().replace(' ', ""), volumes.replace(' ', ""), "stored as given");
}

#[test]
fn slices_endpoints_and_namespaces() {
    let slice = create("EndpointSlice", r#"{"metadata": {"generation": 5}}"#).unwrap().object;
    assert_eq!(slice["metadata"]["generation"], 1);
    assert_eq!(slice["ports"], json!([{"name": "", "port": 80, "protocol": "TCP"}]));
    let topology = r#"{"endpoints": [{"addresses": ["10.0.0.1"], "deprecatedTopology": {"kubernetes.io/hostname": "n"}}]}"#;
    let slice = create("EndpointSlice", topology).unwrap().object;
    assert_eq!(slice["endpoints"], json!([{"addresses": ["10.0.0.1"], "conditions": {}}]));
    let endpoints = create("Endpoints", "{}").unwrap().object;
    assert_eq!(endpoints["subsets"][0]["ports"], json!([{"port": 80, "protocol": "TCP"}]));
    assert!(endpoints["metadata"].get("generation").is_none());
    let namespace = create("Namespace", r#"{"spec": {"finalizers": ["a/b"]}}"#).unwrap().object;
    assert_eq!(namespace["spec"], json!({"finalizers": ["a/b", "kubernetes"]}));
    assert_eq!(namespace["status"], json!({"phase": "Active"}));
    assert_eq!(namespace["metadata"]["labels"], json!({"kubernetes.io/metadata.name": "name"}));
    let node =
        create("Node", r#"{"spec": {"podCIDR": "10.0.0.0/24"}, "status": {"capacity": {"cpu": "2"}}}"#);
    let node = node.unwrap().object;
    assert_eq!(node["spec"]["podCIDRs"], json!(["10.0.0.0/24"]));
    assert_eq!(node["status"]["allocatable"], json!({"cpu": "2"}));
}

#[test]
fn warnings() {
    let warned = |kind: &str, patch: &str| create(kind, patch).unwrap().warnings;
    assert_eq!(
        warned("Service", r#"{"spec": {"trafficDistribution": "PreferClose", "externalName": "x"}}"#),
        [
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ]
    );
    assert_eq!(
        warned(
            "Service",
            r#"{"metadata": {"annotations": {"service.kubernetes.io/topology-aware-hints": "Auto"}},
            "spec": {"clusterIP": "None", "externalIPs": ["2001:DB8::1"], "sessionAffinity": "ClientIP"}}"#
        ),
        [
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead",
            "spec.externalIPs is ignored for headless services",
            "spec.SessionAffinity is ignored for headless services",
            "spec.externalIPs[0]: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")",
        ]
    );
    let endpoints = r#"{"subsets": [{"notReadyAddresses": [{"ip": "FD00::1"}]}]}"#;
    assert_eq!(warned("Endpoints", endpoints).len(), 1);
    let managed = r#"{"metadata": {"labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}},
        "subsets": [{"notReadyAddresses": [{"ip": "FD00::1"}]}]}"#;
    assert_eq!(warned("Endpoints", managed), [""; 0]);
    let fqdn = r#"{"addressType": "FQDN", "endpoints": [{"addresses": ["a.b"]}]}"#;
    assert_eq!(warned("EndpointSlice", fqdn), ["spec.addressType: FQDN endpoints are deprecated"]);
}

#[test]
fn options_of_each_resource() {
    let of = |test: fn(&resource::Resource) -> bool| -> Vec<&str> {
        resource::all().filter(|r| r.is_stored() && test(r)).map(|r| r.plural).collect()
    };
    assert_eq!(of(allow_create_on_update), ["services", "endpoints", "events", "leases"]);
    assert_eq!(of(|r| !allow_unconditional_update(r)), ["leases", "endpointselectors"]);
    assert_eq!(of(|r| deprecation_warning(r).is_some()), ["endpoints"]);
}

#[test]
fn deletion_increments_the_generation_if_there_is_one() {
    let mut pod = create("Pod", "{}").unwrap().object;
    increment_generation_for_deletion(&mut pod);
    assert_eq!(pod["metadata"]["generation"], 2);
    let mut service = base("Service");
    increment_generation_for_deletion(&mut service);
    assert!(service["metadata"].get("generation").is_none());
}
