//! The stores keep what only explanations read, the details of pods on request, and nobody hears of
//! a change of that alone.

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
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", "namespace": "n", "uid": "u"},
        "spec": {"containers": [{"name": "app", "image": "i", "readinessProbe": {"httpGet": {"port": 80}}}]},
        "status": {"phase": phase, "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"name": "app", "image": "i", "imageID": "x", "ready": false, "restartCount": restarts,
                "state": {"running": {}}, "lastState": {"terminated": {"exitCode": restarts}}}]}})
}

#[tokio::test(start_paused = true)]
async fn a_change_of_details_alone_is_no_change() {
    for content_type in ContentType::ALL {
        for keeps in [true, false] {
            let server = EmbeddedApiServer::builder().build().unwrap();
            let cluster = Cluster::new([Kind::Pods]);
            if keeps {
                cluster.keep_pod_details();
            }
            let told = Arc::new(Told::default());
            cluster.add_handler(Arc::clone(&told) as Arc<dyn Handler>);
            let client = ApiClient::for_tests(server.service()).with_content_type(content_type);
            tokio::spawn(run::<Pod>(
                client,
                cluster.clone(),
                ReflectorOptions::new(0),
                std::future::pending(),
            ));
            let put = async |object: Value| {
                server.load([object]).unwrap();
                tokio::time::sleep(Duration::from_secs(1)).await;
                let pod = cluster.pod(&ObjectKey::new("n", "web")).unwrap();
                let version = server.list("pods")[0]["metadata"]["resourceVersion"].clone();
                assert_eq!(pod.resource_version.to_string(), version);
                let restarts = pod.details.as_ref().map(|details| details.containers[0].restarts);
                (restarts, std::mem::take(&mut *told.0.lock()).len())
            };
            let kept = |restarts: u32| keeps.then_some(restarts);
            assert_eq!(put(pod("Running", "False", 1)).await, (kept(1), 1));
            assert_eq!(put(pod("Running", "False", 2)).await, (kept(2), 0), "only a count of restarts");
            assert_eq!(put(pod("Running", "True", 2)).await, (None, 1), "a ready pod needs no details");
            assert_eq!(put(pod("Running", "False", 3)).await, (kept(3), 1));
            assert_eq!(put(pod("Succeeded", "False", 3)).await, (None, 1), "it has ended as it should");
        }
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
        (cluster.node("n1").unwrap().keeps_pods_away, std::mem::take(&mut *told.0.lock()).len())
    };
    assert_eq!(put("1", false, "True"), (false, 1));
    assert_eq!(put("2", true, "True"), (true, 0));
    assert_eq!(put("3", true, "False"), (true, 1));
}
