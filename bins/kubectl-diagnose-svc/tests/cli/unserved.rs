//! Tests that a cluster without endpoint controllers has one cause, and that a refused write is
//! told with its reason.

use serde_json::{Value, json};

use crate::server::{Shop, stdout};

const CREATED: &str = "2026-01-01T00:00:00Z";

/// Returns a Service of a namespace with a pod.
fn service(namespace: &str, name: &str) -> [Value; 2] {
    let metadata =
        json!({"name": name, "namespace": namespace, "labels": {"app": name}, "creationTimestamp": CREATED});
    // The names differ in length.
    let address = format!("10.0.0.{}", name.len());
    [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {
            "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ipFamilies": ["IPv4"],
            "selector": {"app": name}, "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}]}}),
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"nodeName": "a", "containers": [{"name": "app", "image": "i"}]},
            "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": CREATED}]}}),
    ]
}

fn node() -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
}

fn codes(lint: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let problems = lint["problems"].as_array().unwrap().iter();
    problems.map(|problem| format!("{} {}", text(&problem["kind"]), text(&problem["code"]))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn lint_and_explain_name_the_cause_of_an_unserved_cluster() {
    let services = [("shop", "web"), ("shop", "cart"), ("pay", "ledger"), ("tools", "ci")];
    let objects = services.iter().flat_map(|(namespace, name)| service(namespace, name));
    let shop = Shop::with(objects.chain([node()]), Vec::new()).await;
    let output = shop.run_exactly(&["lint", "-A", "-o", "json", "--kubeconfig", path(&shop)]).await;
    let lint: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(codes(&lint), ["Cluster EP073"]);
    let text = stdout(&shop.run(&["explain", "web"]).await);
    assert!(text.starts_with("DOWN  Service shop/web  EP073 cluster-unserved\n"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_write_is_told_with_its_reason() {
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "web.1", "namespace": "shop"},
        "involvedObject": {"kind": "Service", "namespace": "shop", "name": "web"}, "type": "Warning",
        "reason": "FailedToUpdateEndpointSlices", "count": 1,
        "message": "Error updating Endpoint Slices for Service shop/web: failed to create EndpointSlice for Service shop/web: admission webhook \"labels.example.com\" denied the request: no"});
    let objects = service("shop", "web").into_iter().chain([node(), event]);
    let shop = Shop::with(objects, Vec::new()).await;
    for arguments in [&["lint", "-o", "wide"][..], &["explain", "web"]] {
        let text = stdout(&shop.run(arguments).await);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("the admission webhook labels.example.com refuses"), "{text}");
        assert!(text.contains("kubectl get validatingwebhookconfigurations,"), "{text}");
    }
}

fn path(shop: &Shop) -> &str {
    shop.kubeconfig.path().to_str().unwrap()
}
