//! Nobody hears of a change that no controller reads.

use std::sync::Arc;
use std::time::Duration;

use kube_endpoint_api_client::{ApiClient, ContentType};
use kube_endpoint_core_model::{Node, ObjectKey, Pod};
use kube_endpoint_embedded_apiserver::EmbeddedApiServer;
use kube_endpoint_informer::{Change, Cluster, Handler, Kind, PodEvent, ReflectorOptions, StreamEvent, run};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The versions of the objects that the cluster called a handler with.
#[derive(Default)]
struct Told(Mutex<Vec<String>>);

impl Handler for Told {
    fn on_pod(&self, event: &PodEvent) {
        self.0.lock().extend(event.change.new.as_ref().map(|pod| pod.resource_version.to_string()));
    }

    fn on_node(&self, change: &Change<Node>) {
        self.0.lock().extend(change.new.as_ref().map(|node| node.resource_version.to_string()));
    }
}

fn pod(phase: &str, ready: &str, restarts: u32) -> Value {
    let running = json!({"startedAt": format!("2026-01-01T00:00:{restarts:02}Z")});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "n", "uid": "u"},
        "spec": {"containers": [{"name": "app", "image": "i", "readinessProbe": {"httpGet": {"port": 80}}}]},
        "status": {"phase": phase, "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "app", "image": "i", "imageID": "x", "ready": false, "restartCount": restarts,
                "state": {"running": running}, "lastState": {"terminated": {"exitCode": restarts}}}]}})
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_a_container_is_no_change_of_a_pod_that_is_not_ready() {
    for content_type in ContentType::ALL {
        let server = EmbeddedApiServer::builder().build().unwrap();
        let cluster = Cluster::new([Kind::Pods]);
        let told = Arc::new(Told::default());
        cluster.add_handler(Arc::clone(&told) as Arc<dyn Handler>);
        let client = ApiClient::for_tests(server.service()).with_content_type(content_type);
        tokio::spawn(run::<Pod>(client, cluster.clone(), ReflectorOptions::new(0), std::future::pending()));
        let put = async |object: Value| {
            server.load([object]).unwrap();
            tokio::time::sleep(Duration::from_secs(1)).await;
            let pod = cluster.pod(&ObjectKey::new("n", "web")).unwrap();
            let version = server.list("pods")[0]["metadata"]["resourceVersion"].clone();
            assert_eq!(pod.resource_version.to_string(), version);
            std::mem::take(&mut *told.0.lock()).len()
        };
        assert_eq!(put(pod("Running", "False", 1)).await, 1);
        assert_eq!(put(pod("Running", "False", 2)).await, 0);
        assert_eq!(put(pod("Running", "True", 2)).await, 1);
        assert_eq!(put(pod("Running", "True", 3)).await, 1, "it may have led");
    }
}

#[test]
fn a_cordoned_node_is_no_change() {
    let cluster = Cluster::new([Kind::Nodes]);
    let told = Arc::new(Told::default());
    cluster.add_handler(Arc::clone(&told) as Arc<dyn Handler>);
    let put = |version: &str, closed: bool, ready: &str| {
        let node = json!({"metadata": {"name": "n1", "resourceVersion": version}, "spec": {"unschedulable": closed},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}});
        cluster.apply::<Node>(StreamEvent::Applied(serde_json::from_value(node).unwrap()));
        std::mem::take(&mut *told.0.lock()).len()
    };
    assert_eq!(put("1", false, "True"), 1);
    assert_eq!(put("2", true, "True"), 0);
    assert_eq!(put("3", true, "False"), 1);
}
