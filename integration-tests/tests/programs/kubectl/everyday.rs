//! Tests everyday commands: discovery, create, get, apply, patch, watch, delete.

use std::io::{BufRead, BufReader};

use crate::kubectl::common::*;

pub(crate) fn discovery_commands() {
    let kubectl = Kubectl::start();
    contains(&kubectl.ok("version -o yaml"), &["serverVersion:", "gitVersion: v1.36."]);
    let resources = kubectl.ok("api-resources");
    contains(&resources, &["endpointslices", "discovery.k8s.io/v1", "svc", "leases"]);
    contains(&kubectl.ok("api-versions"), &["coordination.k8s.io/v1", "discovery.k8s.io/v1"]);
    contains(&kubectl.ok("get namespaces"), &["kube-system", "Active"]);
    contains(
        &kubectl.ok("explain service.spec.ports"),
        &["targetPort", "nodePort", "The port at which the Service is reached."],
    );
    contains(&kubectl.ok("auth whoami"), &["Username"]);
    contains(&kubectl.ok("get --raw /readyz"), &["ok"]);
    contains(&kubectl.fails("get deployments"), &["the server doesn't have a resource type"]);
}

pub(crate) fn objects_are_created_and_shown() {
    let kubectl = Kubectl::start();
    contains(&kubectl.with("create -f -", &service(80)), &["service/web created"]);
    contains(&kubectl.with("create -f -", &pod()), &["pod/web-1 created"]);
    let again = kubectl.run("create -f -", &pod().to_string()).1;
    contains(&again, &["AlreadyExists", "pods \"web-1\" already exists"]);
    contains(&kubectl.ok("get all"), &["pod/web-1", "service/web", "ClusterIP", "80/TCP"]);
    contains(&kubectl.ok("get pods -o wide"), &["NOMINATED NODE", "Pending"]);
    contains(&kubectl.ok("get pods -o yaml"), &["kind: List", "phase: Pending"]);
    assert_eq!(kubectl.ok("get pod web-1 -o jsonpath={.spec.dnsPolicy}"), "ClusterFirst");
    contains(&kubectl.ok("get pods -l app=web --field-selector status.phase=Pending -A"), &["web-1"]);
    contains(&kubectl.ok("describe service web"), &["Selector:", "app=web", "IP Families:"]);
    contains(&kubectl.ok("describe pod web-1"), &["QoS Class:", "BestEffort"]);
    contains(&kubectl.fails("get pod nope"), &["Error from server (NotFound): pods \"nope\" not found"]);
    contains(&kubectl.ok("create service nodeport api --tcp=80:8080"), &["service/api created"]);
    let api = kubectl.server.get("services", "default", "api").unwrap();
    assert_eq!(
        (api["spec"]["type"].as_str(), api["spec"]["ports"][0]["targetPort"].as_u64()),
        (Some("NodePort"), Some(8080))
    );
    contains(&kubectl.ok("expose pod web-1 --port=80 --name=exposed"), &["service/exposed exposed"]);
    contains(&kubectl.ok("run another --image=registry.k8s.io/pause"), &["pod/another created"]);
    let mut odd = service(80);
    odd["spec"]["colour"] = "red".into();
    contains(&kubectl.run("create -f -", &odd.to_string()).1, &["unknown field", "colour"]);
}

pub(crate) fn objects_are_applied_and_changed() {
    let kubectl = Kubectl::start();
    contains(&kubectl.with("apply -f -", &service(80)), &["service/web created"]);
    contains(&kubectl.with("apply -f -", &service(80)), &["service/web unchanged"]);
    contains(
        &kubectl.with("apply -f - --dry-run=server", &service(81)),
        &["service/web configured (server dry run)"],
    );
    contains(&kubectl.with("apply -f -", &service(81)), &["service/web configured"]);
    assert_eq!(kubectl.ok("get service web -o jsonpath={.spec.ports[*].port}"), "81");
    contains(&kubectl.ok("label service web tier=front"), &["service/web labeled"]);
    contains(&kubectl.ok("annotate service web note=hello"), &["service/web annotated"]);
    contains(
        &kubectl.ok("patch service web -p {\"spec\":{\"ports\":[{\"port\":81,\"name\":\"main\"}]}}"),
        &["patched"],
    );
    contains(
        &kubectl
            .ok("patch service web --type=json -p [{\"op\":\"remove\",\"path\":\"/metadata/labels/tier\"}]"),
        &["patched"],
    );
    kubectl.with("create -f -", &pod());
    kubectl.run_pod("web-1");
    contains(&kubectl.ok("wait pod web-1 --for=condition=Ready --timeout=10s"), &["condition met"]);
    contains(&kubectl.with("replace -f -", &service(82)), &["service/web replaced"]);
    let service = kubectl.server.get("services", "default", "web").unwrap();
    assert_eq!(
        (service["spec"]["ports"][0]["port"].as_u64(), service["metadata"]["annotations"].as_object()),
        (Some(82), None)
    );
}

pub(crate) fn objects_are_deleted() {
    let kubectl = Kubectl::start();
    kubectl.with("create -f -", &service(80));
    kubectl.with("create -f -", &pod());
    contains(&kubectl.ok("delete pod web-1"), &["pod \"web-1\" deleted"]);
    contains(&kubectl.ok("delete services --all"), &["service \"web\" deleted"]);
    contains(&kubectl.ok("create namespace shop"), &["namespace/shop created"]);
    kubectl.with("create -n shop -f -", &service(80));
    contains(&kubectl.ok("delete namespace shop --timeout=20s"), &["namespace \"shop\" deleted"]);
    assert_eq!(kubectl.server.count("services"), 0);
    contains(&kubectl.fails("delete pod nope"), &["NotFound"]);
}

pub(crate) fn changes_are_watched() {
    let kubectl = Kubectl::start();
    kubectl.with("create -f -", &pod());
    let mut watch = kubectl.command("get pods -w --no-headers").spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut phase = || lines.next().unwrap().unwrap().split_whitespace().nth(2).unwrap().to_owned();
    assert_eq!(phase(), "Pending");
    // The watch begins at the version of the list, so it need not be open yet.
    kubectl.run_pod("web-1");
    assert_eq!(phase(), "Running");
    watch.kill().unwrap();
    watch.wait().unwrap();
}
