//! Tests a start with the default profile on the outputs of the upstream profile, and the reverse.

use kube_endpoint_controllers::Gates;
use kube_endpoint_integration_tests::running_manager::{settings, writes_within};
use serde_json::{Value, json};

use crate::gates::objects::{node, pod, service};
use crate::gates::test_cluster::{LONG, TestCluster};

fn service_named(name: &str, change: fn(&mut Value)) -> Value {
    let mut service = service();
    service["metadata"]["name"] = name.into();
    service["metadata"]["uid"] = format!("uid-{name}").into();
    change(&mut service);
    service
}

fn headless(service: &mut Value) {
    service["spec"]["clusterIP"] = "None".into();
    service["spec"]["clusterIPs"] = json!(["None"]);
}

/// Returns Services with hints, with more addresses than the controller mirrors, without pods, and
/// headless ones.
fn objects() -> Vec<Value> {
    let addresses: Vec<Value> =
        (0..1200).map(|n| json!({"ip": format!("192.0.{}.{}", n / 250, n % 250 + 1)})).collect();
    let custom = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "custom", "namespace": "default"},
        "subsets": [{"addresses": addresses, "ports": [{"port": 80}]}],
    });
    let nodes = (0..2).map(|number| node(&format!("n{number}"), &format!("z{number}")));
    let pods = (0..12).map(|number| pod(number, &format!("n{}", number % 2), true));
    let others = [
        service_named("close", |it| it["spec"]["trafficDistribution"] = "PreferClose".into()),
        service_named("auto", |it| {
            it["metadata"]["annotations"] = json!({"service.kubernetes.io/topology-mode": "Auto"});
        }),
        service_named("no-pods", |it| it["spec"]["selector"] = json!({"app": "none"})),
        service_named("custom", |it| it["spec"]["selector"] = Value::Null),
        custom,
        service_named("headless", headless),
        service_named("custom-headless", |it| {
            headless(it);
            it["spec"]["selector"] = Value::Null;
        }),
        json!({
            "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "custom-headless", "namespace": "default"},
            "subsets": [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"port": 80}]}],
        }),
    ];
    nodes.chain(pods).chain(others).collect()
}

#[tokio::test(start_paused = true)]
async fn each_profile_keeps_the_outputs_of_the_other() {
    for (first, second) in [(Gates::upstream(), Gates::default()), (Gates::default(), Gates::upstream())] {
        let cluster = TestCluster::start(first, objects()).await;
        cluster.pass(60).await;
        let slices = cluster.slices();
        let hinted = slices.iter().filter(|slice| slice["endpoints"][0]["hints"].is_object()).count();
        assert!(hinted >= 2, "{hinted}");
        let most = slices.iter().filter_map(|slice| slice["endpoints"].as_array()).map(Vec::len).max();
        assert_eq!(most, Some(1000));
        let server = cluster.stop().await;
        let events = server.list("events");
        let skipped = events.iter().filter(|event| event["reason"] == "TooManyAddressesToMirror").count();
        assert_eq!(skipped, 1, "{events:#?}");
        assert_eq!(writes_within(&server, &settings(second.clone()), LONG).await, [""; 0]);
        assert_eq!(writes_within(&server, &settings(second), LONG).await, [""; 0]);
    }
}
