//! Tests the kubelet: pods start, become ready, and go after their grace period, and the status of
//! somebody else stays.

use std::time::Duration;

use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use serde_json::{Value, json};

use crate::protocol::common::*;

const NOW: Value = Value::Null;

fn with_kubelet() -> (EmbeddedApiServer, Raw) {
    start(EmbeddedApiServer::builder().seed(1).kubelet())
}

fn node(name: &str, zone: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"zone": zone}},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "172.16.0.9"}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn read(server: &EmbeddedApiServer, name: &str) -> Value {
    server.get("pods", "default", name).unwrap()
}

/// Returns the status of a condition, or an empty text.
fn condition(pod: &Value, kind: &str) -> String {
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|it| it["type"] == kind);
    found.map(|it| it["status"].as_str().unwrap().to_owned()).unwrap_or_default()
}

async fn millis(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_gets_a_node_and_addresses_and_is_ready_after_a_second() {
    let (server, raw) = with_kubelet();
    raw.post(PODS, &pod("a")).await.expect(201);
    millis(200).await;
    let started = read(&server, "a");
    assert_eq!(started["spec"]["nodeName"], "embedded");
    assert_eq!(started["status"]["podIPs"], json!([{"ip": "10.244.0.1"}, {"ip": "fd00:10:244::1"}]));
    assert_eq!(
        (&started["status"]["phase"], &started["status"]["hostIP"]),
        (&json!("Running"), &json!("192.0.2.1"))
    );
    assert_eq!(
        (condition(&started, "PodScheduled"), condition(&started, "Ready")),
        ("True".into(), "False".into())
    );
    // A change in between does not make it ready early.
    raw.merge(&format!("{PODS}/a"), &json!({"metadata": {"labels": {"x": "y"}}})).await.expect(200);
    millis(800).await;
    assert_eq!(condition(&read(&server, "a"), "Ready"), "False");
    millis(200).await;
    let ready = read(&server, "a");
    assert_eq!(condition(&ready, "Ready"), "True");
    assert_eq!(ready["status"]["containerStatuses"][0]["ready"], true);
    let version = server.resource_version();
    pass(3600).await;
    assert_eq!(server.resource_version(), version, "nothing is written without a change");
    assert_eq!(names(&raw.get("/api/v1/nodes").await.expect(200)), ["embedded"]);
}

#[tokio::test(start_paused = true)]
async fn without_the_setting_nothing_touches_a_pod() {
    let (server, raw) = started();
    let made = raw.post(PODS, &pod("a")).await.expect(201);
    pass(10).await;
    assert_eq!((read(&server, "a"), server.count("nodes")), (made, 0));
}

#[tokio::test(start_paused = true)]
async fn a_deletion_ends_with_its_grace_period_and_respects_finalizers() {
    let (server, raw) = with_kubelet();
    let mut held = pod("held");
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    for object in [pod("a"), pod("b"), held] {
        raw.post(PODS, &object).await.expect(201);
    }
    pass(2).await;
    raw.delete(&format!("{PODS}/a"), &NOW).await.expect(200);
    raw.delete(&format!("{PODS}/b"), &json!({"gracePeriodSeconds": 5})).await.expect(200);
    raw.delete(&format!("{PODS}/held"), &json!({"gracePeriodSeconds": 5})).await.expect(200);
    pass(4).await;
    assert_eq!(condition(&read(&server, "b"), "Ready"), "True", "its containers still run");
    millis(1300).await;
    let ended = read(&server, "b");
    assert_eq!(
        (condition(&ended, "Ready"), &ended["status"]["phase"]),
        ("False".into(), &json!("Succeeded")),
        "its containers have ended, and the kubelet removes it a moment later"
    );
    millis(700).await;
    assert!(server.get("pods", "default", "b").is_none());
    let ended = read(&server, "held");
    assert_eq!(
        (condition(&ended, "Ready"), &ended["status"]["phase"]),
        ("False".into(), &json!("Succeeded"))
    );
    raw.merge(&format!("{PODS}/held"), &json!({"metadata": {"finalizers": null}})).await.expect(200);
    assert!(server.get("pods", "default", "held").is_none());
    // A second deletion may shorten the first one.
    raw.delete(&format!("{PODS}/a"), &json!({"gracePeriodSeconds": 10})).await.expect(200);
    pass(5).await;
    assert_eq!(server.count("pods"), 0);
    // The addresses are free again, and are used after all others.
    raw.post(PODS, &pod("c")).await.expect(201);
    pass(1).await;
    assert_eq!(read(&server, "c")["status"]["podIP"], "10.244.0.4");
}

#[tokio::test(start_paused = true)]
async fn a_status_of_somebody_else_stays() {
    let loaded = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "loaded", "uid": "u"},
        "spec": {"nodeName": "n", "containers": []}, "status": {"phase": "Pending", "podIPs": [{"ip": "10.244.0.1"}]}});
    let (server, raw) = start(EmbeddedApiServer::builder().kubelet().load([loaded]));
    let mut manifest = pod("manifest");
    manifest["status"] = json!({"phase": "Pending"});
    server.create(manifest).await.unwrap();
    for name in ["early", "late"] {
        raw.post(PODS, &pod(name)).await.expect(201);
    }
    let status = json!({"status": {"phase": "Pending", "message": "mine"}});
    raw.merge(&format!("{PODS}/early/status"), &status).await.expect(200);
    pass(2).await;
    assert_eq!(read(&server, "late")["status"]["podIP"], "10.244.0.2", "the first address is in use");
    raw.merge(&format!("{PODS}/late/status"), &status).await.expect(200);
    let before = server.list("pods");
    pass(100).await;
    assert_eq!(server.list("pods"), before);
    for (name, node) in [("loaded", "n"), ("manifest", ""), ("early", "")] {
        assert_eq!(read(&server, name)["spec"]["nodeName"].as_str().unwrap_or_default(), node, "{name}");
    }
    // Nor does the kubelet end the deletion of such a pod.
    raw.delete(&format!("{PODS}/late"), &json!({"gracePeriodSeconds": 1})).await.expect(200);
    pass(100).await;
    assert_eq!(read(&server, "late")["status"]["message"], "mine");
}

/// Returns a pod with a readiness gate.
fn gated(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["readinessGates"] = json!([{"conditionType": "example.com/up"}]);
    pod
}

#[tokio::test(start_paused = true)]
async fn a_readiness_gate_decides_about_ready_and_the_pod_stays_the_kubelets() {
    let (server, raw) = with_kubelet();
    for name in ["a", "early"] {
        raw.post(PODS, &gated(name)).await.expect(201);
    }
    let open = async |name: &str, status: &str| {
        let patch = json!({"status": {"conditions": [{"type": "example.com/up", "status": status}]}});
        let uri = format!("{PODS}/{name}/status");
        raw.send("PATCH", &uri, "application/strategic-merge-patch+json", patch.to_string())
            .await
            .expect(200);
    };
    open("early", "True").await;
    pass(3).await;
    assert_eq!(["a", "early"].map(|name| condition(&read(&server, name), "Ready")), ["False", "True"]);
    for status in ["True", "False", "True"] {
        open("a", status).await;
        pass(2).await;
        let pod = read(&server, "a");
        assert_eq!(condition(&pod, "Ready"), status);
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        let ready = conditions.iter().find(|it| it["type"] == "Ready").unwrap();
        let now = server.now().as_second();
        let since: jiff::Timestamp = ready["lastTransitionTime"].as_str().unwrap().parse().unwrap();
        assert!((0..=2).contains(&(now - since.as_second())), "{ready}");
    }
    let version = server.resource_version();
    pass(100).await;
    assert_eq!(server.resource_version(), version, "nothing is written without a change");
    // The gate counts during the grace period, too, and the deletion ends.
    raw.delete(&format!("{PODS}/a"), &json!({"gracePeriodSeconds": 10})).await.expect(200);
    open("a", "False").await;
    pass(1).await;
    assert_eq!(condition(&read(&server, "a"), "Ready"), "False");
    pass(10).await;
    assert!(server.get("pods", "default", "a").is_none());
    // A write of more than the gate takes the pod over.
    raw.merge(&format!("{PODS}/early/status"), &json!({"status": {"message": "mine"}})).await.expect(200);
    open("early", "False").await;
    pass(2).await;
    assert_eq!(condition(&read(&server, "early"), "Ready"), "True");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_nobody_ends_comes_with_a_warning() {
    let loaded = |name: &str, node: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"nodeName": node, "containers": [], "terminationGracePeriodSeconds": 30}, "status": {"phase": "Running"}})
    };
    let objects = [loaded("placed", "n"), loaded("unplaced", "")];
    let (_, without) = start(EmbeddedApiServer::builder().load(objects.clone()));
    let (_server, raw) = start(EmbeddedApiServer::builder().kubelet().load(objects));
    let warning = |reply: &Reply| {
        reply.headers.get("warning").map(|it| it.to_str().unwrap().to_owned()).unwrap_or_default()
    };
    let pods = "/api/v1/namespaces/shop/pods";
    let namespace = "/api/v1/namespaces/shop";
    raw.post(pods, &pod("own")).await.expect(201);
    pass(2).await;
    for uri in ["own", "unplaced", "placed?dryRun=All"] {
        assert_eq!(warning(&raw.delete(&format!("{pods}/{uri}"), &NOW).await), "", "{uri}");
    }
    let of_pod = "299 - \"the status of pod shop/placed comes from its file or another writer, so the kubelet does not \
                  end its deletion; kubectl -n shop delete pod placed --grace-period=0 --force removes it\"";
    assert_eq!(warning(&raw.delete(&format!("{pods}/placed"), &NOW).await), of_pod);
    assert_eq!(warning(&raw.delete(pods, &NOW).await), of_pod);
    assert_eq!(
        warning(&raw.delete(namespace, &NOW).await),
        "299 - \"the status of pod shop/placed comes from its file or another writer, so the kubelet does not end its \
         deletion, and the namespace waits for it; kubectl -n shop delete pods --all --grace-period=0 --force removes \
         such pods\""
    );
    let forced = raw.delete(&format!("{pods}/placed"), &json!({"gracePeriodSeconds": 0})).await;
    forced.expect(200);
    assert_eq!(warning(&forced), "");
    for uri in [&format!("{pods}/placed"), namespace] {
        assert_eq!(warning(&without.delete(uri, &NOW).await), "", "{uri}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_a_write_does_not_change_is_not_taken_over() {
    let (server, raw) = with_kubelet();
    raw.post(PODS, &pod("a")).await.expect(201);
    let labels = json!({"metadata": {"labels": {"x": "y"}}, "status": {"phase": "Pending"}});
    raw.merge(&format!("{PODS}/a/status"), &labels).await.expect(200);
    let refused = json!({"metadata": {"resourceVersion": "1"}, "status": {"phase": "Failed"}});
    raw.merge(&format!("{PODS}/a/status"), &refused).await.expect(409);
    raw.merge(&format!("{PODS}/a/status?dryRun=All"), &json!({"status": {"phase": "Failed"}}))
        .await
        .expect(200);
    pass(2).await;
    assert_eq!(condition(&read(&server, "a"), "Ready"), "True");
}

#[tokio::test(start_paused = true)]
async fn pods_are_spread_over_the_nodes_that_take_them() {
    let nodes = [node("n1", "a"), node("n2", "b"), node("n3", "a")];
    let (server, raw) = start(EmbeddedApiServer::builder().kubelet().load(nodes));
    raw.merge("/api/v1/nodes/n3", &json!({"spec": {"unschedulable": true}})).await.expect(200);
    let mut selective = pod("s");
    selective["spec"]["nodeSelector"] = json!({"zone": "c"});
    let mut gated = pod("g");
    gated["spec"]["schedulingGates"] = json!([{"name": "example.com/wait"}]);
    let mut on_host = pod("h");
    on_host["spec"]["hostNetwork"] = true.into();
    for object in [pod("p1"), pod("p2"), pod("p3"), pod_on("fixed", "n9"), selective, gated, on_host] {
        raw.post(PODS, &object).await.expect(201);
    }
    pass(2).await;
    let on = |name: &str| read(&server, name)["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
    assert_eq!(["p1", "p2", "p3", "h"].map(on), ["n1", "n2", "n1", "n2"]);
    assert_eq!(read(&server, "h")["status"]["podIPs"], json!([{"ip": "172.16.0.9"}]));
    let waits = read(&server, "s")["status"]["conditions"][0].clone();
    assert_eq!(
        (&waits["type"], &waits["status"], &waits["reason"]),
        (&json!("PodScheduled"), &json!("False"), &json!("Unschedulable"))
    );
    assert_eq!(
        waits["message"],
        "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
    );
    assert_eq!(
        [on("g"), read(&server, "fixed")["status"]["phase"].as_str().unwrap().to_owned()],
        ["", "Pending"]
    );
    // Now they get the node or the label for which they wait.
    raw.merge(&format!("{PODS}/g"), &json!({"spec": {"schedulingGates": null}})).await.expect(200);
    raw.merge("/api/v1/nodes/n1", &json!({"metadata": {"labels": {"zone": "c"}}})).await.expect(200);
    server.load([node("n9", "z")]).unwrap();
    pass(2).await;
    for (name, node) in [("s", "n1"), ("g", "n9"), ("fixed", "n9")] {
        assert_eq!(
            (on(name), condition(&read(&server, name), "Ready")),
            (node.to_owned(), "True".to_owned()),
            "{name}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn addresses_are_of_the_families_of_services_and_outside_their_ranges() {
    let check = async |ranges: &[&str], want: Value| {
        let (server, raw) = start(EmbeddedApiServer::builder().kubelet().service_ranges(ranges.to_vec()));
        raw.post(PODS, &pod("a")).await.expect(201);
        pass(1).await;
        assert_eq!(read(&server, "a")["status"]["podIPs"], want, "{ranges:?}");
    };
    check(&["10.96.0.0/16"], json!([{"ip": "10.244.0.1"}])).await;
    check(&["10.240.0.0/12"], json!([{"ip": "172.24.0.1"}])).await;
    check(&["fd00:10:244::/112", "10.0.0.0/16"], json!([{"ip": "fd00:10:245::1"}, {"ip": "10.244.0.1"}]))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_restore_leaves_no_pod_behind() {
    let (server, raw) = with_kubelet();
    raw.post(PODS, &pod("a")).await.expect(201);
    let backup = server.checkpoint();
    pass(5).await;
    raw.delete(&format!("{PODS}/a"), &json!({"gracePeriodSeconds": 60})).await.expect(200);
    server.restore(&backup);
    assert_eq!(read(&server, "a")["status"]["phase"], "Pending");
    pass(5).await;
    assert_eq!(condition(&read(&server, "a"), "Ready"), "True");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_with_pods_goes() {
    let (server, raw) = with_kubelet();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}});
    raw.post("/api/v1/namespaces", &namespace).await.expect(201);
    raw.post("/api/v1/namespaces/shop/pods", &pod("a")).await.expect(201);
    pass(2).await;
    raw.delete("/api/v1/namespaces/shop", &NOW).await.expect(200);
    pass(35).await;
    assert!(server.get("namespaces", "", "shop").is_none());
}

/// Every order of the same requests gives the same objects, as each run of a seed does.
#[tokio::test(start_paused = true)]
async fn a_run_repeats() {
    let mut runs = Vec::new();
    for _ in 0..2 {
        let (server, raw) = start(EmbeddedApiServer::builder().seed(7).kubelet());
        for index in 0..20 {
            raw.post(PODS, &pod(&format!("p{index}"))).await.expect(201);
        }
        raw.delete(&format!("{PODS}/p3"), &json!({"gracePeriodSeconds": 1})).await.expect(200);
        pass(5).await;
        let addresses: std::collections::BTreeSet<String> = server
            .list("pods")
            .iter()
            .map(|pod| pod["status"]["podIP"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(addresses.len(), 19, "each address is given once");
        runs.push(server.list("pods"));
    }
    assert_eq!(runs[0], runs[1]);
}
