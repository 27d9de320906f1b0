//! Tests of the objects that the builder makes, of the inputs that a plan gets, and of applying
//! writes.

use std::sync::Arc;

use k8s_openapi::api::core::v1 as corev1;
use kube_endpoint_core_model::{
    AddressType, Endpoint, EndpointSlice, Endpoints, IpFamily, StringMap, Writes,
};
use kube_endpoint_testing::{Cluster, Inputs, Redacted};

/// Plans one slice with the ready pods: creates it, or updates it.
fn one_slice(inputs: &Inputs) -> Writes<EndpointSlice> {
    let ready = inputs.pods.iter().filter(|pod| pod.is_ready());
    let address = |pod: &Arc<kube_endpoint_core_model::Pod>| Endpoint {
        addresses: pod.addresses(IpFamily::IPv4).map(|ip| ip.to_string().into()).collect(),
        node_name: pod.node_name.clone(),
        zone: pod.node_name.as_ref().and_then(|node| inputs.nodes[node].zone.clone()),
        ..Endpoint::default()
    };
    let endpoints: Vec<Endpoint> = ready.map(address).collect();
    let mut writes = Writes::default();
    match inputs.slices.first() {
        None => {
            let mut slice =
                EndpointSlice { address_type: AddressType::IPv4, endpoints, ..Default::default() };
            slice.metadata.namespace = inputs.key.namespace.clone();
            slice.metadata.generate_name = format!("{}-", inputs.key.name).into();
            slice.metadata.labels =
                StringMap::default().with("kubernetes.io/service-name", inputs.key.name.clone());
            writes.create.push(slice);
        }
        Some(slice) if slice.endpoints != endpoints => {
            writes.update.push(EndpointSlice { endpoints, ..EndpointSlice::clone(slice) });
        }
        Some(_) => {}
    }
    writes
}

fn two_zones() -> Cluster {
    Cluster::new().node("a").zone("eu-1").node("b").zone("eu-2").service("web").pods("web", 3)
}

#[test]
fn objects_are_the_same_at_every_run() {
    assert_eq!(two_zones(), two_zones());
    insta::assert_snapshot!(
        serde_json::to_string_pretty(two_zones().select("Pod", "web-2").object("Pod", "web-2").unwrap())
            .unwrap()
    );
}

#[test]
fn a_second_plan_has_nothing_left_to_write() {
    let cluster = two_zones().select("Pod", "web-2").not_ready();
    let writes = cluster.plan("web", one_slice);
    assert_eq!(writes.len(), 1);
    let cluster = cluster.apply(&writes);
    assert!(cluster.plan("web", one_slice).is_empty());
    insta::assert_snapshot!(Redacted::new(cluster.objects_of("EndpointSlice").collect::<Vec<_>>()), @r"
    EndpointSlice default/web-[1]: IPv4, no ports
      ready: 10.1.0.1 on a in eu-1
      ready: 10.1.0.3 on a in eu-1
    ");

    let cluster = cluster.select("Pod", "web-2").ready().remove("Pod", "web-3");
    let writes = cluster.plan("web", one_slice);
    assert_eq!((writes.create.len(), writes.update.len()), (0, 1));
    let cluster = cluster.apply(&writes);
    assert!(cluster.plan("web", one_slice).is_empty());
    let slice = cluster.objects_of("EndpointSlice").next().unwrap();
    assert_eq!(slice["metadata"]["generation"], 2);
    assert_eq!(slice["endpoints"][1]["addresses"][0], "10.1.0.2");
}

#[test]
fn each_write_is_a_state_in_the_order_of_the_writes() {
    let cluster = two_zones().slice("web", "old", &["10.1.0.9"]);
    let mut writes = cluster
        .plan("web", |inputs| Writes { delete: inputs.slices.clone(), ..one_slice(&Inputs::clone(inputs)) });
    writes.update.clear();
    let names = |cluster: &Cluster| -> Vec<String> {
        cluster.objects_of("EndpointSlice").map(|slice| slice["metadata"]["name"].to_string()).collect()
    };
    writes.create = vec![EndpointSlice::default()];
    writes.create[0].metadata.generate_name = "web-".into();
    writes.create[0].metadata.namespace = "default".into();
    let states: Vec<_> = cluster.states(&writes).iter().map(names).collect();
    assert_eq!(states, [vec!["\"old\"", "\"web-00001\""], vec!["\"web-00001\""]]);
}

#[test]
#[should_panic(expected = "version of the EndpointSlice default/old")]
fn a_write_that_the_server_would_refuse_as_a_conflict_panics() {
    let cluster = two_zones().slice("web", "old", &["10.1.0.9"]);
    let writes = cluster.plan("web", one_slice);
    let _ = cluster.select("EndpointSlice", "old").label("changed", "by somebody else").apply(&writes);
}

#[test]
#[should_panic(expected = "zone applies to a Node; the current object is the Service \"web\"")]
fn a_modifier_of_another_kind_panics() {
    let _ = Cluster::new().service("web").zone("eu-1");
}

#[test]
fn modifiers_reach_the_views() {
    let service = |cluster: Cluster| cluster.inputs("web").service.unwrap();
    let web = || Cluster::new().service("web");
    assert_eq!(service(web().dual_stack()).ip_families, [IpFamily::IPv4, IpFamily::IPv6]);
    assert_eq!(service(web().ipv6()).slice_families(), [IpFamily::IPv6]);
    assert!(service(web().headless()).is_headless());
    assert!(!service(web().without_selector()).selects_pods());
    assert!(!service(web().external_name("example.com")).selects_pods());
    assert!(service(web().publish_not_ready()).publish_not_ready_addresses);
    assert!(service(web().topology_aware()).topology_hints_enabled());
    assert_eq!(
        service(web().traffic_distribution("PreferClose")).traffic_distribution.as_deref(),
        Some("PreferClose")
    );
    let ports = service(web().port("http", 80, "http").port("metrics", 9090, 9090)).ports;
    assert_eq!(ports.iter().map(|port| &*port.name).collect::<Vec<_>>(), ["http", "metrics"]);

    let pod =
        |change: fn(Cluster) -> Cluster| Arc::clone(&change(web().pods("web", 1)).inputs("web").pods[0]);
    assert!(pod(Cluster::terminating).is_terminating() && pod(Cluster::terminating).is_ready());
    assert!(pod(|pods| pods.phase("Succeeded")).is_terminal());
    assert!(!pod(|pods| pods.addresses(&[])).has_pod_ip);
    assert_eq!(pod(|pods| pods.on("b")).node_name.as_deref(), Some("b"));
    assert_eq!(pod(|pods| pods.container_port("grpc", 9000)).ports[0].container_port, 9000);
    assert!(
        pod(|pods| pods.hostname("h", "web"))
            .hostname_for(&service(web()))
            .is_some_and(|name| &**name == "h")
    );

    let nodes = Cluster::new().node("a").cpu("2").control_plane().not_ready().inputs("web").nodes;
    assert!(nodes["a"].control_plane && !nodes["a"].ready);
    assert_eq!(nodes["a"].allocatable_cpu_nano, 2_000_000_000);

    let slices = web().slice("web", "mine", &["fd00::1"]).managed_by("me").hints(&["eu-1"]).inputs("web");
    assert_eq!(slices.slices_managed_by("me").len(), 1);
    assert!(slices.slices_managed_by("another").is_empty());
    assert_eq!(slices.slices[0].address_type, AddressType::IPv6);
    assert_eq!(&*slices.slices[0].endpoints[0].hints.as_ref().unwrap().for_zones[0].name, "eu-1");
}

#[test]
fn a_plan_gets_what_belongs_to_its_service() {
    let cluster = two_zones()
        .service("api")
        .pods("api", 2)
        .endpoints("api", &["10.9.0.1"])
        .slice("api", "api-1", &[])
        .namespace("other")
        .service("web")
        .pods("web", 1);
    let inputs = cluster.inputs("web");
    assert_eq!((&*inputs.key.namespace, inputs.pods.len(), inputs.nodes.len()), ("other", 1, 2));
    let inputs = cluster.namespace("default").inputs("api");
    assert_eq!((inputs.pods.len(), inputs.slices.len()), (2, 1));
    assert_eq!(&*inputs.endpoints.unwrap().subsets[0].addresses[0].ip, "10.9.0.1");
}

#[test]
fn objects_of_k8s_openapi_are_taken_as_they_are() {
    let mut node = corev1::Node::default();
    node.metadata.name = Some("a".to_owned());
    node.metadata.uid = Some("its-uid".to_owned());
    let cluster = Cluster::new().with(&node);
    assert_eq!(cluster.object("Node", "a").unwrap()["metadata"]["uid"], "its-uid");
    assert!(cluster.inputs("web").nodes.contains_key("a"));
}

#[test]
fn endpoints_are_applied_too() {
    let mut endpoints = Endpoints::default();
    (endpoints.metadata.name, endpoints.metadata.namespace) = ("web".into(), "default".into());
    let cluster = Cluster::new().apply(&Writes { create: vec![endpoints], ..Writes::default() });
    let existing = cluster.inputs("web").endpoints.unwrap();
    let cluster = cluster.apply(&Writes { delete: vec![Arc::new(existing)], ..Writes::default() });
    assert_eq!(cluster.objects(), [] as [serde_json::Value; 0]);
}
