//! Tests that `explain` sends the same requests and reads the same number of bytes, however large
//! the cluster is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use crate::large;
use crate::proxy::proxy;
use crate::server::{Shop, stderr, stdout};
use crate::without_history;

/// Explains one Service of a cluster. Returns the requests and the bytes of the answers.
async fn explained(services: usize) -> (Vec<String>, usize) {
    let shop = Shop::of(large::server(services, 10)).await;
    let bytes = Arc::new(AtomicUsize::new(0));
    let answered = Arc::clone(&bytes);
    let count = move |answer: &[u8]| {
        answered.fetch_add(answer.len(), Ordering::Relaxed);
    };
    let address = proxy(shop.address(), |_| {}, count).await;
    std::fs::write(shop.kubeconfig.path(), shop.server.kubeconfig(address)).unwrap();
    shop.server.clear_request_log();
    let (name, namespace) = large::service(7);
    let output = shop.run_in(&namespace, &["explain", &name]).await;
    let text = without_history(&stdout(&output));
    assert!(
        text.starts_with(&format!("OK  Service {namespace}/{name}\n10 of 10 pods receive traffic.\n")),
        "{text}{}",
        stderr(&output)
    );
    let mut requests = shop.requests();
    requests.sort();
    (requests, bytes.load(Ordering::Relaxed))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_size_of_the_cluster_changes_neither_requests_nor_bytes() {
    let (requests, bytes) = explained(20).await;
    let (of_large, bytes_of_large) = explained(400).await;
    assert_eq!(requests, of_large);
    // The requests are for the Service, its pods, their ten nodes, slices, Endpoints, events and
    // NetworkPolicies.
    assert_eq!(requests.len(), 16, "{requests:#?}");
    // Versions have more digits in the larger cluster.
    assert!(bytes_of_large.abs_diff(bytes) < bytes / 50, "{bytes} and {bytes_of_large}");
    assert!(bytes_of_large < 64 * 1024, "{bytes_of_large}");
}

/// A change during the reading is then newer in the pods and Leases than in the slices, so that no
/// slice looks late.
#[tokio::test(flavor = "multi_thread")]
async fn outputs_are_read_before_pods_and_leases() {
    let led = json!({"kube-endpoint-manager.github.io/endpoint-selector": "led"});
    let labels = json!({"app": "web"});
    let ports = json!([{"port": 80}]);
    let objects = [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"selector": labels, "ports": ports}}),
        json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "led", "namespace": "shop", "annotations": led}, "spec": {"ports": ports}}),
        json!({"apiVersion": "kube-endpoint-manager.github.io/v1alpha1", "kind": "EndpointSelector",
            "metadata": {"name": "led", "namespace": "shop"},
            "spec": {"selector": {"matchLabels": labels}, "readiness": {"lease": {"name": "led"}}}}),
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "web-0", "namespace": "shop", "labels": labels},
            "spec": {"containers": [{"name": "app", "image": "i"}]}}),
    ];
    let shop = Shop::with(objects, Vec::new()).await;
    let is_output = |request: &String| {
        ["endpointslices", "endpoints/", "endpoints?"]
            .iter()
            .any(|it| request.contains(&format!("/namespaces/shop/{it}")))
    };
    let follows = |request: &String| request.contains("/pods?") || request.contains("/leases/led");
    for arguments in [&["explain", "web"][..], &["explain", "led"], &["explain", "pod/web-0"], &["lint"]] {
        shop.requests();
        shop.run(arguments).await;
        let mut requests: Vec<String> = Vec::new();
        // A second reading sends the same.
        for request in shop.requests() {
            if !requests.contains(&request) {
                requests.push(request);
            }
        }
        let (last, first) = (requests.iter().rposition(is_output), requests.iter().position(follows));
        assert!(last.is_some() && last < first, "{arguments:?} {requests:#?}");
    }
}

/// Nodes without a pod of the Service matter if a traffic policy is `Local`, or if hints are for
/// other nodes or zones.
#[tokio::test(flavor = "multi_thread")]
async fn all_nodes_are_listed_for_a_policy_local_and_for_hints_to_other_zones() {
    let node = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": "eu-1"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let service = |policy: &str| {
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ipFamilies": ["IPv4"],
                "internalTrafficPolicy": policy, "ports": [{"port": 80, "protocol": "TCP"}]}})
    };
    let slice = |hints: [Value; 2]| {
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
        "endpoints": [
            {"addresses": ["10.9.0.1"], "nodeName": "a", "conditions": {"ready": true}, "hints": hints[0]},
            {"addresses": ["10.9.0.2"], "nodeName": "a", "conditions": {"ready": true}, "hints": hints[1]},
        ]})
    };
    let zone = |name: &str| json!({"forZones": [{"name": name}]});
    let none = || [Value::Null, Value::Null];
    for (policy, hints, requests, verdict, receiving) in [
        // The node that the endpoints name.
        ("Cluster", none(), 1, "EP000", 2),
        ("Local", none(), 1, "EP048", 2),
        ("Cluster", [zone("eu-1"), zone("of-no-node")], 2, "EP000", 1),
    ] {
        let objects = [node("a"), node("b"), service(policy), slice(hints)];
        let shop = Shop::with(objects, Vec::new()).await;
        let output = shop.run(&["explain", "web", "-o", "json"]).await;
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["verdict"]["code"], verdict, "{}", stderr(&output));
        assert_eq!(json["podsByPublication"]["receiving"], receiving, "{policy}");
        let of_nodes = |request: &&String| request.contains("/nodes");
        assert_eq!(shop.requests().iter().filter(of_nodes).count(), requests, "{policy}");
    }
}

/// The pods that an operator names, and one that has an address which it writes without a name.
#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_wrote_is_compared_with_the_pods() {
    let pod = |name: &str, ip: &str, ready: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop"},
            "spec": {"nodeName": "a", "containers": [{"name": "app", "image": "i"}]},
            "status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                "conditions": [{"type": "Ready", "status": ready}]}})
    };
    let named = |name: &str, ip: &str| json!({"addresses": [ip], "targetRef": {"kind": "Pod", "namespace": "shop", "name": name}});
    let objects = [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ipFamilies": ["IPv4"],
                "ports": [{"port": 80, "protocol": "TCP"}]}}),
        json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
            "addressType": "IPv4", "ports": [{"name": "", "port": 80, "protocol": "TCP"}],
            "endpoints": [named("moved", "10.9.0.1"), named("gone", "10.9.0.2"), {"addresses": ["10.9.0.3"]}]}),
        pod("moved", "10.9.0.4", "True"),
        pod("unready", "10.9.0.3", "False"),
        pod("new", "10.9.0.2", "True"),
    ];
    let shop = Shop::with(objects, Vec::new()).await;
    let text = stdout(&shop.run(&["explain", "web"]).await);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let want = "slice web-1 sends clients to 10.9.0.1 of pod moved, which has the address 10.9.0.4; to 10.9.0.2 of pod gone, which does not exist any more (it is the address of pod new now); to 10.9.0.3 of pod unready, which is not ready";
    assert!(text.contains(want) && text.starts_with("DOWN") && text.contains("0 of 3 addresses"), "{text}");
    shop.server.clear_request_log();
    let text = stdout(&shop.run(&["explain", "pod/unready"]).await);
    assert!(text.starts_with("NO TRAFFIC") && text.contains("EP089  web: slice web-1 sends"), "{text}");
    // Its clients are meant for another pod, which the reader looks for.
    let text = stdout(&shop.run(&["explain", "pod/new"]).await);
    assert!(text.starts_with("NOT SELECTED") && text.contains("of pod gone"), "{text}");
}

/// A pod that gets no address says nothing about the cause: the warnings about it do.
#[tokio::test(flavor = "multi_thread")]
async fn warnings_are_read_about_a_few_pods_that_are_not_ready() {
    let pod = |at: usize| {
        json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("web-{at}"), "namespace": "default", "labels": {"app": "web"}},
            "spec": {"nodeName": "a", "containers": [{"name": "app", "image": "i"}]}, "status": {"phase": "Pending"}})
    };
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}),
        json!({"apiVersion": "v1", "kind": "Event", "type": "Warning", "reason": "FailedMount",
            "metadata": {"name": "e", "namespace": "default"}, "message": "secret \"tls\" not found",
            "involvedObject": {"kind": "Pod", "namespace": "default", "name": "web-0"}}),
    ];
    objects.extend((0..5).map(pod));
    let shop = Shop::with(objects, Vec::new()).await;
    shop.server.clear_request_log();
    let text = stdout(&shop.run_in("default", &["explain", "web"]).await);
    assert!(text.contains("FailedMount"), "{text}");
    // No slice is written, so it reads all of them a second time.
    let about_pods = shop.requests().into_iter().filter(|request| request.contains("involvedObject.kind"));
    assert_eq!(about_pods.collect::<BTreeSet<_>>().len(), 3);
}
