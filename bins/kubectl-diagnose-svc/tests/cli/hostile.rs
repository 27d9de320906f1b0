//! Tests a cluster and a server whose texts are hostile to a terminal: only escapes of them reach
//! it.

use kube_endpoint_core_model::is_harmless;
use kube_endpoint_embedded_apiserver::{Fault, FaultRule, Status};
use serde_json::{Value, json};

use crate::server::{Shop, stderr, stdout};

/// Clears the screen, sets a title, colours by C1, reverses the text, hides a space, and begins a
/// new line.
const HOSTILE: &str =
    "\u{1b}[2J\u{1b}]0;taken\u{7}\u{9b}31m\u{202e}esrever\u{2066}\u{200b}\u{7f}\r\n<script>alert(1)</script>";

/// Returns a hostile name. The API server validates names, but a broken one may send it.
fn bad(name: &str) -> String {
    format!("{name}{HOSTILE}")
}

fn cluster() -> Vec<Value> {
    let huge = HOSTILE.repeat(250_000 / HOSTILE.len());
    let long = HOSTILE.repeat(100);
    let pod = |name: &str, ready: &str| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web", "tier": "x"},
                "annotations": {"note": long}, "managedFields": [{"manager": HOSTILE, "operation": "Update"}]},
            "spec": {"nodeName": bad("node"), "containers": [{"name": bad("c"), "image": HOSTILE,
                "ports": [{"name": bad("http"), "containerPort": 80, "protocol": "TCP"}],
                "readinessProbe": {"httpGet": {"path": HOSTILE, "port": 80}}}],
                "readinessGates": [{"conditionType": bad("gate")}]},
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}], "reason": HOSTILE, "message": long,
                "conditions": [
                    {"type": "Ready", "status": ready, "reason": HOSTILE, "message": huge},
                    {"type": bad("gate"), "status": "False", "reason": HOSTILE, "message": long}],
                "containerStatuses": [{"name": bad("c"), "ready": false, "image": HOSTILE, "restartCount": 3,
                    "state": {"waiting": {"reason": HOSTILE, "message": long}},
                    "lastState": {"terminated": {"exitCode": 1, "reason": HOSTILE, "message": HOSTILE}}}]}})
    };
    let service = |name: &str, selector: Value, target: Value| {
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"a": HOSTILE},
                "annotations": {"service.alpha.kubernetes.io/tolerate-unready-endpoints": huge, "service.kubernetes.io/topology-mode": HOSTILE}},
            "spec": {"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ipFamilies": ["IPv4"], "selector": selector, "trafficDistribution": HOSTILE,
                "ports": [{"name": HOSTILE, "port": 80, "protocol": "TCP", "targetPort": target, "appProtocol": HOSTILE}]}})
    };
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": bad("web-a"), "namespace": "shop", "uid": "s",
            "labels": {"kubernetes.io/service-name": "web", "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"},
            "annotations": {"a": long},
            "managedFields": [{"manager": HOSTILE, "operation": "Update", "time": "2026-01-01T00:00:00Z"}]},
        "addressType": "IPv4", "ports": [{"name": HOSTILE, "port": 81, "protocol": "TCP"}],
        "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {"ready": true}, "nodeName": bad("node"), "zone": HOSTILE,
            "hints": {"forZones": [{"name": HOSTILE}]}, "targetRef": {"kind": "Pod", "namespace": "shop", "name": bad("gone"), "uid": HOSTILE}}]});
    let endpoints = json!({"apiVersion": "v1", "kind": "Endpoints",
        "metadata": {"name": "gone", "namespace": "shop", "uid": "e", "annotations": {"a": long},
            "labels": {"endpoints.kubernetes.io/managed-by": "endpoint-controller"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "name": bad("gone"), "uid": HOSTILE}]},
        "subsets": [{"addresses": [{"ip": "10.0.0.9", "nodeName": HOSTILE}], "ports": [{"name": HOSTILE, "port": 1, "protocol": "TCP"}]}]});
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "web.1", "namespace": "shop", "uid": "ev"},
        "involvedObject": {"kind": "Service", "namespace": "shop", "name": "web"}, "type": "Warning", "reason": HOSTILE, "message": long,
        "lastTimestamp": "2026-01-01T00:00:00Z", "count": 2});
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": bad("node"), "uid": "n", "labels": {"topology.kubernetes.io/zone": HOSTILE}},
        "status": {"conditions": [{"type": "Ready", "status": "False", "reason": HOSTILE, "message": long}]}});
    let mut all = vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "uid": "ns"}}),
        service("web", json!({"app": "web"}), json!(80)),
        service("named", json!({"app": "web"}), json!(bad("nope"))),
        service("near", json!({"app": "web", "tier": "y"}), json!(80)),
        service("none", json!({"app": "nothing"}), json!(80)),
        slice,
        endpoints,
        event,
        node,
    ];
    all.extend([pod("web-1", "False"), pod("web-2", "True"), pod(&bad("web-3"), "True")]);
    all
}

/// Fails if a text would change a terminal.
fn check(what: &str, text: &str) {
    let wrong: Vec<char> = text.chars().filter(|c| *c != '\n' && !is_harmless(*c)).collect();
    assert!(wrong.is_empty(), "{what}: {wrong:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_cluster_reaches_no_terminal() {
    let shop = Shop::with(cluster(), Vec::new()).await;
    let commands = [
        "explain web",
        "explain named",
        "explain near",
        "explain none",
        "explain pod/web-1",
        "explain pod/web-2",
        "lint --info",
        "diff",
        "cleanup",
    ];
    let mut runs = Vec::new();
    for command in commands {
        let formats: &[&str] = if command == "explain web" {
            &["table", "wide", "json", "yaml"]
        } else {
            &["table", "wide", "json"]
        };
        runs.extend(formats.iter().map(|format| (command, *format)));
    }
    // Most commands wait, because slices are behind.
    let outputs = futures::future::join_all(runs.iter().map(async |(command, format)| {
        shop.run(&command.split(' ').chain(["-o", format]).collect::<Vec<_>>()).await
    }));
    let mut escaped = 0;
    for ((command, format), output) in runs.iter().zip(outputs.await) {
        let what = format!("{command} -o {format}");
        let text = stdout(&output);
        check(&what, &text);
        check(&what, &stderr(&output));
        assert!(!text.is_empty(), "{what}: {}", stderr(&output));
        if matches!(*format, "table" | "wide") {
            escaped += usize::from(text.contains(r"\u{1b}[2J"));
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest < Some(30_000), "{what}: {longest:?}");
        } else {
            let value: Value = serde_saphyr::from_str(&text).unwrap();
            assert!(value.is_object(), "{what}");
        }
    }
    assert!(escaped >= 12, "the hostile text was shown by {escaped} commands only");
    let sarif = shop.run(&["lint", "-o", "sarif"]).await;
    check("sarif", &stdout(&sarif));
    let coloured = stdout(&shop.run(&["explain", "web", "--color", "always"]).await);
    for sequence in coloured.split('\u{1b}').skip(1) {
        let end = sequence.find('m').unwrap();
        assert!(sequence[1..end].chars().all(|c| c.is_ascii_digit() || c == ';'), "{sequence:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_server_reaches_no_terminal() {
    for code in [403, 422, 500] {
        let answer = Status::new(code, "Forbidden", HOSTILE.repeat(10_000));
        let shop = Shop::with(cluster(), vec![FaultRule::new(Fault::RefuseWith(answer), |_| true)]).await;
        for command in ["explain web", "explain pod/web-1", "lint", "diff", "cleanup"] {
            let output = shop.run(&command.split(' ').collect::<Vec<_>>()).await;
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(2), "{command}");
            check(command, &said);
            assert!(said.contains(r"\u{1b}[2J") && said.lines().count() == 1, "{command}: {said}");
            assert!(said.len() < 80_000, "{command}: {} bytes", said.len());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hostile_manifest_reaches_no_terminal() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let items: Vec<Value> = cluster()
        .into_iter()
        .map(|mut object| {
            object["metadata"].as_object_mut().unwrap().remove("uid");
            object[HOSTILE] = HOSTILE.into();
            object
        })
        .collect();
    serde_json::to_writer(&mut file, &json!({"apiVersion": "v1", "kind": "List", "items": items})).unwrap();
    let shop = Shop::with([], Vec::new()).await;
    let path = file.path().to_str().unwrap();
    let output = shop.run_exactly(&["render", "-f", path]).await;
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()));
    check("render", &stderr(&output));
    assert!(stderr(&output).contains(r"\u{1b}[2J"), "{}", stderr(&output));
}
