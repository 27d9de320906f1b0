//! Tests the gates of the endpointslice controller, which runs alone and puts at most four
//! endpoints into a slice.

use kube_endpoint_controllers::{ControllerName, Gate, Gates};
use kube_endpoint_embedded_apiserver::{Fault, FaultRule};
use kube_endpoint_integration_tests::running_manager::settings;
use serde_json::{Value, json};

use crate::gates::objects::{node, pod, pod_on_port, service};
use crate::gates::test_cluster::{TestCluster, on_and_off};

async fn start(gates: Gates, objects: Vec<Value>) -> TestCluster {
    let mut settings = settings(gates);
    settings.controllers = vec![ControllerName::EndpointSlice];
    settings.max_endpoints_per_slice = 4;
    TestCluster::start_with(&settings, objects).await
}

#[tokio::test(start_paused = true)]
async fn node_zone_resync() {
    for (gates, on) in on_and_off(Gate::NodeZoneResync) {
        let cluster = start(gates, vec![node("a", ""), pod(1, "a", true), service()]).await;
        cluster.load([node("a", "zone-a")]).await;
        assert_eq!(cluster.slice_endpoints()[0]["zone"] == "zone-a", on);
    }
}

#[tokio::test(start_paused = true)]
async fn missing_node_resync() {
    for (gates, on) in on_and_off(Gate::MissingNodeResync) {
        let cluster = start(gates, vec![pod(1, "a", true), service()]).await;
        // Retries come after 31 and 63 seconds; this is between them.
        cluster.pass(35).await;
        assert_eq!(cluster.slice_endpoints().len(), 0);
        cluster.load([node("a", "zone-a")]).await;
        assert_eq!(cluster.slice_endpoints().len(), usize::from(on));
    }
}

#[tokio::test(start_paused = true)]
async fn headless_label_repair() {
    for (gates, on) in on_and_off(Gate::HeadlessLabelRepair) {
        let headless = json!({"spec": {"type": "ClusterIP", "externalName": null, "clusterIP": "None", "clusterIPs": ["None"]}});
        let external = json!({"spec": {"type": "ExternalName", "externalName": "example.invalid", "clusterIP": null,
            "clusterIPs": null, "ipFamilies": null, "ipFamilyPolicy": null}});
        let back = json!({"spec": {"type": "ClusterIP", "externalName": null}});
        let mut service = service();
        service["spec"]["clusterIP"] = "None".into();
        service["spec"]["clusterIPs"] = json!(["None"]);
        let cluster = start(gates, vec![node("a", "zone-a"), service, pod(1, "a", true)]).await;
        let is_labelled =
            || cluster.slices()[0]["metadata"]["labels"].get("service.kubernetes.io/headless").is_some();
        assert!(is_labelled());
        for (change, want) in [(back, !on), (headless, true)] {
            cluster.patch("services", external.clone()).await;
            cluster.patch("services", change).await;
            assert_eq!(is_labelled(), want);
            assert_eq!(cluster.slice_writes().len(), usize::from(on));
        }
        assert_eq!(cluster.slice_endpoints().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn slice_compaction() {
    for (gates, on) in on_and_off(Gate::SliceCompaction) {
        let mut objects = vec![node("a", "zone-a"), service()];
        objects.extend((1..=16).map(|number| pod(number, "a", true)));
        let cluster = start(gates, objects).await;
        assert_eq!(cluster.slices().len(), 4);
        // Three of four pods no longer match the selector.
        let mut unselected: Vec<Value> =
            (1..=16).filter(|number| number % 4 != 0).map(|number| pod(number, "a", true)).collect();
        for pod in &mut unselected {
            pod["metadata"]["labels"] = json!({});
        }
        cluster.load(unselected).await;
        for round in 0..8 {
            cluster.load([pod(4, "a", round % 2 == 0)]).await;
            assert!(cluster.slice_writes().len() <= 2, "at most one write more than without the gate");
            assert_eq!(cluster.slice_endpoints().len(), 4);
        }
        // Two slices that together are half full do not count as sparse.
        assert_eq!(cluster.slices().len(), if on { 2 } else { 4 });
    }
}

#[tokio::test(start_paused = true)]
async fn safe_write_order() {
    for (gates, on) in on_and_off(Gate::SafeWriteOrder) {
        let on_port = |number: usize, port: usize| pod_on_port(number, "a", true, port);
        let objects = vec![
            node("a", "zone-a"),
            service(),
            on_port(1, 8080),
            on_port(2, 8080),
            on_port(3, 9090),
            on_port(4, 9090),
        ];
        let cluster = start(gates, objects).await;
        // Two pods swap slices. Two updates alone would remove one of the pods for a moment.
        cluster.load([on_port(1, 9090), on_port(3, 8080)]).await;
        let writes: &[&str] = if on { &["POST", "PUT", "PUT"] } else { &["PUT", "PUT"] };
        assert_eq!(cluster.slice_writes(), writes);
        assert_eq!(cluster.slice_endpoints().len(), 4);
    }
}

#[tokio::test(start_paused = true)]
async fn writes_after_failed_create() {
    for (gates, on) in on_and_off(Gate::WritesAfterFailedCreate) {
        let objects = vec![node("a", "zone-a"), service(), pod(1, "a", true), pod(2, "a", true)];
        let cluster = start(gates, objects).await;
        let refuse = Fault::Refuse { status: 403, retry_after: None };
        cluster.server.add_fault(FaultRule::on(refuse, "create", "endpointslices"));
        // One pod needs a slice of its own, for its port has another number; another becomes
        // unready.
        cluster.load([pod_on_port(3, "a", true, 9090), pod(2, "a", false)]).await;
        assert!(cluster.slice_writes().contains(&"POST".to_owned()));
        let ready = |endpoint: &Value| endpoint["conditions"]["ready"] == true;
        let ready = cluster.slice_endpoints().into_iter().filter(ready).count();
        assert_eq!(ready, if on { 1 } else { 2 });
        cluster.stop().await;
    }
}
