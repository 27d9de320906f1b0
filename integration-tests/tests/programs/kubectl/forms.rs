//! Tests every kind in every output format: tables, wide tables, YAML, JSON, templates, names,
//! descriptions; and `kubectl edit`.

use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::kubectl::common::*;

/// Returns one object of each stored kind.
fn one_of_each() -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}},
        service(80),
        pod(),
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "web"},
            "subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"name": "http", "port": 80}]}]},
        {"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": {"name": "web-1"},
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"name": "http", "port": 80}]},
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "leader"},
            "spec": {"holderIdentity": "somebody"}},
        {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "web.1"}, "reason": "Seen", "message": "hello",
            "type": "Normal", "involvedObject": {"apiVersion": "v1", "kind": "Service", "namespace": "default",
                "name": "web"}, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z"},
    ]})
}

/// The kinds, with a column that only their table has.
const KINDS: [(&str, &str, &str); 8] = [
    ("namespaces", "default", "STATUS"),
    ("nodes", "node-1", "ROLES"),
    ("services", "web", "CLUSTER-IP"),
    ("pods", "web-1", "READY"),
    ("endpoints", "web", "ENDPOINTS"),
    ("endpointslices", "web-1", "ADDRESSTYPE"),
    ("leases", "leader", "HOLDER"),
    ("events", "web.1", "REASON"),
];

pub(crate) fn every_kind_in_every_output_format() {
    let kubectl = Kubectl::start();
    kubectl.with("create -f -", &one_of_each());
    for (kind, name, heading) in KINDS {
        contains(&kubectl.prints(&format!("get {kind}")), &[heading]);
        contains(&kubectl.prints(&format!("get {kind} -o wide")), &[heading]);
        let named = if kind == "events" { "Seen" } else { name };
        contains(&kubectl.prints(&format!("get {kind} {name} --no-headers")), &[named]);
        contains(&kubectl.prints(&format!("get {kind} {name} -o name")), &[name]);
        contains(
            &kubectl.prints(&format!("get {kind} {name} -o yaml")),
            &["metadata:", &format!("name: {name}")],
        );
        let json: Value =
            serde_json::from_str(&kubectl.prints(&format!("get {kind} {name} -o json"))).unwrap();
        assert_eq!(json["metadata"]["name"], name);
        assert_eq!(kubectl.prints(&format!("get {kind} {name} -o jsonpath={{.metadata.name}}")), name);
        assert_eq!(kubectl.prints(&format!("get {kind} {name} -o go-template={{{{.metadata.name}}}}")), name);
        let columns = kubectl.prints(&format!("get {kind} {name} -o custom-columns=CALLED:.metadata.name"));
        assert_eq!(columns.split_whitespace().collect::<Vec<_>>(), ["CALLED", name]);
        contains(&kubectl.prints(&format!("get {kind} --show-labels")), &["LABELS"]);
    }
    contains(&kubectl.ok("get pods -A --sort-by=.metadata.name"), &["web-1"]);
    contains(&kubectl.ok("get pods --chunk-size=1 -L app"), &["APP", "web"]);
}

pub(crate) fn every_kind_is_described() {
    let kubectl = Kubectl::start();
    kubectl.with("create -f -", &one_of_each());
    let mut event = one_of_each()["items"][6].take();
    event["metadata"]["name"] = "web.2".into();
    // kubectl looks for the events of an object by its uid.
    event["involvedObject"]["uid"] = kubectl.prints("get service web -o jsonpath={.metadata.uid}").into();
    kubectl.with("create -f -", &event);
    contains(&kubectl.ok("describe service web"), &["Selector:", "app=web", "Seen", "hello"]);
    for (kind, name, _) in KINDS {
        // Before 1.21 kubectl knew only EndpointSlices of v1beta1, which the real server no longer
        // serves.
        if kind == "endpointslices" && kubectl.minor() < 21 {
            contains(
                &kubectl.fails("describe endpointslices web-1"),
                &["could not find the requested resource"],
            );
            continue;
        }
        contains(&kubectl.ok(&format!("describe {kind} {name}")), &["Name:", name]);
    }
}

/// `kubectl edit` opens the object in an editor and sends a patch of the changes.
pub(crate) fn objects_are_edited() {
    let kubectl = Kubectl::start();
    kubectl.with("create -f -", &service(80));
    let editor = kubectl.home.path().join("editor");
    std::fs::write(&editor, "#!/bin/sh\nsed -i 's/port: 80$/port: 8080/' \"$1\"\n").unwrap();
    std::fs::set_permissions(&editor, std::fs::Permissions::from_mode(0o755)).unwrap();
    let edited =
        kubectl.command("edit service web").env("EDITOR", &editor).env("KUBE_EDITOR", &editor).output();
    let edited = edited.unwrap();
    contains(&String::from_utf8_lossy(&edited.stdout), &["service/web edited"]);
    assert_eq!(kubectl.ok("get service web -o jsonpath={.spec.ports[0].port}"), "8080");
    let unchanged =
        kubectl.command("edit service web").env("EDITOR", "true").env("KUBE_EDITOR", "true").output();
    contains(&String::from_utf8_lossy(&unchanged.unwrap().stderr), &["no changes"]);
}

pub(crate) fn manifests_are_applied_compared_and_deleted() {
    let kubectl = Kubectl::start();
    kubectl.with("apply -f -", &one_of_each());
    let version = kubectl.server.resource_version();
    let again = kubectl.with("apply -f -", &one_of_each());
    contains(&again, &["service/web unchanged", "pod/web-1 unchanged", "node/node-1 unchanged"]);
    assert_eq!(kubectl.server.resource_version(), version, "applying the same changes nothing");
    let (_, difference) = kubectl.run("diff -f -", &service(81).to_string());
    contains(&difference, &["port: 80", "port: 81"]);
    contains(&kubectl.with("apply view-last-applied -f -", &service(80)), &["kind: Service"]);
    // Deleting the Service deletes the Endpoints of the same name, so kubectl does not find them.
    let (_, deleted) = kubectl.run("delete -f -", &one_of_each().to_string());
    contains(&deleted, &["service \"web\" deleted", "pod \"web-1\" deleted", "endpoints \"web\" not found"]);
    assert_eq!(kubectl.server.count("services") + kubectl.server.count("pods"), 0);
}

pub(crate) fn nodes_are_cordoned_and_tainted() {
    let kubectl = Kubectl::start();
    kubectl.with("create -f -", &one_of_each());
    contains(&kubectl.ok("cordon node-1"), &["node/node-1 cordoned"]);
    contains(&kubectl.ok("get nodes"), &["SchedulingDisabled"]);
    contains(&kubectl.ok("uncordon node-1"), &["node/node-1 uncordoned"]);
    contains(&kubectl.ok("taint nodes node-1 a=b:NoSchedule"), &["node/node-1 tainted"]);
    contains(&kubectl.ok("set image pod/web-1 main=registry.k8s.io/pause:2"), &["pod/web-1 image updated"]);
    contains(&kubectl.ok("auth can-i delete nodes"), &["yes"]);
    contains(&kubectl.ok("auth can-i --list"), &["*.*"]);
}
