//! Tests the kubelet with a range that is full. The range of a server is too large for that.

use std::time::Duration;

use kube_endpoint_apiserver_rules::strategy::Addresses;
use serde_json::{Value, json};

use crate::EmbeddedApiServer;

/// The range has six addresses.
fn with_a_small_range() -> EmbeddedApiServer {
    let server = EmbeddedApiServer::builder().seed(1).kubelet().build().unwrap();
    let kubelet = server.inner.kubelet.as_ref().unwrap();
    kubelet.lock().ranges = vec![Addresses::parse("10.244.0.0/29").unwrap()];
    server
}

async fn create(server: &EmbeddedApiServer, name: &str, on_host: bool) {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"hostNetwork": on_host, "containers": [{"name": "c", "image": "i"}]}});
    server.create(pod).await.unwrap();
}

fn status(server: &EmbeddedApiServer, name: &str) -> Value {
    server.get("pods", "default", name).unwrap()["status"].clone()
}

fn address(server: &EmbeddedApiServer, name: &str) -> String {
    status(server, name)["podIP"].as_str().unwrap_or_default().to_owned()
}

async fn remove(server: &EmbeddedApiServer, name: &str) {
    let options = crate::verbs::DeleteOptions { grace: Some(0), ..Default::default() };
    let key = format!("default/{name}");
    server.inner.delete(&super::PODS, &key, &options, false).unwrap();
    pass().await;
}

async fn pass() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_waits_for_an_address_starts_when_one_is_free() {
    let server = with_a_small_range();
    for name in ["a", "b", "c", "d", "e", "f"] {
        create(&server, name, false).await;
    }
    pass().await;
    assert_eq!(address(&server, "f"), "10.244.0.6");
    for name in ["wait-1", "wait-2"] {
        create(&server, name, false).await;
    }
    // A pod with the address of its node needs none of the range.
    create(&server, "on-host", true).await;
    pass().await;
    assert_eq!(address(&server, "on-host"), "192.0.2.1");
    for name in ["wait-1", "wait-2"] {
        let status = status(&server, name);
        assert_eq!(
            status["conditions"][0]["message"],
            "0/1 nodes are available: 1 node(s) had no free address for a pod."
        );
    }
    remove(&server, "on-host").await;
    assert_eq!(address(&server, "wait-1"), "", "no address has become free");
    remove(&server, "c").await;
    assert_eq!((&*address(&server, "wait-1"), &*address(&server, "wait-2")), ("10.244.0.3", ""));
    // The range is full again.
    remove(&server, "wait-1").await;
    assert_eq!(address(&server, "wait-2"), "10.244.0.3");
    remove(&server, "a").await;
    create(&server, "g", false).await;
    pass().await;
    assert_eq!(address(&server, "g"), "10.244.0.1");
}
