//! Runs a small controller on the embedded server, which polls and writes one slice for each
//! Service.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointSlice};
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt as _};
use kube_endpoint_embedded_apiserver::Fault;
use kube_endpoint_testing::{Cluster, Environment, Simulation};
use serde_json::json;

/// Creates a slice for each Service that has none, and looks again a second later.
async fn create_slices(client: Client) {
    let services: Api<Service> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client.clone());
    let slices: Api<EndpointSlice> = Api::default_namespaced(client);
    let mut done = Vec::new();
    for _ in 0..2 {
        for service in services.list(&ListParams::default()).await.unwrap() {
            let name = service.name_any();
            if done.contains(&name) {
                continue;
            }
            let selected = pods.list(&ListParams::default().labels(&format!("app={name}"))).await.unwrap();
            let address = |pod: Pod| pod.status.and_then(|status| status.pod_ip);
            let endpoint = |ip| Endpoint { addresses: vec![ip], ..Endpoint::default() };
            let mut slice = EndpointSlice {
                address_type: "IPv4".to_owned(),
                endpoints: Some(selected.into_iter().filter_map(address).map(endpoint).collect()),
                ..EndpointSlice::default()
            };
            slice.metadata.generate_name = Some(format!("{name}-"));
            slice.metadata.labels =
                Some(BTreeMap::from([("kubernetes.io/service-name".to_owned(), name.clone())]));
            if slices.create(&PostParams::default(), &slice).await.is_ok() {
                metrics::counter!("slices_created", "service" => name.clone()).increment(1);
                done.push(name);
            }
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn start(environment: &mut Environment) {
    let created = metrics::counter!("starts");
    created.increment(1);
    environment.run(create_slices(environment.client()));
}

fn cluster() -> Cluster {
    Cluster::new().service("web").pods("web", 2).service("api").pods("api", 1)
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_holds_what_the_controller_wrote() {
    let simulation = Simulation::start(&cluster().server(), start).await;
    insta::assert_snapshot!(simulation.snapshot(), @r"
    EndpointSlice default/api-[1]: IPv4, no ports
      ready: 10.1.0.3

    EndpointSlice default/web-[1]: IPv4, no ports
      ready: 10.1.0.1
      ready: 10.1.0.2
    ");
    assert_eq!(simulation.writes(), ["create endpointslices 201"; 2]);
    assert_eq!(simulation.writes(), [""; 0]);
    assert_eq!(simulation.metrics().value("starts", &[]), Some(1.0));
}

#[tokio::test(start_paused = true)]
async fn faults_apply_to_the_controller_only() {
    let mut simulation = Simulation::begin(&cluster().server(), [], start);
    simulation.fault(Fault::Refuse { status: 503, retry_after: None }, "create", 1);
    simulation.create(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}})).await;
    simulation.stopped().await;
    assert_eq!(
        simulation.writes(),
        ["create endpointslices 503", "create endpointslices 201", "create endpointslices 201"]
    );
}

#[tokio::test(start_paused = true)]
async fn delayed_writes_are_carried_out_at_once() {
    let simulation = Simulation::begin(&cluster().server(), [], start);
    simulation.answer_late(Duration::from_secs(30));
    simulation.pass(Duration::from_secs(1)).await;
    assert_eq!(simulation.list("endpointslices").len(), 1);
    simulation.pass(Duration::from_secs(30)).await;
    assert_eq!(simulation.list("endpointslices").len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_crash_leaves_the_server() {
    let simulation = Simulation::begin(&cluster().server(), [], start);
    simulation.answer_late(Duration::from_secs(30));
    simulation.pass(Duration::from_secs(1)).await;
    let server = simulation.crash().await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(server.list("endpointslices").len(), 1);
}
