//! Tests the tables of each kind, as a person sees them.

use serde_json::{Value, json};

use super::*;
use kube_endpoint_apiserver_rules::resource;

fn options(include: IncludeObject) -> Options {
    let now = "2024-05-02T12:00:00Z".parse().unwrap();
    Options { version: MetaVersion::V1, include, headers: true, now }
}

/// Returns the table of objects as kubectl's `-o wide` prints it.
fn wide(plural: &str, objects: &[Value]) -> String {
    let resource = resource::all().find(|r| r.plural == plural).unwrap();
    let table = of(resource, objects, &options(IncludeObject::None), json!({}));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut lines: Vec<Vec<String>> = vec![
        table["columnDefinitions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| text(&c["name"]).to_uppercase())
            .collect(),
    ];
    for row in table["rows"].as_array().unwrap() {
        let cells = row["cells"].as_array().unwrap();
        assert_eq!(cells.len(), lines[0].len(), "one cell for each column");
        lines.push(cells.iter().map(text).collect());
    }
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap())
        .collect();
    let laid_out: Vec<String> = lines
        .iter()
        .map(|line| {
            let cells = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
            cells.collect::<Vec<_>>().join("   ").trim_end().to_owned()
        })
        .collect();
    laid_out.join("\n")
}

fn with_name(name: &str, mut object: Value) -> Value {
    object["metadata"]["name"] = json!(name);
    object["metadata"]["creationTimestamp"] = json!("2024-05-02T11:00:00Z");
    object
}

fn container(name: &str, ready: bool, restarts: i64, state: Value) -> Value {
    json!({"name": name, "ready": ready, "restartCount": restarts, "state": state})
}

fn pod(name: &str, phase: &str, statuses: Value) -> Value {
    let containers: Vec<Value> =
        statuses.as_array().unwrap().iter().map(|status| json!({"name": status["name"]})).collect();
    with_name(
        name,
        json!({"spec": {"containers": containers}, "status": {"phase": phase, "containerStatuses": statuses}}),
    )
}

#[test]
fn pods() {
    let running = json!({"running": {"startedAt": "2024-05-02T11:00:00Z"}});
    let ended = |code: i64, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});

    let mut assigned = pod("running", "Running", json!([container("a", true, 0, running.clone())]));
    assigned["spec"]["nodeName"] = json!("node-1");
    assigned["status"]["podIPs"] = json!([{"ip": "10.0.0.7"}, {"ip": "fd00::7"}]);
    assigned["spec"]["readinessGates"] = json!([{"conditionType": "lb"}, {"conditionType": "mesh"}]);
    assigned["status"]["conditions"] = json!([{"type": "mesh", "status": "True"}]);

    let mut restarted = pod("restarted", "Running", json!([container("a", true, 3, running.clone())]));
    restarted["status"]["containerStatuses"][0]["lastState"] =
        json!({"terminated": {"finishedAt": "2024-05-02T11:50:00Z"}});

    let mut deleted = pod("deleted", "Running", json!([container("a", true, 0, running.clone())]));
    deleted["metadata"]["deletionTimestamp"] = json!("2024-05-02T12:00:30Z");
    let mut lost = deleted.clone();
    lost["metadata"]["name"] = json!("lost");
    lost["status"]["reason"] = json!("NodeLost");

    let mut gated = pod("gated", "Pending", json!([]));
    gated["status"]["conditions"] =
        json!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]);

    let mut initializing = pod("initializing", "Pending", json!([]));
    initializing["spec"]["initContainers"] = json!([{"name": "i"}, {"name": "j"}]);
    initializing["status"]["initContainerStatuses"] = json!([
        container("i", false, 0, ended(0, "Completed")),
        container("j", false, 2, json!({"waiting": {"reason": "PodInitializing"}})),
    ]);
    let mut init_failed = initializing.clone();
    init_failed["metadata"]["name"] = json!("init-failed");
    init_failed["status"]["initContainerStatuses"][1]["state"] = ended(3, "");

    let mut sidecar = pod("sidecar", "Running", json!([container("a", true, 1, running.clone())]));
    sidecar["spec"]["initContainers"] = json!([{"name": "s", "restartPolicy": "Always"}]);
    sidecar["status"]["initContainerStatuses"] = json!([container("s", true, 4, running.clone())]);
    sidecar["status"]["initContainerStatuses"][0]["started"] = json!(true);

    let mixed = [container("a", true, 0, running), container("b", false, 0, ended(0, "Completed"))];
    insta::assert_snapshot!(
        wide(
            "pods",
            &[
                assigned,
                pod("pending", "Pending", json!([container("a", false, 0, json!({}))])),
                pod("crashing", "Running", json!([container("a", false, 5, json!({"waiting": {"reason": "CrashLoopBackOff"}}))])),
                restarted,
                pod("completed", "Succeeded", json!([container("a", false, 0, ended(0, "Completed"))])),
                pod("failed", "Failed", json!([container("a", false, 0, ended(137, ""))])),
                pod("mixed", "Running", json!(mixed)),
                deleted,
                lost,
                gated,
                initializing,
                init_failed,
                sidecar,
            ]
        ),
        @r#"
    NAME           READY   STATUS             RESTARTS      AGE   IP         NODE     NOMINATED NODE   READINESS GATES
    running        1/1     Running            0             60m   10.0.0.7   node-1   <none>           1/2
    pending        0/1     Pending            0             60m   <none>     <none>   <none>           <none>
    crashing       0/1     CrashLoopBackOff   5             60m   <none>     <none>   <none>           <none>
    restarted      1/1     Running            3 (10m ago)   60m   <none>     <none>   <none>           <none>
    completed      0/1     Completed          0             60m   <none>     <none>   <none>           <none>
    failed         0/1     ExitCode:137       0             60m   <none>     <none>   <none>           <none>
    mixed          1/2     NotReady           0             60m   <none>     <none>   <none>           <none>
    deleted        1/1     Terminating        0             60m   <none>     <none>   <none>           <none>
    lost           1/1     Unknown            0             60m   <none>     <none>   <none>           <none>
    gated          0/0     SchedulingGated    0             60m   <none>     <none>   <none>           <none>
    initializing   0/0     Init:1/2           2             60m   <none>     <none>   <none>           <none>
    init-failed    0/0     Init:ExitCode:3    2             60m   <none>     <none>   <none>           <none>
    sidecar        2/2     Running            5             60m   <none>     <none>   <none>           <none>
    "#
    );
}

#[test]
fn services() {
    let service = |name: &str, spec: Value| with_name(name, json!({"spec": spec}));
    let mut balanced = service(
        "balanced",
        json!({"type": "LoadBalancer", "clusterIPs": ["10.96.0.3"], "selector": {"b": "2", "a": "1"},
               "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]}),
    );
    balanced["status"] =
        json!({"loadBalancer": {"ingress": [{"hostname": "lb.example"}, {"ip": "192.0.2.1"}]}});
    insta::assert_snapshot!(
        wide(
            "services",
            &[
                service("web", json!({"type": "ClusterIP", "clusterIPs": ["10.96.0.1"], "clusterIP": "10.96.0.1",
                                      "ports": [{"port": 80, "protocol": "TCP"}], "selector": {"app": "web"}})),
                service("headless", json!({"type": "ClusterIP", "clusterIPs": ["None"], "externalIPs": ["192.0.2.9"]})),
                balanced,
                service("pending", json!({"type": "LoadBalancer"})),
                service("outside", json!({"type": "ExternalName", "externalName": "example.com"})),
            ]
        ),
        @r#"
    NAME       TYPE           CLUSTER-IP   EXTERNAL-IP            PORT(S)               AGE   SELECTOR
    web        ClusterIP      10.96.0.1    <none>                 80/TCP                60m   app=web
    headless   ClusterIP      None         192.0.2.9              <none>                60m   <none>
    balanced   LoadBalancer   10.96.0.3    192.0.2.1,lb.example   80:30080/TCP,53/UDP   60m   a=1,b=2
    pending    LoadBalancer   <none>       <pending>              <none>                60m   <none>
    outside    ExternalName   <none>       example.com            <none>                60m   <none>
    "#
    );
}

#[test]
fn endpoints_and_slices() {
    let addresses = |n: u8| -> Vec<Value> { (1..=n).map(|i| json!({"ip": format!("10.0.0.{i}")})).collect() };
    let endpoints = |name: &str, subsets: Value| with_name(name, json!({"subsets": subsets}));
    let ports = json!([{"port": 80}, {"port": 443}]);
    insta::assert_snapshot!(
        wide(
            "endpoints",
            &[
                endpoints("none", json!([])),
                endpoints("one", json!([{"addresses": addresses(1), "ports": ports}])),
                endpoints("many", json!([{"addresses": addresses(4), "ports": ports}])),
                endpoints("portless", json!([{"addresses": addresses(4)}])),
                endpoints("six", json!([{"addresses": [{"ip": "fd00::1"}], "ports": ports}])),
                endpoints("unready", json!([{"notReadyAddresses": addresses(4), "ports": ports}])),
            ]
        ),
        @r#"
    NAME       ENDPOINTS                                         AGE
    none       <none>                                            60m
    one        10.0.0.1:80,10.0.0.1:443                          60m
    many       10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 5 more...   60m
    portless   10.0.0.1,10.0.0.2,10.0.0.3 + 1 more...            60m
    six        [fd00::1]:80,[fd00::1]:443                        60m
    unready                                                      60m
    "#
    );
    let slice = |name: &str, ports: Value, n: u8| {
        let endpoints: Vec<Value> = (1..=n).map(|i| json!({"addresses": [format!("10.0.0.{i}")]})).collect();
        with_name(name, json!({"addressType": "IPv4", "ports": ports, "endpoints": endpoints}))
    };
    insta::assert_snapshot!(
        wide(
            "endpointslices",
            &[
                slice("none", json!([]), 0),
                slice("three", json!([{"port": 80}, {"name": "named"}, {}]), 3),
                slice("many", json!([{"port": 1}, {"port": 2}, {"port": 3}, {"port": 4}]), 100),
            ]
        ),
        @r#"
    NAME    ADDRESSTYPE   PORTS               ENDPOINTS                                 AGE
    none    IPv4          <unset>             <unset>                                   60m
    three   IPv4          80,named,*          10.0.0.1,10.0.0.2,10.0.0.3                60m
    many    IPv4          1,2,3 + 1 more...   10.0.0.1,10.0.0.2,10.0.0.3 + 97 more...   60m
    "#
    );
}

/// A CustomResourceDefinition names these columns.
#[test]
fn endpoint_selectors() {
    let condition = |kind: &str, status: &str| json!({"type": kind, "status": status});
    let selector = |name: &str, status: Value| {
        let lease = (name == "unseen").then(|| json!({"name": "web", "role": "Follower"}));
        with_name(name, json!({"status": status, "spec": {"readiness": {"lease": lease}}}))
    };
    let accepted = json!([condition("Other", "Unknown"), condition("Accepted", "True")]);
    insta::assert_snapshot!(
        wide(
            "endpointselectors",
            &[
                selector("web-stable", json!({"services": 2, "conditions": accepted})),
                selector("mistyped", json!({"services": 0, "conditions": [condition("Accepted", "False")]})),
                selector("unseen", json!({})),
            ]
        ),
        @r#"
    NAME         LEASE   ROLE       CONDITION   PICK   SERVICES   ACCEPTED   AGE
    web-stable                                         2          True       60m
    mistyped                                           0          False      60m
    unseen       web     Follower                                            60m
    "#
    );
}

#[test]
fn nodes_namespaces_and_leases() {
    let ready = |status: &str| json!({"conditions": [{"type": "Ready", "status": status}]});
    let mut worker = with_name("worker", json!({"status": ready("True")}));
    worker["metadata"]["labels"] = json!({
        "node-role.kubernetes.io/worker": "", "kubernetes.io/role": "build", "node-role.kubernetes.io/": "x",
    });
    worker["status"]["addresses"] =
        json!([{"type": "Hostname", "address": "worker"}, {"type": "InternalIP", "address": "10.1.0.1"}]);
    worker["status"]["nodeInfo"] = json!({
        "kubeletVersion": "v1.36.0", "osImage": "Linux", "kernelVersion": "6.1", "architecture": "arm64",
        "containerRuntimeVersion": "containerd://2.0",
    });
    insta::assert_snapshot!(
        wide(
            "nodes",
            &[
                worker,
                with_name("cordoned", json!({"spec": {"unschedulable": true}, "status": ready("Unknown")})),
                with_name("new", json!({})),
            ]
        ),
        @r#"
    NAME       STATUS                        ROLES          AGE   VERSION   INTERNAL-IP   EXTERNAL-IP   OS-IMAGE    KERNEL-VERSION   CONTAINER-RUNTIME
    worker     Ready                         build,worker   60m   v1.36.0   10.1.0.1      <none>        Linux       6.1 (arm64)      containerd://2.0
    cordoned   NotReady,SchedulingDisabled   <none>         60m             <none>        <none>        <unknown>   <unknown>        <unknown>
    new        Unknown                       <none>         60m             <none>        <none>        <unknown>   <unknown>        <unknown>
    "#
    );
    insta::assert_snapshot!(
        wide("namespaces", &[with_name("default", json!({"status": {"phase": "Active"}}))]),
        @r#"
    NAME      STATUS   AGE
    default   Active   60m
    "#
    );
    insta::assert_snapshot!(
        wide("leases", &[with_name("l", json!({"spec": {"holderIdentity": "me"}})), with_name("free", json!({}))]),
        @r#"
    NAME   HOLDER   AGE
    l      me       60m
    free            60m
    "#
    );
}

#[test]
fn events() {
    let involved = json!({"kind": "Service", "name": "web", "fieldPath": "spec.ports[0]"});
    insta::assert_snapshot!(
        wide(
            "events",
            &[
                with_name("old", json!({
                    "type": "Warning", "reason": "FailedToUpdate", "message": " cannot write\n", "involvedObject": involved,
                    "source": {"component": "controller", "host": "node-1"}, "count": 7,
                    "firstTimestamp": "2024-05-02T10:00:00Z", "lastTimestamp": "2024-05-02T11:59:00Z",
                })),
                with_name("series", json!({
                    "type": "Normal", "reason": "Synced", "message": "all well", "involvedObject": involved,
                    "reportingComponent": "controller", "reportingInstance": "controller-0",
                    "eventTime": "2024-05-02T11:00:00.000000Z",
                    "series": {"count": 3, "lastObservedTime": "2024-05-02T11:58:00.000000Z"},
                })),
                with_name("once", json!({
                    "type": "Normal", "reason": "Started", "involvedObject": {"kind": "Node"},
                    "eventTime": "2024-05-02T11:00:00.000000Z",
                })),
                with_name("bare", json!({})),
            ]
        ),
        @r#"
    LAST SEEN   TYPE      REASON           OBJECT        SUBOBJECT       SOURCE                     MESSAGE        FIRST SEEN   COUNT   NAME
    60s         Warning   FailedToUpdate   service/web   spec.ports[0]   controller, node-1         cannot write   120m         7       old
    2m          Normal    Synced           service/web   spec.ports[0]   controller, controller-0   all well       60m          3       series
    60m         Normal    Started          node                                                                    60m          1       once
    <unknown>                                                                                                      <unknown>    1       bare
    "#
    );
}

#[test]
fn include_object_selects_the_object_of_a_row() {
    let pods = resource::by_path("", "v1", "pods").unwrap();
    let object =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {"phase": "Failed"}});
    let carried = |include| of(pods, [&object], &options(include), json!({}))["rows"][0]["object"].clone();
    assert_eq!(carried(IncludeObject::None), Value::Null);
    assert_eq!(carried(IncludeObject::Object), object);
    let mut later = options(IncludeObject::default());
    later.headers = false;
    later.version = MetaVersion::V1Beta1;
    insta::assert_json_snapshot!(of(pods, [&object], &later, json!({"resourceVersion": "8"})), @r#"
    {
      "apiVersion": "meta.k8s.io/v1beta1",
      "columnDefinitions": null,
      "kind": "Table",
      "metadata": {
        "resourceVersion": "8"
      },
      "rows": [
        {
          "cells": [
            "a",
            "0/0",
            "Failed",
            "0",
            "<unknown>",
            "<none>",
            "<none>",
            "<none>",
            "<none>"
          ],
          "conditions": [
            {
              "message": "The pod failed.",
              "reason": "Failed",
              "status": "True",
              "type": "Completed"
            }
          ],
          "object": {
            "apiVersion": "meta.k8s.io/v1beta1",
            "kind": "PartialObjectMetadata",
            "metadata": {
              "name": "a"
            }
          }
        }
      ]
    }
    "#);
}

#[test]
fn include_object_is_parsed() {
    assert_eq!(IncludeObject::parse(None), Ok(IncludeObject::Metadata));
    assert_eq!(IncludeObject::parse(Some("Object")), Ok(IncludeObject::Object));
    insta::assert_snapshot!(IncludeObject::parse(Some("All")).unwrap_err(), @r#"Unable to convert to Table as requested: includeObject: Invalid value: "All": must be 'Metadata', 'Object', 'None', or empty"#);
}

#[test]
fn every_column_has_a_cell() {
    for resource in resource::all() {
        let columns = columns::definitions(resource);
        let cells = columns::cells(resource, &json!({}), Timestamp::UNIX_EPOCH);
        assert_eq!(columns.as_array().unwrap().len(), cells.len(), "{}", resource.plural);
    }
}
